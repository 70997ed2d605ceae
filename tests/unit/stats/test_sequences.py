"""The confidence sequence, against the formulas written out on a grid."""

from __future__ import annotations

from math import log, sqrt
from time import process_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medstress.stats.sequences import ConfidenceSequence

GRID = np.linspace(0, 1, 2001)


def kept_on_a_grid(values: list[float], alpha: float) -> np.ndarray:
    """Which m of the grid are kept at every moment, by METHODS 1.5 to the letter."""
    above, below = np.ones_like(GRID), np.ones_like(GRID)
    kept = np.ones_like(GRID, dtype=bool)
    with np.errstate(divide="ignore"):
        up, down = 0.5 / GRID, 0.5 / (1 - GRID)
    v = 0.25
    for i, y in enumerate(values, start=1):
        bet = sqrt(2 * log(2 / alpha) / (v * i * log(1 + i)))
        above *= 1 + np.minimum(bet, up) * (y - GRID)
        below *= 1 - np.minimum(bet, down) * (y - GRID)
        kept &= np.maximum(above, below) < 2 / alpha
        squares = sum(
            (values[j - 1] - (0.5 + sum(values[:j])) / (j + 1)) ** 2 for j in range(1, i + 1)
        )
        v = (0.25 + squares) / (i + 1)
    return kept


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 1.0, 0.5, 0.2]), min_size=1, max_size=80),
    st.sampled_from([0.05, 0.01]),
)
def test_it_keeps_what_the_formulas_keep(values: list[float], alpha: float) -> None:
    sequence = ConfidenceSequence(alpha)
    for y in values:
        sequence.add(y)
    kept = GRID[kept_on_a_grid(values, alpha)]
    step = GRID[1]
    if kept.size > 1:
        assert sequence.interval == pytest.approx((kept[0], kept[-1]), abs=step)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=80))
def test_it_only_shrinks_and_sides_may_be_exchanged(values: list[float]) -> None:
    sequence, mirrored = ConfidenceSequence(), ConfidenceSequence()
    before = sequence.interval
    for y in values:
        sequence.add(y)
        mirrored.add(1 - y)
        low, high = sequence.interval
        assert before[0] <= low < high <= before[1]
        assert mirrored.interval == pytest.approx((1 - high, 1 - low), abs=1e-7)
        before = sequence.interval


def test_600_items_take_well_under_a_second() -> None:
    rng, sequence = np.random.default_rng(7), ConfidenceSequence()
    start = process_time()
    for y in (rng.random(600) < 0.3).astype(float):
        sequence.add(y)
    assert process_time() - start < 0.8
    low, high = sequence.interval
    assert low < 0.3 < high
    assert high - low < 0.2


def test_flips_that_end_first_make_it_wrong_and_a_random_order_does_not() -> None:
    values = np.repeat([1.0, 0.0], [120, 280])
    by_completion, at_random = ConfidenceSequence(), ConfidenceSequence()
    for y in values:
        by_completion.add(y)
    for y in np.random.default_rng(8).permutation(values):
        at_random.add(y)
    assert by_completion.interval[0] > 0.3
    assert at_random.interval[0] < 0.3 < at_random.interval[1]


@pytest.mark.parametrize("y", [-0.1, 1.1, float("nan")])
def test_a_value_outside_0_to_1_is_refused(y: float) -> None:
    with pytest.raises(ValueError, match=r"in \[0, 1\], got"):
        ConfidenceSequence().add(y)


@pytest.mark.parametrize("alpha", [0, 1, 5])
def test_an_alpha_outside_0_to_1_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha between 0 and 1"):
        ConfidenceSequence(alpha)
