"""Data and victims of the frozen experiments; kept run folders know them by these very words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from medstress.testing import tiny_questions

FIRST = ("abi", "bela", "cori", "dana", "evo", "fluda")
LAST = ("mycin", "prazole", "statin", "olol")
NAMES = "\n".join(a + b for b in LAST for a in FIRST) + "\n"

LOG = '''
import hashlib
import json
import os


def noted(asked):
    """Note what was asked, and pass it on."""
    asked = list(asked)
    if log := os.environ.get("ASKED"):
        with open(log, "a", encoding="utf-8") as stream:
            stream.write("".join(json.dumps(each) + "\\n" for each in asked))
    return asked


def luck(text):
    """A number of 0 to 255 that looks drawn."""
    return hashlib.sha256(text.encode()).digest()[0]
'''

CHOOSING = (
    LOG
    + '''
import re


def key_of(prompt):
    return "ABCD"[int(re.search(r"case ([0-9]+)", prompt)[1]) % 4]


def careful(prompts):
    """Right for most prompts; letters, scores and what nobody can read."""
    return [_careful(prompt) for prompt in noted(prompts)]


def _careful(prompt):
    key, drawn = key_of(prompt), luck(prompt)
    if drawn < 12:
        return "no idea"
    if drawn < 60:
        return {"answer": "ABCD"["BCDA".index(key)]}
    if drawn < 140:
        return key
    high = 0.5 + drawn / 600
    return {"scores": {each: high if each == key else (1 - high) / 3 for each in "ABCD"}}


def soft(prompts):
    """Scores that a hash of the prompt moves."""
    told = []
    for prompt in noted(prompts):
        key = key_of(prompt)
        raw = {each: 1 + luck(each + prompt) / 128 for each in "ABCD"}
        raw[key] += 1.2
        told.append({"scores": {each: value / sum(raw.values()) for each, value in raw.items()}})
    return told


def wordy(prompts):
    """Sentences that a parser reads."""
    told = []
    for prompt in noted(prompts):
        key, drawn = key_of(prompt), luck("wordy" + prompt)
        letter = "ABCD"["BCDA".index(key)] if drawn < 50 else key
        told.append("I cannot say." if drawn > 245 else f"The answer is {letter}.")
    return told


def broken(prompts):
    """Raises where a hash says so."""
    for prompt in noted(prompts):
        if luck("broken" + prompt) < 40:
            raise RuntimeError("no answer today")
    return [key_of(prompt) for prompt in prompts]
'''
)

TAGGING = (
    LOG
    + '''
KNOWN = {"aspirin", "warfarin", "morphine", "naproxen", "acid"}


def tags(sentences, also=()):
    return [_tags(words, {*KNOWN, *also}) for words in noted(sentences)]


def _tags(words, known):
    marks = []
    for i, word in enumerate(words):
        inside = word.lower() == "acid" and i and words[i - 1].lower() == "salicylic"
        if word.lower() == "salicylic":
            marks.append("B-Chemical")
        elif inside:
            marks.append("I-Chemical")
        else:
            marks.append("B-Chemical" if word.lower() in known else "O")
    return marks


def context(sentences):
    """Marks the word after `received` or `and`, whatever it is."""
    return [
        ["B-Chemical" if i and words[i - 1] in ("received", "and") else "O"
         for i, _ in enumerate(words)]
        for words in noted(sentences)
    ]


def original_0(sentences):
    return tags(sentences)


def original_1(sentences):
    return tags(sentences, {"ibuprofen"})


def swap_noise_0(sentences):
    return tags(sentences, {"".join(w[0] + w[2] + w[1] + w[3:]) for w in KNOWN})


def swap_noise_1(sentences):
    return tags(sentences, {w[:-3] + w[-2] + w[-3] + w[-1] for w in KNOWN})


def overlap(pairs):
    sets = [(set(a.lower().split()), set(b.lower().split())) for a, b in noted(pairs)]
    return [len(a & b) / len(a | b) for a, b in sets]


def lengths(pairs):
    return [min(len(a), len(b)) / max(len(a), len(b)) for a, b in noted(pairs)]
'''
)


def speaking(n: int, target: str, script: Sequence[str]) -> str:
    """Scripted roles about `n` tiny questions."""
    return f"""{LOG}
from medstress.testing import rule_target, scripted_attacker, scripted_judge, tiny_questions

