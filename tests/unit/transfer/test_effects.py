"""The transfer matrix, its two counts and its diagonal."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.transfer.effects import Carried, transfer_rows

Make = Callable[..., TrialRow]


def matrix(trials: list[TrialRow], carried: list[Carried]) -> dict[tuple[str, str], Any]:
    return {(row["from"], row["to"]): row for row in transfer_rows(trials, carried)}


def of(row: TrialRow, victim: str, outcome: str | None, edits: str | None = None) -> Carried:
    return Carried(
        trial_id=row.trial_id,
        edits=edits or row.edits,
        victim=victim,
        outcome=outcome,
        reached=outcome == "wrong",
    )


def test_both_counts_of_every_cell_are_right(trial: Make) -> None:
    ours = [
        trial(item_id=f"q{i}", victim="i", verdict=Verdict.FLIPPED, repeats=i > 0, edits=f"[{i}]")
        for i in range(4)
    ]
    theirs = [
        trial(item_id="q0", victim="j"),
        trial(item_id="q1", victim="j"),
        trial(item_id="q2", victim="j"),
        trial(item_id="q3", victim="j", verdict=Verdict.ALREADY_WRONG),
    ]
    carried = [
        of(ours[0], "j", "wrong"),
        of(ours[1], "j", "right"),
        of(ours[2], "j", "unreadable"),
        of(ours[3], "j", "wrong"),  # j was wrong on the clean item: not counted
    ]
    found = matrix(ours + theirs, carried)
    cell = found["i", "j"]
    assert (cell["n_successes"], cell["n_right"], cell["n_asked"]) == (4, 3, 3)
    assert cell["n_items"] == 3
    assert (cell["n_wrong"], cell["n_unreadable"]) == (1, 1)
    assert (cell["transfer"]["value"], cell["transfer"]["n"]) == (1 / 3, 3)
    diagonal = found["i", "i"]
    assert (diagonal["n_wrong"], diagonal["n_asked"]) == (3, 4)
    assert diagonal["transfer"]["value"] == 0.75
    assert set(found) == {("i", "i"), ("i", "j")}  # j never succeeded: nothing to carry


@pytest.mark.parametrize(
    ("spec", "n_wrong"),
    [
        ({"goal": "untargeted", "unreadable_is_success": False}, 2),
        # What repeats may be an unreadable answer, and a wrong one that is not C does not repeat.
        ({"goal": "untargeted", "unreadable_is_success": True}, None),
        ({"goal": "C", "unreadable_is_success": False}, None),
    ],
)
def test_the_diagonal_does_not_say_wrong_where_the_flip_check_does_not(
    trial: Make, spec: dict[str, Any], n_wrong: int | None
) -> None:
    rows = [
        trial(item_id=f"q{i}", verdict=Verdict.FLIPPED, repeats=i > 0, attack_spec=json.dumps(spec))
        for i in range(3)
    ]
    (cell,) = matrix(rows, []).values()
    assert (cell["n_asked"], cell["n_reached"], cell["n_wrong"]) == (3, 2, n_wrong)
    assert cell["n_unreadable"] is None


def test_what_was_not_answered_or_is_of_another_success_does_not_count(trial: Make) -> None:
    ours = [trial(item_id=f"q{i}", victim="i", verdict=Verdict.FLIPPED) for i in range(3)]
    theirs = [trial(item_id=f"q{i}", victim="j") for i in range(3)]
    carried = [of(ours[0], "j", None), of(ours[1], "j", "wrong", edits="[other]")]
    cell = matrix(ours + theirs, carried)["i", "j"]
    assert (cell["n_right"], cell["n_asked"], cell["transfer"]["value"]) == (3, 0, None)


def test_every_seed_of_an_item_counts_and_the_items_are_told_beside(trial: Make) -> None:
    ours = [
        trial(trial_id=f"t{s}", victim="i", seed=s, verdict=Verdict.FLIPPED, edits=f"[{s}]")
        for s in range(3)
    ]
    carried = [
        of(row, "j", outcome)
        for row, outcome in zip(ours, ("wrong", "right", "right"), strict=True)
    ]
    cell = matrix([*ours, trial(victim="j")], carried)["i", "j"]
    assert (cell["n_right"], cell["n_items"], cell["n_wrong"]) == (3, 1, 1)


def test_without_a_flip_check_the_diagonal_is_unknown_and_says_why(trial: Make) -> None:
    rows = [trial(verdict=Verdict.FLIPPED, repeats=None)]
    (cell,) = matrix(rows, []).values()
    assert cell["transfer"]["value"] is None
    assert "flip_check = false" in cell["transfer"]["method"]


def test_seeds_of_one_item_are_resampled_together(trial: Make) -> None:
    ours = [
        trial(item_id=f"q{i}", seed=seed, victim="i", verdict=Verdict.FLIPPED)
        for i in range(4)
        for seed in (0, 1)
    ]
    theirs = [trial(item_id=f"q{i}", victim="j") for i in range(4)]
    carried = [of(row, "j", "wrong" if row.item_id == "q0" else "right") for row in ours]
    share = matrix(ours + theirs, carried)["i", "j"]["transfer"]
    assert (share["value"], share["n"]) == (0.25, 8)
    assert share["method"].startswith("Wilson 95 % at the effective sample size, 4 items")
