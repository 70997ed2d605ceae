"""Exact power, against every table counted one by one, simulation and printed numbers."""

from collections.abc import Iterator
from math import comb

import numpy as np
import pytest

from medstress.stats.paired import Difference, difference, power_of

N = 24


def tables(discordance: float, gap: float) -> Iterator[tuple[float, Difference]]:
    """Yield every table of N pairs: its probability, and what `difference` says of it."""
    first, second = (discordance + gap) / 2, (discordance - gap) / 2
    for b in range(N + 1):
        for c in range(N + 1 - b):
            chance = comb(N, b) * comb(N - b, c) * first**b * second**c
            places = np.arange(N)
            shown = difference(places < b, places >= N - c, places[None])
            yield chance * (1 - discordance) ** (N - b - c), shown


@pytest.mark.parametrize(("discordance", "gap"), [(0.5, 0.3), (0.3, -0.3), (0.6, 0.0), (0.2, 0.1)])
def test_power_is_the_probability_of_the_tables_whose_p_is_below_05(discordance, gap):
    """Tables with fewer than ten discordant pairs are judged by the exact test as well."""
    expected = sum(chance for chance, shown in tables(discordance, gap) if (shown.p or 1) < 0.05)
    assert power_of(N, discordance, gap) == pytest.approx(expected, abs=1e-10)


def test_power_rises_with_the_effect_and_is_the_size_without_one():
    powers = [power_of(200, 0.15, gap) for gap in (0, 0.02, 0.05, 0.1, 0.15)]
    assert powers == sorted(powers)
    assert powers[0] <= 0.053


def test_a_simulation_of_the_test_agrees():
    rng = np.random.default_rng(5)
    b, c, _ = rng.multinomial(300, [0.12, 0.06, 0.82], size=20_000).T
    rejected = np.abs(b - c) > 1.959964 * np.sqrt(b + c)
    assert power_of(300, 0.18, 0.06) == pytest.approx(rejected.mean(), abs=0.01)
