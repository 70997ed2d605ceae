"""The Gini-Simpson index over replacements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics import gini_simpson, name_diversity, replacement_diversity, wilson
from medstress.metrics.diversity import both_diversities

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


def test_diversity_is_taken_within_each_seed_and_then_averaged(trial: Make) -> None:
    """A victim that flips on every name: one name a seed is no diversity, though pooled it is."""

    def arm(name: Callable[[int, int], str]) -> list[TrialRow]:
        return [
            trial(verdict=Verdict.FLIPPED, item_id=f"q{i}", seed=seed, replacement=name(i, seed))
            for seed in range(5)
            for i in range(40)
        ]

    alike = arm(lambda i, seed: f"name of seed {seed}")
    halves = arm(lambda i, seed: f"name {i % 2}")
    plain, unbiased = both_diversities(alike)
    assert (plain.value, unbiased.value, plain.n) == (0, 0, 200)
    plain, unbiased = both_diversities(halves)
    assert plain.value == pytest.approx(0.5)
    assert unbiased.value == pytest.approx(20 / 39)
    assert unbiased.low is not None
    assert 0.3 < unbiased.low < 20 / 39
    assert unbiased.method.startswith("mean over 5 seeds, within each; bootstrap over ")


def test_a_seed_with_too_few_successes_has_no_index_to_average(trial: Make) -> None:
    def won(item: int, seed: int, name: str) -> TrialRow:
        given = {"item_id": f"q{item}", "seed": seed, "replacement": name}
        return trial(verdict=Verdict.FLIPPED, **given)

    rows = [won(0, 0, "a"), won(1, 0, "b"), won(0, 1, "a"), trial(seed=2)]
    plain, unbiased = both_diversities(rows)
    assert (plain.value, plain.n) == (0.25, 3)
    assert (unbiased.value, unbiased.n) == (1.0, 2)
    assert both_diversities([rows[0], rows[2]])[1].method == "needs at least 2 successes"


@pytest.mark.release
def test_the_interval_covers_the_planted_diversity_within_seeds(trial: Make) -> None:
    """Eight equally likely names, the same one in every seed of an item; nominal 95 %."""
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(60):
        names = rng.integers(0, 8, 60)
        rows = [
            trial(verdict=Verdict.FLIPPED, item_id=f"q{i}", seed=s, replacement=f"{names[i]}")
            for s in range(3)
            for i in range(60)
        ]
        found = replacement_diversity(rows, unbiased=True)
        assert found.low is not None
        assert found.high is not None
        inside += found.low <= 7 / 8 <= found.high
    assert inside >= 52  # P(fewer | 95 %) < .01
