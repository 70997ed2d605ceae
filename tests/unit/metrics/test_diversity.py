"""The Gini-Simpson index over replacements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.metrics import gini_simpson, name_diversity, replacement_diversity, wilson
from medstress.metrics.diversity import both_diversities
from medstress.outcomes import Verdict
from medstress.rows import TrialRow

Make = Callable[..., TrialRow]


def named(*names: str) -> list[tuple[str, str]]:
    return [(str(item), name) for item, name in enumerate(names)]


def test_three_of_one_and_one_of_another_give_three_eighths_and_a_half() -> None:
    assert gini_simpson([3, 1]) == 0.375
    assert gini_simpson([3, 1], unbiased=True) == 0.5
    assert name_diversity(named("a", "a", "a", "b"), unbiased=False).value == 0.375
    assert name_diversity(named("a", "a", "a", "b"), unbiased=True).value == 0.5


def test_both_forms_from_one_draw_are_those_of_each_alone(trial: Make) -> None:
    for names in (["a", "b", "a"], ["a", "b", "c", "a"], [], ["a"]):
        for items in (1, 2, 4):
            rows = [
                trial(verdict=Verdict.FLIPPED, item_id=f"q{i % items}", seed=i, replacement=name)
                for i, name in enumerate(names)
            ]
            rows = [replace(row, first_success_replacement=row.replacement) for row in rows]
            alone = replacement_diversity(rows), replacement_diversity(rows, unbiased=True)
            assert both_diversities(rows) == alone


def test_the_case_of_a_name_makes_no_difference() -> None:
    assert name_diversity(named("Zinc", "zinc", "ZINC"), unbiased=False).value == 0


def test_without_successes_both_forms_are_null(trial: Make) -> None:
    for unbiased in (False, True):
        found = replacement_diversity([trial()], unbiased=unbiased)
        assert (found.value, found.n, found.low, found.high) == (None, 0, None, None)


def test_one_success_has_the_plain_form_only(trial: Make) -> None:
    trials = [trial(verdict=Verdict.FLIPPED), trial(item_id="q2")]
    plain = replacement_diversity(trials)
    unbiased = replacement_diversity(trials, unbiased=True)
    assert (plain.value, plain.n) == (0, 1)
    assert (unbiased.value, unbiased.n, unbiased.low) == (None, 1, None)


def test_names_that_are_all_alike_still_leave_an_interval() -> None:
    found = name_diversity(named(*["a"] * 6), unbiased=False)
    low_end = wilson(6, 6).low
    assert low_end is not None
    assert (found.value, found.low) == (0, 0)
    assert found.high == pytest.approx(1 - low_end**2)
    assert found.method.startswith("Wilson 95 % over 6 items that look alike")


def test_the_method_says_bootstrap_and_over_what() -> None:
    once = name_diversity(named("a", "b", "a"), unbiased=False)
    assert once.method == "bootstrap over successes, 2000 resamples, recentred percentile 95 %"
    again = name_diversity([*named("a", "b", "a"), ("0", "c")], unbiased=False)
    assert again.method.startswith("bootstrap over the successes of 3 items, ")
    assert again.n == 4


def test_successes_of_one_item_are_drawn_together() -> None:
    apart = name_diversity(named(*"abcabcabcabc"), unbiased=False)
    together = name_diversity(
        [(str(i), name) for i, group in enumerate(("aaaa", "bbbb", "cccc")) for name in group],
        unbiased=False,
    )
    assert apart.value == together.value
    assert apart.low is not None
    assert together.low is not None
    assert together.low < apart.low


@given(st.lists(st.sampled_from("abcdef"), min_size=2, max_size=15), st.booleans())
def test_the_value_lies_inside_an_interval_of_some_width(names: list[str], unbiased: bool) -> None:
    found = name_diversity(named(*names), unbiased=unbiased)
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.low < found.high


@given(st.lists(st.sampled_from("abc"), min_size=2, max_size=12))
def test_the_unbiased_form_is_the_plain_one_times_n_over_n_minus_1(names: list[str]) -> None:
    n = len(names)
    plain = name_diversity(named(*names), unbiased=False).value
    unbiased = name_diversity(named(*names), unbiased=True).value
    assert plain is not None
    assert unbiased == pytest.approx(plain * n / (n - 1))
