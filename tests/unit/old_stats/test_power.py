"""Exact power, against every table counted one by one, simulation and printed numbers."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from medstress.metrics.old_stats.paired import paired_difference
from medstress.metrics.old_stats.power import (
    detectable,
    equivalence_power,
    needed,
    needed_equivalent,
    power_of,
)

N = 24


def tables(discordance: float, difference: float):
    """Every table of N pairs with its probability and what `paired_difference` says of it."""
    first, second = (discordance + difference) / 2, (discordance - difference) / 2
    for b in range(N + 1):
        for c in range(N + 1 - b):
            chance = comb(N, b) * comb(N - b, c) * first**b * second**c
            yield chance * (1 - discordance) ** (N - b - c), b, c


def of(b: int, c: int, level: float = 0.95):
    ones = np.ones(N)
    return paired_difference(np.arange(N) < b, np.arange(N) >= N - c, ones, level)


@pytest.mark.parametrize(("discordance", "difference"), [(0.5, 0.3), (0.3, -0.3), (0.6, 0.0)])
def test_power_is_the_probability_of_the_tables_whose_p_is_below_05(
    discordance: float, difference: float
) -> None:
    expected = sum(
        chance for chance, b, c in tables(discordance, difference) if (of(b, c).p or 1) < 0.05
    )
    assert power_of(N, discordance, difference) == pytest.approx(expected, abs=1e-10)


def test_power_of_equivalence_is_that_of_the_tables_whose_90_interval_lies_inside() -> None:
    expected = 0.0
    for chance, b, c in tables(0.2, 0.0):
        found = of(b, c, 0.9).estimate
        expected += chance * ((found.low or 0) > -0.25 and (found.high or 0) < 0.25)
    assert 0.1 < expected < 0.9
    assert equivalence_power(N, 0.2, 0.25) == pytest.approx(expected, abs=1e-10)


def test_equivalence_within_2_points_at_15_discordant_needs_3230_items() -> None:
    """METHODS 1.5 rounds to ten."""
    n = needed_equivalent(0.02, 0.15)
    assert round(n, -1) == 3230
    assert equivalence_power(n - 1, 0.15, 0.02) < 0.8 <= equivalence_power(n, 0.15, 0.02)


@pytest.mark.parametrize(("difference", "discordance"), [(0.05, 0.15), (0.02, 0.05), (0.3, 0.3)])
def test_what_is_needed_detects_the_difference_and_one_fewer_does_not(
    difference: float, discordance: float
) -> None:
    n = needed(difference, discordance)
    assert power_of(n - 1, discordance, difference) < 0.8 <= power_of(n, discordance, difference)
    assert needed(-difference, discordance) == n
    assert (detectable(n, discordance) or 1) <= difference < (detectable(n - 1, discordance) or 1)


def test_power_rises_with_the_effect_and_is_the_size_without_one() -> None:
    powers = [power_of(200, 0.15, d) for d in (0, 0.02, 0.05, 0.1, 0.15)]
    assert powers == sorted(powers)
    assert powers[0] <= 0.053


def test_a_simulation_of_the_test_agrees() -> None:
    rng = np.random.default_rng(5)
    b, c, _ = rng.multinomial(300, [0.12, 0.06, 0.82], size=20_000).T
    seen = float((abs(b - c) > 1.959964 * np.sqrt(b + c)).mean())
    assert seen == pytest.approx(power_of(300, 0.18, 0.06), abs=4 * 0.0035)


def test_more_discordance_than_given_is_assumed_where_the_difference_needs_it() -> None:
    found = detectable(40, 0.0)
    assert found is not None
    assert power_of(40, found, found) == pytest.approx(0.8, abs=1e-6)
    assert needed(0.3, 0.1) == needed(0.3, 0.3)


def test_too_few_pairs_detect_nothing() -> None:
    assert detectable(0, 0.1) is None
    assert detectable(3, 1.0) is None
    assert detectable(4, 1.0, power=0.9) is not None


@pytest.mark.parametrize(
    "call",
    [
        lambda: power_of(0, 0.1, 0.0),
        lambda: power_of(10, 0.1, 0.2),
        lambda: power_of(10, 1.1, 0.2),
        lambda: needed(0.0, 0.1),
        lambda: needed(0.1, 0.1, power=1.0),
        lambda: needed_equivalent(0.0, 0.1),
        lambda: detectable(10, -0.1),
    ],
)
def test_what_cannot_be_is_refused(call) -> None:
    with pytest.raises(ValueError, match=r"expected .* got"):
        call()
