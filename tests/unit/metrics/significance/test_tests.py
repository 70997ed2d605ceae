"""Rows and families of tested successes, from what was stored of their tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.significance import members as success_families
from medstress.metrics.significance.tests import success_test_rows
from medstress.report.significance import family_lines, success_table
from medstress.results import text
from medstress.results.html import html_table

Make = Callable[..., TrialRow]


def told(trial: TrialRow, **changes: Any) -> dict[str, Any]:
    """Settings of a test, as a study keeps them."""
    settings = {
        "null": "matched",
        "controls": 30,
        "max_calls": None,
        "generator": "attacker",
    }
    return {"trial": trial.trial_id, "edits": trial.edits, **settings, **changes}


def found(n_distinct: int | None, n_hard: int = 0) -> dict[str, Any]:
    """Thirty controls, the first of which are as hard."""
    return {
        "statistic": "share_correct",
        "original": [1.0] * 20,
        "fuzz": [0.0] * 20,
        "most": 30,
        "controls": [None] * 30,
        "as_hard": [i < n_hard for i in range(30)],
        "n_distinct": n_distinct,
        "edits": [],
    }


def kept(trial: TrialRow, result: dict[str, Any], **changes: Any) -> success_families.StoredTest:
    return success_families.StoredTest(spec=told(trial, **changes), findings=result, note=None)


def success(trial: Make, item_id: str, **changes: Any) -> TrialRow:
    return trial(
        trial_id=f"t-{item_id}",
        item_id=item_id,
        verdict=Verdict.FLIPPED,
        first_success=1,
        attack="medfuzz",
        attack_spec=json.dumps({"attempts": 3}),
        **changes,
    )


def shown(summary: dict[str, Any]) -> tuple[str, str]:
    """The rows of tests, in the terminal and in the report."""
    table = success_table(summary)
    return "\n".join(" | ".join(row) for row in text.rows(table)), html_table(table)


def test_where_texts_repeat_p_has_a_floor_and_it_is_said(trial: Make) -> None:
    row = success(trial, "abel")
    # Thirty loops make six different ones.
    rows, families = success_test_rows([row], [kept(row, found(6))], {})
    assert rows[0]["p"] == 1 / 7
    assert families[0]["smallest_p"] == families[0]["smallest_p_adjusted"] == 1 / 7
    said = "texts of controls repeat and make 6 different ones: p is at least 1/7"
    summary = {"tests": rows, "significance": families}
    assert all(said in text for text in shown(summary))
    lines = "\n".join(family_lines(summary))
    assert "smallest attainable p 0.143" in lines
    assert "with 6 different controls no adjusted p-value can fall below 0.143" in lines
    assert "it takes texts for 9 controls that do not repeat" in lines


def test_where_no_text_repeats_nothing_bounds_p(trial: Make) -> None:
    row = success(trial, "abel")
    rows, families = success_test_rows([row], [kept(row, found(None, 2))], {})
    assert rows[0]["p"] == 3 / 31
    assert families[0]["smallest_p"] == 1 / 31
    assert not any("repeat" in text for text in shown({"tests": rows, "significance": families}))


def test_the_family_can_attain_what_its_test_with_most_different_texts_can(trial: Make) -> None:
    rows = [success(trial, name) for name in ("abel", "bert")]
    both = [kept(rows[0], found(3)), kept(rows[1], found(None))]
    _, (family,) = success_test_rows(rows, both, {})
    assert family["smallest_p"] == 1 / 31


def test_the_calls_that_a_family_lacks_are_told(trial: Make) -> None:
    row = success(trial, "abel")
    short = found(None) | {"most": 5, "as_hard": [False] * 5}
    one = kept(row, short, controls="adaptive", max_calls=500)
    _, (family,) = success_test_rows([row], [one], {})
    # Nine controls of three texts (3 written, 3 x (3 + 20) calls) and T (60).
    assert f"max_calls = {9 * (3 + 69) + 60} (9 controls a success)" in family["shortfall"]