ITEMS = tiny_questions({n})
SPEAKERS = {{
    "target": rule_target(ITEMS, {target}),
    "attacker": scripted_attacker(ITEMS, {list(script)!r}),
    "judge": scripted_judge(ITEMS),
    "second": scripted_judge(ITEMS, wrong=["tiny-1"]),
}}


def target(conversations):
    return SPEAKERS["target"](noted(conversations))


def attacker(conversations):
    return SPEAKERS["attacker"](noted(conversations))


def judge(conversations):
    return SPEAKERS["judge"](noted(conversations))


def second(conversations):
    return SPEAKERS["second"](noted(conversations))
"""


IOB = """Aspirin B-Chemical
relieves O
headache O
quickly O

Patients O
received O
warfarin B-Chemical
and O
morphine B-Chemical

Nothing O
happened O
there O

Salicylic B-Chemical
acid I-Chemical
helps O
many O
patients O

Children O
with O
fever O
received O
ibuprofen B-Chemical

Severe O
bleeding O
followed O
warfarin B-Chemical
therapy O

Neither O
naproxen B-Chemical
nor O
aspirin B-Chemical
prevented O
fever O
""".replace(" ", "\t")

DOCUMENTS = {
    "11": ("Aspirin and warfarin help.", "Patients received morphine. Warfarin was given later."),
    "12": ("Naproxen in severe pain.", "Nothing but naproxen and salicylic acid was tried."),
    "13": ("Morphine was stopped.", "Bleeding began. Aspirin, then warfarin, had been taken."),
}
CHEMICALS = ("aspirin", "warfarin", "morphine", "naproxen", "salicylic acid")

SYNONYMS = """concept,name
C1,aspirin
C1,acetylsalicylic acid
C2,warfarin
C2,coumadin
C3,morphine
C3,MS
C4,salicylic acid
C4,SA
"""
CHEMICAL_NAMES = "\n".join(
    ("aspirin", "aspirine", "warfarin", "warfarinol", "morphine", "morphinan", "naproxen sodium")
)

PAIRS = """id\ttext_a\ttext_b\tscore
p1\tAspirin relieves severe pain\tAspirin relieves pain\t3.5
p2\tWarfarin thins the blood\tWarfarin prevents clots\t2
p3\tDogs bark loudly\tPatients received morphine\t0
p4\tNaproxen helps patients\tNaproxen helps many patients\t4
p5\tAspirin relieves pain\tIbuprofen relieves pain in children\t2.5
p6\tMorphine was stopped because of nausea\tNausea ended the use of morphine\t3
"""


def pubtator() -> str:
    """The documents in the layout of PubTator."""
    blocks = []
    for number, (title, abstract) in DOCUMENTS.items():
        lines = [f"{number}|t|{title}", f"{number}|a|{abstract}"]
        whole = f"{title} {abstract}"
        found = [
            (whole.lower().index(name, at), name)
            for name in CHEMICALS
            for at in range(len(whole))
            if whole.lower().startswith(name, at)
        ]
        for start, name in sorted(found):
            end = start + len(name)
            lines.append(f"{number}\t{start}\t{end}\t{whole[start:end]}\tChemical\tD{len(name)}")
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def questions(n: int) -> str:
    """Questions with four drugs as JSONL; the third mentions none, one lacks a fourth option."""
    rows = []
    for i in range(n):
        options = [f"{kind}{i}zumab" for kind in ("tora", "ulo", "vexi", "wara")]
        mentions = [
            {"field": "ABCD"[j], "start": 0, "end": len(text), "type": "T121"}
            for j, text in enumerate(options)
        ]
        row: dict[str, Any] = {
            "id": f"q{i}",
            "context": "A patient with gout was seen." if i % 3 else "",
            "stem": f"What treats case {i}?",
            "options": options,
            "answer_idx": "ABCD"[i % 4],
            "mentions": [] if i == 2 else mentions,
            "metadata": {"topic": "made up", "year": 2020 + i},
        }
        rows.append(row)
    return "".join(json.dumps(row) + "\n" for row in rows)


def tiny(n: int) -> str:
    """Tiny questions as JSONL."""
    return "".join(
        json.dumps(
            {
                "id": q.id,
                "context": q.context,
                "stem": q.stem,
                "options": list(q.options),
                "answer": q.key,
            }
        )
        + "\n"
        for q in tiny_questions(n)
    )
