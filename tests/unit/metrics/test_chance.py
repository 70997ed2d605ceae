"""Chance and the test above it."""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import pytest

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics import above_chance, binomial_above, chance_level, chance_of
from medstress.metrics.chance import is_by_letter

Make = Callable[..., TrialRow]


def test_balanced_keys_leave_one_in_the_number_of_options() -> None:
    assert chance_level([(4, key) for key in "ABCD"]) == 0.25


def test_options_of_different_number_are_averaged() -> None:
    assert chance_level([(2, key) for key in "AB"] + [(4, key) for key in "CD"]) == 0.375


def test_a_frequent_key_letter_raises_chance() -> None:
    keys = "A" * 322 + "B" * 226 + "C" * 226 + "D" * 226
    assert chance_level([(4, key) for key in keys]) == 0.322


def test_without_items_there_is_no_chance() -> None:
    assert chance_level([]) is None
    assert binomial_above(0, 0, None) is None
    assert above_chance([])["p"] is None


def test_the_test_above_chance_is_the_binomial_tail() -> None:
    tail = sum(comb(10, k) * 0.25**k * 0.75 ** (10 - k) for k in range(6, 11))
    assert binomial_above(6, 10, 0.25) == pytest.approx(tail)


def test_chance_is_over_answered_items_each_once(trial: Make) -> None:
    trials = [
        *(trial(item_id=f"q{i}", key="ABCD"[i], seed=seed) for i in range(4) for seed in (0, 1)),
        *(trial(item_id=f"n{i}", key="B", verdict=Verdict.NOT_ATTACKABLE) for i in range(9)),
    ]
    assert chance_of(trials) == 0.25
    assert above_chance(trials)["p"] == pytest.approx(0.25**4)


def test_a_commonest_letter_is_told_from_guessing_at_random(trial: Make) -> None:
    even = [trial(item_id=f"q{i}", key="ABCD"[i]) for i in range(4)]
    assert not is_by_letter(even)
    assert is_by_letter(even[:1])
    assert is_by_letter([*even, trial(item_id="q4", key="A")])
    assert not is_by_letter([])


def test_clean_answers_that_failed_count_as_wrong_in_the_test_above_chance(trial: Make) -> None:
    right = [trial(item_id=f"q{i}", key="ABCD"[i]) for i in range(4)]
    failed = trial(item_id="f", key="B", verdict=Verdict.FAILED, at="baseline")
    again = trial(item_id="q0", key="A", seed=1, verdict=Verdict.CUT_SHORT, at="baseline")
    assert above_chance([*right, again])["p"] == pytest.approx(0.25**4)  # q0 has an answer
    found = above_chance([*right, failed, again])
    assert found["p"] == pytest.approx(sum(comb(5, k) * 0.25**k * 0.75 ** (5 - k) for k in (4, 5)))
    assert "failed answers as wrong" in found["method"]
    assert chance_of([*right, failed]) == 0.25
    assert above_chance([failed])["p"] is None


def test_answers_that_were_wrong_or_unreadable_are_not_right(trial: Make) -> None:
    trials = [
        trial(item_id="a", key="A"),
        trial(item_id="b", key="B", verdict=Verdict.ALREADY_WRONG),
        trial(item_id="c", key="C", verdict=Verdict.UNREADABLE),
        trial(item_id="d", key="D", verdict=Verdict.FLIPPED),
    ]
    assert above_chance(trials)["p"] == pytest.approx(
        sum(comb(4, k) * 0.25**k * 0.75 ** (4 - k) for k in range(2, 5))
    )
