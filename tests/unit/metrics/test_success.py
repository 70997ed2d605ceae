"""Success rates, the curve, and the counts of queries."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics import (
    accuracy,
    accuracy_after,
    asr,
    asr_at,
    asr_by_variant,
    asr_decided,
    queries_to_success,
)

Make = Callable[..., TrialRow]


@pytest.fixture
def trials(trial: Make) -> list[TrialRow]:
    """Three successes, one held, one failed, one cut short; four that were not attacked."""
    flipped = Verdict.FLIPPED
    return [
        trial(item_id="1", verdict=flipped, first_success=1, valid=True),
        trial(item_id="2", verdict=flipped, first_success=3, valid=None, variant_class="synonym"),
        trial(item_id="3", verdict=flipped, first_success=3, valid=False),
        trial(item_id="4"),
        trial(item_id="5", verdict=Verdict.FAILED, at="attack"),
        trial(item_id="6", verdict=Verdict.CUT_SHORT),
        trial(item_id="7", verdict=Verdict.FAILED, at="baseline"),
        trial(item_id="8", verdict=Verdict.ALREADY_WRONG),
        trial(item_id="9", verdict=Verdict.UNREADABLE),
        trial(item_id="0", verdict=Verdict.NOT_ATTACKABLE),
    ]


def test_asr_is_over_all_eligible_trials_and_asr_decided_over_those_that_ended(
    trials: list[TrialRow],
) -> None:
    assert (asr(trials).value, asr(trials).n) == (3 / 6, 6)
    assert (asr_decided(trials).value, asr_decided(trials).n) == (3 / 4, 4)


def test_accuracy_leaves_out_what_was_not_asked_or_not_answered(trials: list[TrialRow]) -> None:
    assert (accuracy(trials).value, accuracy(trials).n) == (6 / 8, 8)
    assert (accuracy_after(trials).value, accuracy_after(trials).n) == (3 / 8, 8)


def test_the_relative_drop_in_accuracy_is_asr(trials: list[TrialRow]) -> None:
    before, after, rate = accuracy(trials).value, accuracy_after(trials).value, asr(trials).value
    assert before is not None
    assert after is not None
    assert (before - after) / before == pytest.approx(rate)


def test_classes_of_replacements_sum_to_asr(trials: list[TrialRow]) -> None:
    found = {name: estimate.value for name, estimate in asr_by_variant(trials).items()}
    assert found == {
        "same_words": 0,
        "key_plus_words": 0,
        "key_subset": 0,
        "synonym": 1 / 6,
        "different": 2 / 6,
    }


def test_the_curve_reads_smaller_budgets_off_one_run(trials: list[TrialRow]) -> None:
    curve = asr_at(trials, 4)
    assert [point["budget"] for point in curve] == [1, 2, 3, 4]
    assert [point["value"] for point in curve] == [1 / 6, 1 / 6, 3 / 6, 3 / 6]
    assert {point["n"] for point in curve} == {6}
    assert {**asr(trials).as_json(), "budget": 4} == curve[-1]


def test_the_curve_of_nothing_has_every_budget_and_no_value() -> None:
    curve = asr_at([], 2)
    assert [(point["budget"], point["value"], point["n"]) for point in curve] == [
        (1, None, 0),
        (2, None, 0),
    ]


def test_queries_to_success_are_of_successes_only(trials: list[TrialRow], trial: Make) -> None:
    assert queries_to_success(trials) == {"median": 3, "mean": pytest.approx(7 / 3)}
    assert queries_to_success([trial()]) == {"median": None, "mean": None}
