"""Rows and families of tested successes, from what was stored of their tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from medstress.attacks.controls.slots import Form, Slot
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.significance import members as success_families
from medstress.metrics.significance.families import Null
from medstress.metrics.significance.tests import p_of_flipped, success_test_rows
from medstress.report.significance import family_lines, success_table
from medstress.results import text
from medstress.results.html import html_table
from medstress.significance.settings import Settings
from medstress.significance.sharing import leaders

Make = Callable[..., TrialRow]


def told(trial: TrialRow, **changes: Any) -> dict[str, Any]:
    """Settings of a test, as a study keeps them."""
    settings = {
        "null": "matched",
        "controls": 30,
        "stop_at": 10,
        "max_calls": None,
        "max_controls": 999,
        "statistic": "share_correct",
        "loops": 1,
        "generator": "attacker",
        "share_controls": True,
    }
    return {"trial": trial.trial_id, "edits": trial.edits, **settings, **changes}


def found(n_distinct: int | None, n_flipped: int = 10, n_hard: int = 0) -> dict[str, Any]:
    """Thirty controls, the first of which ended in an error and are as hard."""
    return {
        "statistic": "share_correct",
        "original": [1.0] * 20,
        "fuzz": [0.0] * 20,
        "most": 30,
        "controls": [None] * 30,
        "as_hard": [i < n_hard for i in range(30)],
        "flipped": [i < n_flipped for i in range(30)],
        "n_loops": 30,
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


@pytest.mark.parametrize("null", ["matched", "flipped"])
def test_where_texts_repeat_p_of_flipped_loops_has_the_floor_of_p_and_it_is_said(
    trial: Make, null: str
) -> None:
    row = success(trial, "abel")
    # Thirty loops make six different ones, so ten of them make two.
    n_flipped = 10 if null == "matched" else 30
    one = kept(row, found(6, n_flipped), null=null)
    rows, families = success_test_rows([row], [one], {})
    assert rows[0]["p"] == 1 / 7
    assert rows[0]["p_flipped"] == (1 / 3 if null == "matched" else 1 / 7)
    assert families[0]["smallest_p"] == families[0]["smallest_p_adjusted"] == 1 / 7
    said = "texts of controls repeat and make 6 different ones: p is at least 1/7"
    summary = {"tests": rows, "significance": families}
    assert all(said in text for text in shown(summary))
    lines = "\n".join(family_lines(summary))
    assert "smallest attainable p 0.143" in lines
    assert "with 6 different controls no adjusted p-value can fall below 0.143" in lines
    assert "it takes texts for 9 controls that do not repeat" in lines


@pytest.mark.parametrize(
    ("n_flipped", "n_distinct", "p"),
    [(5, 4, 1 / 2), (15, 4, 1 / 3), (30, 4, 1 / 5), (5, 30, 1 / 6)],
)
def test_loops_that_erred_make_their_share_of_different_ones_and_at_least_one(
    n_flipped: int, n_distinct: int, p: float
) -> None:
    flipped = [True] * n_flipped + [False] * (30 - n_flipped)
    assert p_of_flipped([False] * 30, flipped, n_distinct) == p


def test_where_no_text_repeats_nothing_bounds_p_of_flipped_loops(trial: Make) -> None:
    row = success(trial, "abel")
    rows, families = success_test_rows([row], [kept(row, found(None, 10, 2))], {})
    assert (rows[0]["p"], rows[0]["p_flipped"]) == (3 / 31, 3 / 11)
    assert families[0]["smallest_p"] == 1 / 31
    assert not any("repeat" in text for text in shown({"tests": rows, "significance": families}))


def test_the_family_can_attain_what_its_test_with_most_different_texts_can(trial: Make) -> None:
    rows = [success(trial, name) for name in ("abel", "bert")]
    both = [kept(rows[0], found(3)), kept(rows[1], found(None))]
    _, (family,) = success_test_rows(rows, both, {})
    assert family["smallest_p"] == 1 / 31


def marked(trial: Make, item_id: str, attempt: int) -> TrialRow:
    """A success whose first, at attempt 1, was refuted; the search went on to `attempt`."""
    attempts = [{"query": 1, "attempt": 1}, {"query": 2, "attempt": attempt}]
    return success(
        trial,
        item_id,
        first_unrefuted_success=2,
        first_success_attempt=1,
        attempts=json.dumps(attempts),
    )


def test_the_calls_that_a_family_lacks_are_of_the_success_that_is_tested(trial: Make) -> None:
    row = marked(trial, "abel", 5)
    short = found(None) | {"most": 5, "as_hard": [False] * 5, "flipped": [False] * 5}
    one = kept(row, short, null="best_of_k", controls="adaptive", max_calls=500)
    _, (family,) = success_test_rows([row], [one], {})
    # Nine controls of five texts (5 written, 3 x (5 + 20) calls) and T (60).
    assert f"max_calls = {9 * (5 + 75) + 60} (9 controls a success)" in family["shortfall"]


@pytest.mark.parametrize(("other", "is_shared"), [(5, True), (3, False)])
def test_controls_of_best_of_k_are_shared_by_the_attempts_of_the_tested_success(
    trial: Make, other: int, is_shared: bool
) -> None:
    slot = Slot(field="stem", at=0, lead="", trail=". ", n_words=5, form=Form.SENTENCE)
    rows = [marked(trial, "abel", 5), marked(trial, "abel", other)]
    second = replace(rows[1], trial_id="t-second")
    settings = Settings(null=Null.BEST_OF_K)
    led_by = leaders([(rows[0], [slot]), (second, [slot])], settings)
    assert (led_by["t-second"] is rows[0]) is is_shared
