"""A run with a near and a random arm says what survives of the advantage; so does a script."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from medstress.api.run import Run, run
from medstress.cli.app import medstress_cli
from medstress.core.outcomes import Verdict
from medstress.testing import tiny_questions
from question_rows import as_row

N = 30
ITEMS = tiny_questions(N)
SECRET, WRONG = "um", "ix"
"""Endings: with one a name is the key, in a spelling that no table knows; with the other not."""
OTHERS = [f"{a}{b}{c}ol" for a in ("zur", "qua", "fli") for b in ("bo", "di", "ke") for c in "mnpt"]

VICTIM = f"""
from medstress.testing import planted, tiny_questions

answer = planted(
    tiny_questions({N}),
    lambda item, options: any(item.key_text + end in options for end in ("{SECRET}", "{WRONG}")),
)
"""


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A victim that takes near names for the key: half of them are the key in other words."""
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "victim.py").write_text(VICTIM, "utf-8")
    near = sorted({item.key_text + end for item, end in zip(ITEMS, ends(), strict=True)})
    (tmp_path / "names.txt").write_text("\n".join([*near, *OTHERS]), "utf-8")
    rows = [as_row(item) for item in ITEMS]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    attack = {"name": "entity_substitution", "budget": 1}
    return {
        "experiment": {"controls": False, "name": "x", "seeds": [0]},
        "dataset": [{"name": "jsonl", "label": "cases", "path": str(tmp_path / "rows.jsonl")}],
        "entities": [
            {"type": "drugs", "vocabulary": str(tmp_path / "names.txt"), "embedding": "ngram"}
        ],
        "victim": [{"backend": "python", "name": "v", "target": f"{tmp_path}/victim.py:answer"}],
        "attack": [
            {**attack, "label": "near", "sampler": "nearest"},
            {**attack, "label": "random", "sampler": "random"},
        ],
    }


def ends() -> list[str]:
    """One ending for every key, the same wherever a key comes back."""
    known: dict[str, str] = {}
    for item in ITEMS:
        known.setdefault(item.key_text, SECRET if len(known) % 2 else WRONG)
    return [known[item.key_text] for item in ITEMS]


def judge(found: Run, tmp_path: Path) -> list[bool]:
    """Read in the truth about every success, as a sheet drawn at random."""
    sheet = tmp_path / "sheet.csv"
    end_of = dict(zip((item.id for item in ITEMS), ends(), strict=True))
    rows = [row for row in found.rows() if row.verdict is Verdict.FLIPPED]
    valid = [not str(row.replacement).lower().endswith(SECRET) for row in rows]
    assert valid == [end_of[row.item_id] == WRONG for row in rows]
    with sheet.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["trial_id", "reviewer", "human_valid"])
        for row, word in zip(rows, valid, strict=True):
            writer.writerow([row.trial_id, "AB", "yes" if word else "no"])
    flags = ["--import", str(sheet), "--drawn-at-random", "7"]
    assert medstress_cli(["review", str(found.folder), *flags]) == 0
    return valid


def test_a_run_says_what_survives_before_and_after_labels_and_the_script_says_the_same(
    experiment: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    script: Callable[[str], ModuleType],
) -> None:
    found = run(experiment, out=tmp_path / "run")
    (row,) = found.summary()["near_advantage"]
    assert row["advantage"]["low"] > 0.5
    assert row["share"]["worst"]["value"] <= 0
    assert row["share"]["best"]["value"] >= 1
    assert row["share"]["labels"] is None
    valid = judge(found, tmp_path)
    capsys.readouterr()
    assert medstress_cli(["summary", str(found.folder)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "if only valid successes count" in out
    assert "labels" in out
    (row,) = Run(found.folder).summary()["near_advantage"]
    known = row["share"]["labels"]
    assert 0.3 < known["low"] < known["value"] < known["high"] < 0.8
    if row["advantage"]["value"] == 1:
        assert known["value"] == pytest.approx(sum(valid) / len(valid))
    assert script("near_regime").survival_of_run(found.folder) == [row]


def test_the_script_refuses_a_run_without_both_arms(
    experiment: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    script: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    experiment["attack"] = experiment["attack"][:1]
    experiment["dataset"][0]["limit"] = 2
    found = run(experiment, out=tmp_path / "alone")
    assert "near_advantage" not in found.summary()
    near_regime = script("near_regime")
    monkeypatch.setattr("sys.argv", ["near_regime.py", str(found.folder)])
    assert near_regime.main() == 2
    assert "no attack draws at random: expected one" in capsys.readouterr().err
