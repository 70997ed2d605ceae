"""Bounds of the loss and Abbott's point, against statsmodels and brute force."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from statsmodels.stats.proportion import _confint_riskratio_paired_nam

from medstress.stats.estimates import Estimate, unknown
from medstress.stats.loss import abbott, loss_bounds, ratio_statistic
from medstress.stats.paired import unite
from medstress.stats.shares import rate


def pairs(neither: int, control: int, attack: int, both: int, seeds: int = 1):
    cells = (neither, control, attack, both)
    flips = ((False, False), (False, True), (True, False), (True, True))
    items = [flip for count, flip in zip(cells, flips, strict=True) for _ in range(count)]
    return [(f"q{i}", *flip) for i, flip in enumerate(items) for _ in range(seeds)]


@pytest.mark.parametrize("cells", [(50, 10, 30, 10), (120, 5, 60, 15), (40, 40, 10, 10)])
def test_the_interval_is_nams_of_statsmodels(cells: tuple[int, int, int, int]) -> None:
    """1 - x is the ratio of two paired shares; statsmodels solves a polynomial for its ends."""
    neither, control, attack, both = cells
    ratios = _confint_riskratio_paired_nam([[neither, control], [attack, both]]).confint
    found = abbott(pairs(*cells))
    assert found.value == pytest.approx((attack - control) / (neither + attack))
    assert (found.low, found.high) == pytest.approx((1 - ratios[1], 1 - ratios[0]), abs=1e-6)


@pytest.mark.parametrize("r", [0.3, 0.8, 1.0, 1.7])
def test_the_statistic_uses_the_table_that_fits_best(r: float) -> None:
    neither, control, attack, _ = cells = (50.0, 10.0, 30.0, 10.0)
    q = (neither + control + attack) / 100

    def table(p01: float) -> tuple[float, float]:
        return ((r - 1) * q + p01) / r, (q - (1 + r) * p01) / r

    def minus_log_likelihood(p01: float) -> float:
        p10, p11 = table(p01)
        counts = ((neither, p11), (control, p10), (attack, p01))
        return -sum(k * log(max(p, 1e-300)) for k, p in counts)

    best = minimize_scalar(
        minus_log_likelihood,
        bounds=(max(0.0, (1 - r) * q), q / (1 + r)),
        method="bounded",
        options={"xatol": 1e-12},
    ).x
    distance = neither + control - r * (neither + attack)
    expected = distance / sqrt(100 * r * (table(best)[0] + best))
    assert ratio_statistic(cells, r) == pytest.approx(expected, rel=1e-5)


def test_planted_independence_is_recovered() -> None:
    """Noise flips .2 and the attack .3 of what is left, in exact proportions: loss .3."""
    found = abbott(pairs(448, 112, 352, 88))  # control .2 in both rows
    assert found.value == pytest.approx((0.44 - 0.2) / 0.8)
    assert (found.low or 0) < 0.3 < (found.high or 0)


def test_nothing_flips_and_the_interval_still_has_a_width() -> None:
    found = abbott(pairs(200, 0, 0, 0))
    assert found.value == 0
    assert -0.03 < (found.low or 0) < 0 < (found.high or 0) < 0.03


def test_the_attack_flips_all_and_the_control_nothing() -> None:
    found = abbott(pairs(0, 0, 50, 0))
    assert (found.value, found.high) == (1, 1)
    assert 0.85 < (found.low or 0) < 1


@pytest.mark.parametrize("found", [abbott([]), abbott(pairs(0, 7, 0, 3))])
def test_without_items_or_with_a_control_that_flips_all_it_is_null(found: Estimate) -> None:
    assert (found.value, found.low, found.high) == (None, None, None)
    assert found.method.startswith("null: ")


def test_seeds_that_agree_narrow_nothing() -> None:
    alone, fivefold = abbott(pairs(30, 5, 12, 3)), abbott(pairs(30, 5, 12, 3, seeds=5))
    assert fivefold.n == 250
    assert fivefold.value == pytest.approx(alone.value)
    assert (fivefold.high or 0) - (fivefold.low or 0) >= (alone.high or 0) - (alone.low or 0) - 1e-9


@settings(max_examples=80)
@given(st.tuples(*[st.integers(0, 40)] * 4))
def test_the_interval_holds_its_point_and_0_where_the_paired_interval_does(
    cells: tuple[int, int, int, int],
) -> None:
    """At r = 1 both score statistics are (b - c) / sqrt(b + c)."""
    found, net = abbott(pairs(*cells)), unite(pairs(*cells)).estimate
    if found.value is None:
        return
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value + 1e-12
    assert found.value - 1e-12 <= found.high <= 1
    assert found.low < found.high
    if sum(cells) - cells[0] - cells[3] and cells[1] + cells[2] and net.low is not None:
        assert (found.low > 0) == (net.low > 0)


def test_bounds_run_from_the_low_end_of_net_to_the_high_end_of_asr() -> None:
    table = pairs(100, 10, 50, 40)
    asr, net = rate((unit, a) for unit, a, _ in table), unite(table).estimate
    assert loss_bounds(asr, net) == [net.low, asr.high]
    noisy = pairs(100, 30, 30, 40)
    assert loss_bounds(rate((u, a) for u, a, _ in noisy), unite(noisy).estimate)[0] == 0
    assert loss_bounds(unknown(""), net) == loss_bounds(asr, unknown("")) == [None, None]


def test_abbotts_interval_covers_at_both_ends_where_the_plain_variance_does_not() -> None:
    """2,000 tables of 200 items, a = .98, c = .5 independent: Fieller's plain interval .906."""
    rng, truth, held = np.random.default_rng(6), (0.98 - 0.5) / 0.5, 0
    draws = rng.multinomial(200, [0.01, 0.01, 0.49, 0.49], size=2_000)
    for cells in draws.astype(float):
        held += abs(ratio_statistic(tuple(cells), 1 - truth)) <= 1.96
    assert held / 2_000 >= 0.929
