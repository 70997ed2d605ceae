"""Items, names, vectors and models of the goldens; none of them may ever change."""

import hashlib
import json

FIRST = ("abi", "bela", "cori", "dana", "evo", "fluda")
LAST = ("mycin", "prazole", "statin", "olol")
ILLNESSES = ("gout", "tetanus", "migraine", "scurvy", "rickets", "cholera", "measles", "typhus")
DRUGS = (*(first + last for last in LAST for first in FIRST), "sodium abimycin", "danaolol salt")
OPTIONS = ("tora", "ulo", "vexi", "wara")
DIMENSIONS = 6


def luck(text: str) -> int:
    """A number from 0 to 255 that looks drawn."""
    return hashlib.sha256(text.encode()).digest()[0]


def vectors(n_questions: int) -> str:
    """Word vectors in GloVe's text format, with no two distances alike."""
    words = {word for name in (*DRUGS, *ILLNESSES) for word in name.split()}
    words |= {f"{kind}{i}zumab" for kind in OPTIONS for i in range(n_questions)}
    lines = []
    for word in sorted(words):
        numbers = hashlib.sha256(f"vector of {word}".encode()).digest()[: 2 * DIMENSIONS]
        pairs = zip(numbers[::2], numbers[1::2], strict=True)
        lines.append(" ".join([word, *(f"{(a * 256 + b) / 32768 - 1:.5f}" for a, b in pairs)]))
    return "\n".join(lines) + "\n"


def questions(n: int, *, passages: bool = False, illnesses: bool = False) -> str:
    """Questions with four drugs as options; the third mentions none."""
    rows = []
    for i in range(n):
        options = [f"{kind}{i}zumab" for kind in OPTIONS]
        if illnesses:
            options[i % 3] = ILLNESSES[i % len(ILLNESSES)]
        types = ["diseases" if text in ILLNESSES else "drugs" for text in options]
        semantic = {"drugs": "T121", "diseases": "T047"}
        mentions = [
            {"field": "ABCD"[j], "start": 0, "end": len(text), "type": semantic[kind]}
            for j, (text, kind) in enumerate(zip(options, types, strict=True))
        ]
        row: dict[str, object] = {
            "id": f"q{i}",
            "context": "A patient with gout was seen." if i % 3 else "",
            "stem": f"What treats case {i}?",
            "options": options,
            "answer_idx": "ABCD"[i % 4],
            "mentions": [] if i == 2 else mentions,
        }
        if passages:
            row["passage"] = f"Trials of case {i} compared {options[0]} with {options[1]}."
        rows.append(row)
    return "".join(json.dumps(row) + "\n" for row in rows)


COUNTING = """
import os
from pathlib import Path

PLACE = Path(os.environ["GOLDEN_ASKED"])


def counted(asked):
    with PLACE.open("a") as stream:
        stream.write("." * len(asked))
    return asked
"""

CHOOSING = (
    COUNTING
    + '''
import hashlib
import re
import signal


def luck(text):
    return hashlib.sha256(text.encode()).digest()[0]


def key_of(prompt):
    return "ABCD"[int(re.search(r"[a-z]([0-9]+)zumab", prompt)[1]) % 4]


def options_of(prompt):
    """The listed options without how they are laid out, so that only what is asked matters."""
    return re.findall(r"[A-Za-z0-9]+(?: [A-Za-z0-9]+)*", prompt)


def seen(prompt):
    """What is asked, without spaces and marks, so that no-ops change nothing unless planted."""
    return " ".join(options_of(prompt)).lower()


def careful(prompts):
    """Right for most prompts; letters, scores, and what cannot be read."""
    return [_careful(prompt) for prompt in counted(prompts)]


def _careful(prompt):
    key, drawn = key_of(prompt), luck(seen(prompt))
    if drawn < 12:
        return "no idea"
    if drawn < 60:
        return "ABCD"["BCDA".index(key)]
    if drawn < 140:
        return key
    high = 0.5 + drawn / 600
    return {"scores": {each: high if each == key else (1 - high) / 3 for each in "ABCD"}}


def soft(prompts):
    """Scores that a hash of the prompt moves."""
    return [_soft(prompt) for prompt in counted(prompts)]


def _soft(prompt):
    key = key_of(prompt)
    raw = {each: 1 + luck(each + prompt) / 128 for each in "ABCD"}
    raw[key] += 1.2
    return {"scores": {each: value / sum(raw.values()) for each, value in raw.items()}}


def killed(prompts):
    """Like `soft`, but the first process that asks it 25 times is killed."""
    told = soft(prompts)
    if len(PLACE.read_text()) == 25:
        os.kill(os.getpid(), signal.SIGKILL)
    return told
'''
)

