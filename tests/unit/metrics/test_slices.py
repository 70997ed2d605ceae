"""Slices: planted rates, overlapping and tiny slices, and the worst of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.old_stats.shares import slice_shares
from medstress.metrics.old_stats.shrinkage import shrunken
from medstress.metrics.slices import is_too_small, slice_rows, told_cuts, worst_slices

Make = Callable[..., TrialRow]
FLIPPED, HELD = Verdict.FLIPPED, Verdict.HELD


def rows(trial: Make, name: str, n_flipped: int, n: int, **more: Any) -> Iterator[TrialRow]:
    for i in range(n):
        verdict = FLIPPED if i < n_flipped else HELD
        yield trial(item_id=f"{name}{i}", verdict=verdict, **more)


def by_letter(row: TrialRow) -> list[tuple[str, str]]:
    """One slice by the first letter; those whose letter is b are in `both` as well."""
    letter = row.item_id[0]
    found = [("letter", letter)]
    return [*found, ("letter", "both")] if letter in "ab" else found


def test_rates_of_slices_hold_all_at_once_also_where_they_overlap(trial: Make) -> None:
    trials = [*rows(trial, "a", 10, 50), *rows(trial, "b", 40, 50), *rows(trial, "c", 0, 3)]
    found = {row["value"]: row for row in slice_rows(trials, by_letter, {"random": 4})}
    assert list(found) == ["a", "b", "both", "c"]
    assert [row["n_items"] for row in found.values()] == [50, 50, 100, 3]
    sizes = [(10, 50), (40, 50), (50, 100), (0, 3)]
    expected = slice_shares([([1] * k + [0] * (n - k), [1] * n) for k, n in sizes])
    for row, estimate in zip(found.values(), expected, strict=True):
        assert row["asr"] == estimate.as_json()
        assert row["asr_bounds"] == [estimate.low, estimate.high]
    assert [is_too_small(row) for row in found.values()] == [False, False, False, True]


def test_items_that_cannot_be_attacked_are_in_no_slice(trial: Make) -> None:
    trials = [*rows(trial, "a", 1, 5), trial(item_id="z", verdict=Verdict.NOT_ATTACKABLE)]
    assert [row["value"] for row in slice_rows(trials, by_letter, {"random": 4})] == ["a", "both"]


def test_open_answers_of_a_slice_count_at_their_worst(trial: Make) -> None:
    trials = [*rows(trial, "c", 5, 40), *rows(trial, "d", 0, 10, n_unreadable=1)]
    c, d = slice_rows(trials, by_letter, {"random": 4})
    assert c["asr_bounds"] == [c["asr"]["low"], c["asr"]["high"]]
    assert d["asr"]["high"] < 1
    assert d["asr_bounds"] == [0.0, 1.0]


def test_seeds_of_an_item_are_no_further_items(trial: Make) -> None:
    once = [*rows(trial, "c", 20, 40)]
    thrice = [row for seed in range(3) for row in rows(trial, "c", 20, 40, seed=seed)]
    (one,), (three,) = (slice_rows(each, by_letter, {"random": 4}) for each in (once, thrice))
    assert three["n_items"] == 40
    assert three["asr"]["n"] == 120
    assert three["asr"]["high"] == pytest.approx(one["asr"]["high"], abs=0.01)


def test_the_worst_slice_is_not_the_smallest_one(trial: Make) -> None:
    """The slice of two items has the highest rate by chance; the planted one is b."""
    trials = [*rows(trial, "a", 80, 200), *rows(trial, "b", 110, 200), *rows(trial, "c", 2, 2)]
    found = slice_rows(trials, lambda row: [("letter", row.item_id[0])], {"random": 4})
    assert max(found, key=lambda row: row["asr"]["value"])["value"] == "c"
    (worst,) = worst_slices(found)
    assert (worst["value"], worst["n_slices"], worst["too_small"]) == ("b", 3, False)
    assert 0.5 < worst["asr_shrunken"] < 0.55


def test_every_property_has_a_row_and_one_slice_alone_is_not_compared(trial: Make) -> None:
    trials = [*rows(trial, "c", 3, 9), trial(item_id="d", verdict=Verdict.ALREADY_WRONG)]

    def by(row: TrialRow) -> list[tuple[str, str]]:
        return [("letter", row.item_id[0]), ("all", "x")]

    every, letter = worst_slices(slice_rows(trials, by, {"random": 4}))
    assert (every["by"], every["n_slices"], every["differs"]) == ("all", 1, None)
    assert (letter["value"], letter["n_slices"], letter["differs"]) == ("c", 2, None)
    wrong = [trial(item_id=name, verdict=Verdict.ALREADY_WRONG) for name in "cddd"]
    (unknown,) = worst_slices(slice_rows(wrong, by_letter, {"random": 4}))
    assert (unknown["asr_shrunken"], unknown["differs"]) == (None, None)


def test_of_slices_that_tie_the_highest_plain_rate_is_the_worst(trial: Make) -> None:
    """All are shrunken to one value; a comes first by name and d has fewer trials."""
    trials = [
        *rows(trial, "a", 13, 30),
        *rows(trial, "c", 14, 28),
        *rows(trial, "d", 7, 14),
        *rows(trial, "e", 0, 1),
    ]
    found = slice_rows(trials, lambda row: [("letter", row.item_id[0])], {"random": 4})
    pulled = [row["asr_shrunken"] for row in found]
    assert pulled == pytest.approx(pulled[:1] * 4)
    (worst,) = worst_slices(found)
    assert (worst["value"], worst["differs"]) == ("c", False)
    apart = [*rows(trial, "a", 2, 100), *rows(trial, "c", 90, 100)]
    (worst,) = worst_slices(slice_rows(apart, lambda row: [("l", row.item_id[0])], {"random": 4}))
    assert (worst["value"], worst["differs"]) == ("c", True)


def test_cuts_that_make_fewer_than_three_slices_say_so() -> None:
    told = told_cuts({"x": {"option_length": [10], "question_length": [5, 9]}})
    assert told == (
        "option_length of x after 10 characters (two slices, because lengths tie); "
        "question_length of x after 5 and 9 characters"
    )


def test_a_slice_has_its_rate_net_of_a_control(trial: Make) -> None:
    trials = [
        *rows(trial, "c", 30, 60),
        *rows(trial, "d", 30, 60),
        *rows(trial, "c", 30, 60, attack="random / no_op"),
        *rows(trial, "d", 3, 60, attack="random / no_op"),
    ]
    budgets = {"random": 4, "random / no_op": 4}
    c, d = slice_rows(trials, by_letter, budgets, {"random / no_op"})
    assert c["asr"]["value"] == d["asr"]["value"] == 0.5
    assert c["asr_net"]["no_op"]["value"] == 0
    assert d["asr_net"]["no_op"]["value"] == pytest.approx(0.45)
    assert d["asr_net_bounds"]["no_op"][0] == d["asr_net"]["no_op"]["low"]
    assert d["asr_net"]["no_op"]["low"] > 0.2


def test_shares_without_differences_shrink_to_their_mean() -> None:
    assert shrunken([10, 11, 9], [100, 100, 100]) == pytest.approx([0.1] * 3)
    assert shrunken([0, 0], [5, 9]) == [0.0, 0.0]
    assert shrunken([], []) == []
    low, high = shrunken([100, 900], [1000, 1000])
    assert (low, high) == pytest.approx((0.1, 0.9), abs=0.01)
