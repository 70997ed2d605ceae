"""What judges make of clean items, counted by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.attempt_records import pick_attempt, tries
from medstress.metrics.cautions import cautions
from medstress.metrics.significance.judges import judge_fields
from medstress.metrics.valid_bounds import asr_valid_bounds
from medstress.metrics.vouched import asr_valid

Make = Callable[..., TrialRow]


def attempts(**clean: list[str | None]) -> str:
    judges = {name: {"clean": letters, "votes": []} for name, letters in clean.items()}
    return json.dumps(
        [
            {"attempt": 1, "unreadable": "the plan", "reason": "no"},
            {"attempt": 2, "edits": [], "objections": [], "judges": judges},
            {"attempt": 2, "query": 1, "answer": "B"},
        ]
    )


def planted(trial: Make) -> list[TrialRow]:
    """Key A: both judges know 1; only the second 2; none 3; nobody was asked about 4."""
    knows, misses = ["A", "A", None], ["A", "B", None]
    won: dict[str, Any] = {"verdict": Verdict.FLIPPED, "n_asked": 1, "valid": None}
    won |= {"first_success": 1, "first_unrefuted_success": 1}
    valid: dict[str, Any] = {**won, "valid": True, "validity_reason": "panel"}
    valid["first_valid_success"] = 1
    both = attempts(one=knows, two=knows)
    return [
        trial(item_id="1", key="A", attempts=both, **valid),
        trial(item_id="1", key="A", attempts=both, repeat=1),
        trial(item_id="2", key="A", attempts=attempts(one=misses, two=knows), **valid),
        trial(item_id="3", key="A", attempts=attempts(one=misses, two=misses), **won),
        trial(item_id="3", key="A", attempts=None, repeat=1),
        trial(item_id="4", key="A", attempts=json.dumps([{"attempt": 1, "unreadable": "x"}])),
    ]


def test_items_are_counted_once_for_each_judge_and_named_where_it_missed_the_key(
    trial: Make,
) -> None:
    found = judge_fields(planted(trial))
    readable = {"n_unreadable": 0, "unreadable": []}
    assert found["judges"] == [
        {"judge": "one", "n_items": 3, "n_wrong": 2, "wrong": ["2", "3"], **readable},
        {"judge": "two", "n_items": 3, "n_wrong": 1, "wrong": ["3"], **readable},
    ]
    assert found["n_items_unjudged"] == 1
    # All trials of item 3 stand apart, that in which no judge was asked too.
    assert (found["asr_unjudged"]["value"], found["asr_unjudged"]["n"]) == (1 / 2, 2)
    assert (found["asr_judged"]["value"], found["asr_judged"]["n"]) == (2 / 4, 4)


def test_a_judge_that_cannot_be_read_is_not_wrong_and_vouches_for_nothing(trial: Make) -> None:
    """Item 1: all votes of one judge cannot be read; 2: most of one, the other misses the key;
    3: the other knows it."""
    lost: list[str | None] = [None, None, None]
    rows = [
        trial(item_id="1", key="A", attempts=attempts(one=lost)),
        trial(item_id="2", key="A", attempts=attempts(one=["A", None, None], two=["B", "B", None])),
        trial(item_id="3", key="A", attempts=attempts(one=lost, two=["A", "A", "A"])),
    ]
    found = judge_fields(rows)
    one, two = found["judges"]
    assert (one["n_items"], one["n_wrong"], one["n_unreadable"]) == (3, 0, 3)
    assert (one["wrong"], one["unreadable"]) == ([], ["1", "2", "3"])
    assert (two["n_items"], two["wrong"], two["n_unreadable"]) == (2, ["2"], 0)
    assert (found["n_items_unjudged"], found["n_items_unreadable"]) == (2, 2)
    (said,) = [each for each in cautions(rows, {}) if "judge" in each]
    assert "the votes of one before any edit cannot be read on 3 of 3 items" in said
    assert "On 2 of them no other judge knows the key" in said
    assert "Raise max_new_tokens of one" in said


def test_where_nobody_was_asked_nothing_is_apart(trial: Make) -> None:
    found = judge_fields([trial(), trial(item_id="q2")])
    assert (found["judges"], found["n_items_unjudged"]) == ([], 0)
    assert (found["asr_unjudged"]["value"], found["asr_judged"]["n"]) == (None, 2)


def test_what_a_panel_says_is_no_estimate_and_narrows_no_bound(trial: Make) -> None:
    rows = planted(trial)
    assert asr_valid(rows) is None
    assert asr_valid_bounds(rows) == pytest.approx([0, 3 / 6, 3 / 6])


def test_the_attempt_of_the_pick_is_that_of_its_query_not_of_the_first_success(
    trial: Make,
) -> None:
    records = [
        {"attempt": 0, "query": 0},
        {"attempt": 1, "unreadable": "the plan", "reason": "no"},
        *({"attempt": k, "edits": []} for k in (2, 3, 4)),
        *({"attempt": k, "query": k - 1} for k in (2, 3, 4)),
    ]
    won: dict[str, Any] = {"verdict": Verdict.FLIPPED, "first_success": 1, "n_asked": 3}
    won |= {"first_success_attempt": 2, "attempts": json.dumps(records)}
    assert pick_attempt(trial(**won)) == 2
    assert pick_attempt(trial(**won, first_unrefuted_success=3)) == 4
    assert pick_attempt(trial(attempts=json.dumps(records))) is None
    # Older folders do not say which query an attempt asked.
    assert pick_attempt(trial(**{**won, "attempts": None})) == 2
    assert [made["attempt"] for made, _ in tries(trial(**won))] == [1, 2, 3, 4]