RULES = """{"pattern": "[a-z]mycin", "reply": "I would say (B)."}
{"pattern": "statin", "reply": "hard to tell"}
{"pattern": "case [048]", "reply": "The answer is A."}
{"pattern": "case [159]", "reply": "The answer is B."}
{"pattern": ".", "reply": "The answer is C."}
"""

TAGGING = (
    COUNTING
    + '''
KNOWN = {"aspirin", "warfarin", "morphine", "naproxen"}


def tags(sentences):
    """Marks the names it knows."""
    return [_tags(words) for words in counted(sentences)]


def _tags(words):
    marks = []
    for i, word in enumerate(words):
        if word.lower() == "acid" and i and words[i - 1].lower() == "salicylic":
            marks.append("I-Chemical")
        else:
            known = word.lower() == "salicylic" or word.lower() in KNOWN
            marks.append("B-Chemical" if known else "O")
    return marks


def context(sentences):
    """Marks the word after `received` or `and`, whatever it is."""
    return [
        ["B-Chemical" if i and words[i - 1] in ("received", "and") else "O"
         for i, _ in enumerate(words)]
        for words in counted(sentences)
    ]


def overlap(pairs):
    sets = [(set(a.lower().split()), set(b.lower().split())) for a, b in counted(pairs)]
    return [len(a & b) / len(a | b) for a, b in sets]


def lengths(pairs):
    return [min(len(a), len(b)) / max(len(a), len(b)) for a, b in counted(pairs)]
'''
)

MARKED = """Aspirin/B relieves headache quickly
Patients received warfarin/B and morphine/B
Nothing happened there
Salicylic/B acid/I helps many patients
Children with fever received ibuprofen/B
Severe bleeding followed warfarin/B therapy
Neither naproxen/B nor aspirin/B prevented fever
"""
IOB = "\n".join(
    "".join(
        f"{word}\t{f'{mark}-Chemical' if mark else 'O'}\n"
        for word, _, mark in (each.partition("/") for each in line.split())
    )
    for line in MARKED.splitlines()
)

DOCUMENTS = {
    "11": ("Aspirin and warfarin help.", "Patients received morphine. Warfarin was given later."),
    "12": ("Naproxen in severe pain.", "Nothing but naproxen and salicylic acid was tried."),
    "13": ("Morphine was stopped.", "Bleeding began. Aspirin, then warfarin, had been taken."),
    "14": ("Pain after surgery.", "Aspirin failed. Patients received morphine and warfarin."),
}
CHEMICALS = {
    "aspirin": "D1",
    "warfarin": "D2",
    "morphine": "D3",
    "naproxen": "D4",
    "salicylic acid": "D5",
}


def pubtator() -> str:
    """The documents in the layout of PubTator."""
    blocks = []
    for number, (title, abstract) in DOCUMENTS.items():
        whole = f"{title} {abstract}"
        found = sorted(
            (start, name)
            for name in CHEMICALS
            for start in range(len(whole))
            if whole.lower().startswith(name, start)
        )
        lines = [f"{number}|t|{title}", f"{number}|a|{abstract}"]
        for start, name in found:
            end = start + len(name)
            lines.append(
                f"{number}\t{start}\t{end}\t{whole[start:end]}\tChemical\t{CHEMICALS[name]}"
            )
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


SYNONYMS = """concept,name
C1,aspirin
C1,acetylsalicylic acid
C2,warfarin
C2,coumadin
C3,morphine
C3,morphia
C4,salicylic acid
C4,hydroxybenzoic acid
"""

