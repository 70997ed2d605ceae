"""Fieller's interval of a ratio, with ends that were estimated elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

from medstress.stats.estimates import Z
from medstress.stats.ratios import ONE_UNIT, UNBOUNDED, Sums, mean_of, ratio_of


def answers(seed: int, n: int = 80, each: int = 3) -> list[Sums]:
    """Sums by item of n items with `each` pairs, and by pair."""
    rng = np.random.default_rng(seed)
    whole = (rng.random((n, each)) < rng.beta(2, 2, (n, 1))).astype(float)
    left = whole * (rng.random((n, each)) < 0.6)
    by_item = left.sum(axis=1), whole.sum(axis=1), np.full(n, float(each))
    return [by_item, (left.ravel(), whole.ravel(), np.ones(n * each))]


@pytest.mark.parametrize(("below", "above"), [(0.0, 0.0), (0.05, 0.02)])
def test_each_end_is_where_the_contrast_is_its_own_error_away_from_0(
    below: float, above: float
) -> None:
    """Roots of the definition by scipy, with numpy's covariance of unit means."""
    levels = answers(1)[:1]
    top, bottom, counts = levels[0]
    mean = counts.mean()

    def contrast(x: float) -> tuple[float, float]:
        each = (top - x * bottom) / mean
        return float(each.mean()), float(each.var(ddof=1) / len(each))

    def missing(distance: float, sign: int):
        def told(x: float) -> float:
            value, variance = contrast(x)
            return sign * value - (Z * Z * variance + distance**2) ** 0.5

        return told

    found = ratio_of(levels, below, above)
    assert found.low == pytest.approx(brentq(missing(below, 1), -1, found.value), abs=1e-9)
    assert found.high == pytest.approx(brentq(missing(above, -1), found.value, 3), abs=1e-9)
    alone = mean_of(levels, below, above)
    value, variance = contrast(0)
    assert alone.value == pytest.approx(value)
    assert alone.low == pytest.approx(value - (Z * Z * variance + below**2) ** 0.5)
    assert alone.high == pytest.approx(value + (Z * Z * variance + above**2) ** 0.5)


def test_a_ratio_that_is_1_by_definition_has_no_width_and_pairs_alone_are_too_sure() -> None:
    levels = answers(2)
    same = [(whole, whole, counts) for _, whole, counts in levels]
    assert (ratio_of(same).low, ratio_of(same).high) == (pytest.approx(1), pytest.approx(1))
    by_item, by_pair = ratio_of(levels), ratio_of(levels[1:])
    assert by_item.high - by_item.low >= by_pair.high - by_pair.low


def test_one_unit_or_a_denominator_that_may_be_0_has_no_interval() -> None:
    one = [(np.array([1.0]), np.array([2.0]), np.array([4.0]))]
    assert ratio_of(one).method == mean_of(one).method == ONE_UNIT
    top, bottom = np.array([1.0, 0, 0]), np.array([1.0, 0, 0])
    assert ratio_of([(top, bottom, np.ones(3))]).method == UNBOUNDED
    assert ratio_of([(top, -bottom, np.ones(3))]).value is None
