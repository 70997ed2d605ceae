"""Victims that give scores, from end to end: confidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import medstress as ms
from medstress.report.page import render_report
from medstress.results.load import open_run
from medstress.results.rows import trial_rows

VICTIMS = '''
import hashlib
import re


def _key(prompt):
    """The key of question i is letter i mod 4."""
    return "ABCD"[int(re.search(r"case ([0-9]+)", prompt)[1]) % 4]


def _luck(prompt, of=""):
    return int(hashlib.sha256((of + prompt).encode()).hexdigest()[:8], 16) / 16**8


def _scores(chosen, confidence):
    return {"scores": {x: confidence if x == chosen else (1 - confidence) / 3 for x in "ABCD"}}


def _other(letter):
    return "ABCD"["BCDA".index(letter)]


def overconfident(prompts):
    """.97 sure of everything; wrong on a third of the prompts, by a hash."""
    return [_scores(_key(p) if _luck(p) > 1 / 3 else _other(_key(p)), 0.97) for p in prompts]


def calibrated(prompts):
    """As often right as it is sure: .55, .75 or .95."""
    answers = []
    for p in prompts:
        confidence = (0.55, 0.75, 0.95)[int(_luck(p, "sure") * 3)]
        answers.append(_scores(_key(p) if _luck(p) < confidence else _other(_key(p)), confidence))
    return answers


def letters(prompts):
    return [_key(p) if _luck(p) > 0.4 else _other(_key(p)) for p in prompts]
'''


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workbench: Any) -> Path:
    """The workbench's questions, 120 of them, and the planted victims."""
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    bench = workbench.Bench(tmp_path)
    bench.write_items(workbench.questions(120, context="A man."))
    (tmp_path / "v.py").write_text(VICTIMS, encoding="utf-8")
    return tmp_path


def experiment(*victims: str | dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "experiment": {"name": "x", "seeds": [0, 1], "controls": False, "flip_check": False},
        "dataset": {"name": "jsonl", "path": "items.jsonl", "label": "cases"},
        "entities": {"type": "drugs", "vocabulary": "names.txt", "embedding": "ngram"},
        "victim": [
            {"name": each, "backend": "python", "target": f"v.py:{each}"}
            if isinstance(each, str)
            else each
            for each in victims
        ],
        "attack": {"name": "entity_substitution", "sampler": "random", "budget": 2},
        **more,
    }


def test_an_overconfident_and_a_calibrated_victim_are_told_apart() -> None:
    run = ms.run(experiment("overconfident", "calibrated", "letters"), out="run")
    rows = {row["victim"]: row for row in run.summary()["pooled"]}
    sure, calibrated, silent = (rows[name] for name in ("overconfident", "calibrated", "letters"))
    accuracy = sure["accuracy"]["value"]
    assert sure["calibration_before"]["value"] == pytest.approx(0.97 - accuracy)
    assert sure["calibration_before"]["low"] > 0.15
    assert calibrated["calibration_before"]["low"] == 0
    assert sure["flips_confident"]["value"] == 1
    assert 0 < calibrated["flips_confident"]["value"] < 1
    # Half of the right answers flip; the others do not move.
    assert sure["key_probability_change"]["value"] == pytest.approx((0.01 - 0.97) / 2, abs=1e-6)
    # One confidence for all says nothing; the other's tells errors.
    before = sure["risk_coverage"]["before"]
    assert [each["coverage"] for each in before["points"]] == [1]
    curve = calibrated["risk_coverage"]["before"]
    assert curve["area"]["value"] < curve["points"][-1]["value"]
    # Searching for errors finds them at any confidence, so that the attack spoils calibration.
    for row in (sure, calibrated):
        assert row["calibration_after"]["value"] > row["calibration_before"]["high"]
    assert silent["calibration_before"]["value"] is None
    assert silent["calibration_before"]["method"] == "the victim gives no scores"


def test_rows_hold_the_confidence_of_the_chosen_option_and_the_page_shows_it() -> None:
    ms.run(experiment("overconfident", "letters"), out="run")
    with open_run(Path("run")) as stored:
        rows = trial_rows(stored)
        summary = ms.Run(Path("run")).summary()
        page = render_report(summary, rows, stored.manifest)
    for row in rows:
        if row.victim == "letters" or row.answer_before is None:
            assert row.confidence_before is None
            continue
        assert row.confidence_before == pytest.approx(0.97)
        if row.verdict == "already_wrong":
            assert row.score_before == pytest.approx(0.01)
        if row.verdict == "flipped":
            assert row.first_success_confidence == pytest.approx(0.97)
            assert row.first_success_score == pytest.approx(0.01)
    assert '<h2 id="sureness">' in page
    assert "Confident flips" in page


def test_a_page_of_a_victim_without_scores_does_not_speak_of_confidence() -> None:
    ms.run(experiment("letters"), out="run")
    with open_run(Path("run")) as stored:
        page = render_report(ms.Run(Path("run")).summary(), trial_rows(stored), stored.manifest)
    assert '<h2 id="sureness">' not in page
    assert "Calibration error" not in page