PAIRS = """id\ttext_a\ttext_b\tscore
p1\tAspirin relieves severe pain\tAspirin relieves pain\t3.5
p2\tWarfarin thins the blood\tWarfarin prevents clots\t2
p3\tDogs bark loudly\tPatients received morphine\t0
p4\tNaproxen helps patients\tNaproxen helps many patients\t4
p5\tAspirin relieves pain\tIbuprofen relieves pain in children\t2.5
p6\tMorphine was stopped because of nausea\tNausea ended the use of morphine\t3
"""

CASES = (
    ("The cough of this patient has lasted for weeks.", "A", "ferryman"),
    ("The rash of this patient itches at night.", "B", "lacemaker"),
    ("The knee of this patient is swollen and warm.", "C", None),
    ("The hearing of this patient is worse on the left.", "D", "ferryman"),
    ("The sleep of this patient is short and shallow.", "A", "wrong"),
)
"""Text, key, and the word in the case that misleads the target; `wrong`: it is misled anyway."""


def vignettes() -> str:
    """Vignettes, each marked with its number in angle brackets."""
    rows = [
        {
            "id": f"v{i}",
            "context": f"{text} (note <{i}>)",
            "stem": "Which remedy is right?",
            "options": [f"{kind}{i}zumab" for kind in OPTIONS],
            "answer": key,
        }
        for i, (text, key, _) in enumerate(CASES)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


ROLES = (
    COUNTING
    + f"""
import json
import re

CASES = {CASES!r}
"""
)
ROLES += '''
SCRIPT = tuple(
    f"The patient {what}." for what in ("works as a clerk", "is a lacemaker", "is a ferryman")
)
"""What the attacker inserts, attempt by attempt."""


def number_of(turns):
    """The vignette that a conversation is about: the last mark of the first turn that has one."""
    for turn in turns:
        if found := re.findall(r"<([0-9])>", turn["content"]):
            return int(found[-1])
    return None


def misled(number, text):
    cue = CASES[number][2]
    return cue == "wrong" or (cue is not None and cue in text)


def letter(number, wrong):
    key = CASES[number][1]
    return "ABCD"["BCDA".index(key)] if wrong else key


def target(conversations):
    """Reasoning, confidences and the letter in one reply: whatever is asked can be read from it."""
    return [_target(turns) for turns in counted(conversations)]


def _target(turns):
    number = number_of(turns)
    case = next(turn["content"] for turn in turns if f"<{number}>" in turn["content"])
    wrong = misled(number, case[case.rindex("of this patient") :])
    answer = letter(number, wrong)
    confidence = {each: 4 if each == answer else 2 for each in "ABCD"}
    why = f"~~ {CASES[number][2]} decides." if wrong else "~~ The findings decide."
    return why + " " + json.dumps({"confidence": confidence, "answer": answer})


def attacker(conversations):
    """Plan and insertion in one reply: whatever is asked can be read from it."""
    return [_attacker(turns) for turns in counted(conversations)]


def _attacker(turns):
    said = sum(turn["role"] == "assistant" for turn in turns)
    number = number_of(turns)
    words = " " + SCRIPT[said // 2 % len(SCRIPT)]
    reply = {
        "post_mortem": "It was not believed.",
        "target_option": letter(number, True),
        "plan": "Insert it.",
        "insertions": [{"text": words, "where": f"(note <{number}>)", "category": "work"}],
    }
    return json.dumps(reply)


def judge(conversations):
    """Keeps the key; a reasoning, marked ~~, names a detail if its word is in both."""
    return [_judge(turns) for turns in counted(conversations)]


def _judge(turns):
    text, number = turns[-1]["content"], number_of(turns)
    if number is None:
        return json.dumps({"reasoning": "read", "answer": "NO", "evidence": []})
    _, key, cue = CASES[number]
    if "~~" in text:
        key = "YES" if cue is not None and text.count(cue) > 2 else "NO"
    return json.dumps({"reasoning": "read", "answer": key})
'''
