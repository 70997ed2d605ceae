"""Means of differences of differences: never without an interval, never of zero width."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from medstress.comparison.nets import mean_of

N_ITEMS, N_SEEDS, N_RUNS = 200, 3, 500


def drawn(
    rng: np.random.Generator, rates: tuple[float, float, float], shared: float
) -> list[tuple[str, float]]:
    """A's net loss minus B's: flips of A, of B, and of a control of each, in clusters of seeds.

    A seed takes its luck from its item with the probability `shared`.
    """
    size = (4, N_ITEMS, N_SEEDS)
    of_item = np.broadcast_to(rng.random((4, N_ITEMS, 1)), size)
    luck = np.where(rng.random(size) < shared, of_item, rng.random(size))
    limits = np.array([rates[0], rates[1], rates[2], rates[2]])[:, None, None]
    a, b, control_a, control_b = (luck < limits).astype(float)
    values = (a - control_a) - (b - control_b)
    return [(f"q{i}", float(x)) for i, row in enumerate(values) for x in row]


@pytest.mark.release
@pytest.mark.parametrize(
    ("rates", "shared"), [((0.05, 0.05, 0.01), 0.6), ((0.01, 0.01, 0.0), 1.0), ((0.3, 0.2, 0), 1.0)]
)
def test_the_interval_covers_planted_nets_and_the_test_keeps_its_size(
    rates: tuple[float, float, float], shared: float
) -> None:
    rng = np.random.default_rng(3)
    planted, covered, rejected = rates[0] - rates[1], 0, 0
    for _ in range(N_RUNS):
        found = mean_of(drawn(rng, rates, shared), 2.0)
        low, high = found.estimate.low, found.estimate.high
        assert low is not None
        assert high is not None
        assert found.p is not None
        covered += low <= planted <= high
        rejected += found.p < 0.05
        assert (found.p < 0.05) == (not low <= 0 <= high)
    assert covered >= 0.92 * N_RUNS
    assert planted or rejected <= 0.06 * N_RUNS
    assert not planted or rejected > 0.5 * N_RUNS


@pytest.mark.parametrize(
    "value_of", [lambda _: 0.0, lambda _: 1.0, lambda i: float(i == 0), lambda i: 0.0 * i]
)
@pytest.mark.parametrize("n", [1, 2, 200])
def test_there_is_an_interval_wherever_there_are_values(
    value_of: Callable[[int], float], n: int
) -> None:
    found = mean_of([(f"q{i // 2}", value_of(i)) for i in range(n)], 2.0)
    low, high = found.estimate.low, found.estimate.high
    assert low is not None
    assert high is not None
    assert found.interval90 is not None
    assert -2 <= low < high <= 2
    assert low <= found.interval90[0] < found.interval90[1] <= high


def test_without_any_difference_it_is_the_rule_for_no_discordant_pair() -> None:
    """Three seeds of an item count once: N / K = 200."""
    found = mean_of([(f"q{i}", 0.0) for i in range(200) for _ in range(3)], 2.0)
    end = 1.959964**2 / (200 + 1.959964**2)
    assert (found.estimate.low, found.estimate.high) == pytest.approx((-end, end))
    end = 1.644854**2 / (200 + 1.644854**2)
    assert found.interval90 == pytest.approx((-end, end))
    assert found.p == 1
