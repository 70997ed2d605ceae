"""Intervals of shares whose answers are not independent."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, f_oneway

from medstress.metrics import rate, share, slice_shares, wilson
from medstress.metrics.old_stats.estimates import Estimate
from medstress.metrics.old_stats.shares import design_effect


def test_items_that_occur_once_get_wilson_and_the_method_says_why() -> None:
    found = rate([("a", True), ("b", False), ("c", False)])
    assert (found.low, found.high) == (wilson(1, 3).low, wilson(1, 3).high)
    assert found.method == "Wilson 95 % (each item occurs once)"


@pytest.mark.parametrize("seeds", [2, 5])
def test_seeds_that_agree_say_no_more_than_one_of_them(seeds: int) -> None:
    """ICC = 1: N / K is then the number of items (the linearised effect is m/(m-1) above it)."""
    once = [(str(i), i % 3 == 0) for i in range(60)]
    found, single = rate(once * seeds), wilson(20, 60)
    assert found.n == 60 * seeds
    assert found.low == pytest.approx(single.low, abs=0.002)
    assert found.high == pytest.approx(single.high, abs=0.002)
    assert "effective sample size, 60 items" in found.method


@pytest.mark.parametrize("hit", [False, True])
def test_where_all_answers_are_alike_the_interval_is_wilson_over_n_by_k(hit: bool) -> None:
    """Three of each of five items: N / K = 5; sizes 1 and 3: K = 10/4, N / K = 1.6."""
    found, expected = rate([(item, hit) for item in "abcde" * 3]), wilson(5 * hit, 5)
    assert (found.n, found.low, found.high) == (15, expected.low, expected.high)
    uneven = rate([("a", hit), ("b", hit), ("b", hit), ("b", hit)])
    z2 = 1.959963984540054**2
    assert (uneven.low if hit else 1 - (uneven.high or 0)) == pytest.approx(1.6 / (1.6 + z2))


def test_a_single_item_counts_as_one_answer() -> None:
    found = rate([("a", True), ("a", False)])
    assert found.value == 0.5
    assert found.high - found.low > 0.85  # type: ignore[operator]


def test_the_intraclass_correlation_is_that_of_scipys_analysis_of_variance() -> None:
    """For units of k answers ICC = (F - 1) / (F - 1 + k)."""
    rng = np.random.default_rng(11)
    answers = rng.random((30, 4)) < rng.beta(0.5, 1, size=30)[:, None]
    f = float(f_oneway(*answers.astype(float))[0])
    expected = 1 + 3 * (f - 1) / (f - 1 + 4)
    found = design_effect(answers.sum(1).astype(float), np.full(30, 4.0))
    m, p = 30, answers.mean()
    linearised = m / (m - 1) * ((answers.sum(1) - 4 * p) ** 2).sum() / (120 * p * (1 - p))
    assert found == pytest.approx(max(expected, linearised))
    assert 1 < found < 4.2


def test_one_slice_has_the_exact_interval_of_scipy_and_several_are_held_at_once() -> None:
    def exact(k: int, n: int, level: float) -> tuple[float, float]:
        ends = binomtest(k, n).proportion_ci(confidence_level=level, method="exact")
        return ends.low, ends.high

    sizes = [(0, 12), (7, 30), (25, 25)]
    slices = [([1] * k + [0] * (n - k), [1] * n) for k, n in sizes]
    (alone,) = slice_shares(slices[1:2])
    assert (alone.low, alone.high) == pytest.approx(exact(7, 30, 0.95))
    for found, (k, n) in zip(slice_shares(slices), sizes, strict=True):
        assert (found.low, found.high) == pytest.approx(exact(k, n, 0.95 ** (1 / 3)))
    assert slice_shares([([], [])])[0].value is None


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), min_size=1, max_size=20))
def test_the_value_lies_inside_an_interval_of_some_width(
    observations: list[tuple[str, bool]],
) -> None:
    found = rate(observations)
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.low < found.high


@given(st.permutations([(str(i % 7), i % 3 == 0) for i in range(15)]))
def test_the_interval_does_not_depend_on_the_order_of_trials(
    observations: list[tuple[str, bool]],
) -> None:
    assert rate(observations) == rate(sorted(observations))


def test_units_without_answers_are_left_out() -> None:
    assert share([1, 0, 0], [2, 2, 0]) == share([1, 0], [2, 2])
    assert share([], []).value is None


@pytest.mark.parametrize("sizes", [[6] * 8, [3, 4, 5, 6, 7, 8, 9, 10]], ids=["even", "uneven"])
def test_seeds_that_repeat_the_same_answers_narrow_nothing_by_document(sizes: list[int]) -> None:
    """8 documents, one deterministic victim, ten seeds: an interval is as wide as with one."""
    rng = np.random.default_rng(30)
    below_chance = 0
    for spread in ("alike", "random"):
        for _ in range(20):
            # "alike": every document has the same share, so that its design effect is cut at 1.
            answers = [
                (f"d{d}", f"d{d}-{i}", "item", i % 3 == 0 if spread == "alike" else u < 0.4)
                for d, size in enumerate(sizes)
                for i, u in enumerate(rng.random(size))
            ]
            one = rate(((d, i, u), hit) for d, i, u, hit in answers)
            ten = rate(((d, i, u), hit) for d, i, u, hit in answers for _ in range(10))
            assert ten.value == pytest.approx(one.value)
            assert width(ten) >= 0.99 * width(one)
            outer = rate((d, hit) for d, _, _, hit in answers for _ in range(10))
            assert width(ten) >= width(outer)
            below_chance += width(outer) < 0.9 * width(one)
    assert below_chance >= 10  # documents alone were not enough


def width(found: Estimate) -> float:
    assert found.low is not None
    assert found.high is not None
    return found.high - found.low


@pytest.mark.release
@pytest.mark.parametrize(
    ("n_items", "n_variants", "right", "wrong", "least"),
    [
        *((20, 3, 0.3, 0.03, 0.87), (20, 3, 0.05, 0.45, 0.87), (40, 3, 0.2, 0.2, 0.92)),
        *((40, 9, 0.3, 0.03, 0.91), (60, 5, 4, 0.4, 0.92)),
    ],
)
def test_over_few_items_the_interval_of_repeated_answers_is_a_little_short(
    n_items: int, n_variants: int, right: float, wrong: float, least: float
) -> None:
    """Items' own rates are Beta(right, wrong). docs/probes.md tells what is printed (pytest -s)."""
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(600):
        answers = rng.random((n_items, n_variants)) < rng.beta(right, wrong, n_items)[:, None]
        found = rate((str(i), bool(each)) for i, row in enumerate(answers) for each in row)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= right / (right + wrong) <= found.high
    print(f"{n_items} items, {n_variants} variants: {held / 600:.3f}")
    assert least <= held / 600 < 0.97
