"""MedFuzz on 40 questions of MedQA: roles that write in every style give what was planted."""

import json
from pathlib import Path

from medstress.api.results import Run
from medstress.cli.app import medstress_cli
from rows import rows_of

MODELS = """
import json
from pathlib import Path

from medstress.datasets.named import load_medqa
from medstress.datasets.source import DatasetOptions
from medstress.testing import rule_target

ITEMS = load_medqa(DatasetOptions(path=Path("items.jsonl"))).items
WORDS = [
    "Neighbours call {him} a lighthouse keeper.",
    "The family moved here from a village far away.",
    "Rent for the flat is overdue.",
]
CUES = {q.id: ("lighthouse", "village", "overdue", "nothing of this")[i % 4]
        for i, q in enumerate(ITEMS)}
RULE = rule_target(ITEMS, CUES)


def number(turns):
    texts = [turn["content"] for turn in turns]
    return next(i for i, q in enumerate(ITEMS) if any(q.question in text for text in texts))


def target(conversations):
    said = RULE(conversations)
    return [styled(of_case(turns), text) for turns, text in zip(conversations, said)]


def of_case(turns):
    case = turns[1]["content"]
    return next(i for i, q in enumerate(ITEMS) if q.context in case and q.stem in case)


def styled(i, said):
    if not said.startswith("{"):
        return said
    reply = json.loads(said)
    if "answer" in reply:
        letter = reply["answer"]
        return (said, letter, f"The answer is {letter}.", f"<think>A? B?</think>**{letter}**",
                f"```json\\n{said}\\n```")[i % 5]
    line = ", ".join(f"{k}: {v}" for k, v in reply["confidence"].items())
    return (said, line, f"My numbers are these.\\n{line}", f"<think>{line}</think>{said}",
            f"```json\\n{said}\\n```")[i % 5]


def attacker(conversations):
    return [attack(turns) for turns in conversations]


def attack(turns):
    i, last = number(turns), turns[-1]["content"]
    item = ITEMS[i]
    attempt = sum('"target_option"' in turn["content"] for turn in turns if turn["role"] == "user")
    wrong = next(x for x in item.letters if x != item.key)
    text = WORDS[(attempt - 1) % 3].replace("{him}", "him" if i % 2 else "her")
    if '"target_option"' in last:
        plan = json.dumps({"post_mortem": None, "target_option": wrong, "plan": "Insert it."})
        bad = json.dumps({"post_mortem": None, "target_option": item.key, "plan": "No."})
        return (plan, f"Sure.\\n```json\\n{plan}\\n```", f"{bad} Wait, that is right. {plan}",
                f"<think>{bad}</think>{plan}",
                f"I will pull the careless reader towards option {wrong} by a plain prejudice."
                )[(i + attempt) % 5]
    place = " ".join(item.context.split()[-12:]) if item.context else "start"
    edit = json.dumps({"insertions": [{"text": text, "where": "end", "category": "work"}]})
    named = json.dumps({"insertions": [{"text": text, "where": place, "category": "work"}]})
    whole = f"{item.context} {text} {item.stem}".strip()
    options = "\\n".join(f"{x}) {o}" for x, o in zip(item.letters, item.options))
    return (edit, named, f"Here is the edited question:\\n\\n{whole}\\n{options}",
            json.dumps({"modified_question": whole}), f"```\\n{edit}\\n```")[(i + 2 * attempt) % 5]
"""
FILE = """
experiment = {name = "medqa", seeds = [0], controls = false, flip_check = false}
dataset = {name = "medqa", path = "items.jsonl"}
victim = {backend = "python", target = "models.py:target"}
role.attacker = {backend = "python", target = "models.py:attacker"}
attack = {name = "medfuzz", attempts = 3, runs = 1}
"""


def test_roles_that_write_in_every_style_flip_what_was_planted(published, tmp_path, monkeypatch):
    rows = published("qa/medqa_test_first.jsonl").read_text("utf-8").splitlines()
    rows = [row for row in rows if ". " in json.loads(row)["question"]][:40]
    monkeypatch.chdir(tmp_path)
    Path("items.jsonl").write_text("\n".join(rows), "utf-8")
    Path("models.py").write_text(MODELS, "utf-8")
    Path("e.toml").write_text(FILE, "utf-8")
    assert medstress_cli(["run", "e.toml", "--out", "run", "--quiet"]) == 0
    (attempts,) = Run(tmp_path / "run").summary()["attempts"]
    assert [one["hits"] for one in attempts["curve"]] == [40, 30, 20, 10]
    assert attempts["lost_by_reason"] == {}
    for trial in rows_of(Run(tmp_path / "run")):
        for one in trial.attempts:
            for field, start, end, text in map(dict.values, one.get("edits", ())):
                assert (field, start) == ("context", end)
                assert text.strip().endswith((".", "keeper", "away", "overdue")), text
