"""Planted victims end to end: ties, edited options, and queries that change or ask nothing."""

from collections import Counter
from typing import Any

import pytest

import medstress as ms
from medstress.api.run import Run
from question_rows import write_rows
from rows import rows_of

VICTIM = '''
import re

NEW = re.compile(r"([A-D])[:.)] *\\S*zim")


def level(prompts):
    """Tells nothing apart."""
    return [{"scores": dict.fromkeys("ABCD", 0.25)} for _ in prompts]


def edited(prompts):
    """Takes any new name for the answer: two of three; else the option after it."""
    return [_answer(prompt) for prompt in prompts]


def _answer(prompt):
    found = NEW.search(prompt)
    scores = dict.fromkeys("ABCD", 0.1)
    if not found:
        return {"scores": scores | {"A": 0.7}}
    case = int(re.search(r"case (\\d+)", prompt)[1])
    at = "ABCD".index(found[1])
    wrong = found[1] if case % 3 else "BCD"[at % 3]
    return {"scores": scores | {wrong: 0.7}}
'''
N = 60
NEW = ("bazim", "cozim", "duzim")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = []
    for i in range(N):
        options = [f"{kind}{i}umab" for kind in ("tora", "ulo", "vexi", "wara")]
        spans = [(x, 0, len(text), "T121") for x, text in zip("ABCD", options, strict=True)]
        names = ("field", "start", "end", "type")
        mentions = [dict(zip(names, span, strict=True)) for span in spans]
        row = {"id": f"q{i}", "question": f"What treats case {i}?", "answer_idx": "A"}
        rows.append({**row, "options": options, "mentions": mentions})
    write_rows(tmp_path / "items.jsonl", rows)
    (tmp_path / "names.txt").write_text("\n".join(NEW), encoding="utf-8")
    (tmp_path / "victim.py").write_text(VICTIM, encoding="utf-8")
    return tmp_path


def run(victim: str, *attacks: dict[str, Any], out: str = "run", **experiment: Any) -> Run:
    return ms.run(
        {
            "experiment": {"controls": False, "name": "answers", "seeds": [0], **experiment},
            "dataset": {"name": "table", "path": "items.jsonl"},
            "entities": {"type": "drugs", "vocabulary": "names.txt", "embedding": "ngram"},
            "victim": {"name": "v", "backend": "python", "target": f"victim.py:{victim}"},
            "attack": [{"name": "entity_substitution", **attack} for attack in attacks],
        },
        out=out,
    )


def row_of(found: Run, attack: str | None = None) -> dict[str, Any]:
    rows: list[dict[str, Any]] = found.summary()["results"]
    return next(row for row in rows if attack in (None, row["attack"]))


def test_a_victim_that_tells_nothing_apart_knows_nothing_and_every_answer_is_a_tie(folder):
    """All keys are A: ties by letter would take it for one that knows everything."""
    found = run("level", {"sampler": "random", "budget": 2})
    row = row_of(found)
    assert row["accuracy"]["value"] == pytest.approx(1 / 4, abs=4 * (3 / 16 / N) ** 0.5)
    assert row["asr"]["value"] == 0  # the same letter before and after
    n_eligible = row["n_eligible"]
    assert row["n_ties"] == N + 2 * n_eligible
    answers = Counter(trial.answer_before for trial in rows_of(found))
    assert set(answers) == set("ABCD")


def test_the_goal_replaced_counts_only_answers_that_are_the_edited_option(folder):
    """By letter two attacks would be needed, and each would meet other items."""
    attacks = [
        {"name": "entity_substitution", "sampler": "random", "budget": 3, "goal": "replaced"},
        {"name": "discrete_zoo", "budget": 3, "candidates": 2, "goal": "replaced"},
    ]
    found = run("edited", *attacks)
    for attack in ("entity_substitution", "discrete_zoo"):
        row = row_of(found, attack)
        assert row["asr"]["value"] == pytest.approx(2 / 3)
        assert row["n_not_attackable"] == 0
    for trial in rows_of(found):
        held = int(trial.item_id[1:]) % 3 == 0
        assert trial.verdict.value == ("held" if held else "flipped")
        assert held or trial.answer_after == trial.option
        assert held or trial.repeats is True  # the flip check judges by the same goal
        assert trial.n_asked == (3 if held else 1)


def test_probes_that_use_up_the_budget_are_told_apart_from_resistance(folder):
    """Three spans are probed: with a budget of 3 nothing is left, with 4 one name is asked."""
    (folder / "names.txt").write_text("\n".join([*NEW, "edizim"]), encoding="utf-8")
    saliency = {"sampler": "random", "victim_span": "saliency"}
    found = run(
        "edited",
        {**saliency, "budget": 3, "label": "too little"},
        {**saliency, "budget": 4, "label": "enough"},
    )
    poor, enough = row_of(found, "too little"), row_of(found, "enough")
    assert (poor["n_never_asked"], poor["n_held"], poor["asr"]["value"]) == (N, N, 0)
    assert (poor["asr_asked"]["n"], poor["asr_asked"]["value"]) == (0, None)
    assert (enough["n_never_asked"], enough["asr"]["value"]) == (0, 1)
    assert enough["asr_asked"]["value"] == 1
    (warning,) = [each for each in found.summary()["warnings"] if each["rule"] == "saw_no_edit"]
    assert warning["where"][-1] == "too little"
    for trial in found.read().trials:
        assert trial.queries.probes == (3 if trial.arm.attack.label == "enough" else 0)
