"""Where scaling curves level off, cross and part: planted curves are recovered."""

from typing import Any

import numpy as np
import pytest

from medstress.stats.curves import Hits, crossing, inflection, plateau, two_curves
from medstress.stats.estimate import Estimate


def bent(budget: int, knot: int, before: float, after: float, start: float = 0.05) -> Any:
    """A curve of two lines in ln(budget)."""
    x = np.log(np.arange(1, budget + 1))
    return start + before * x + (after - before) * np.maximum(x - np.log(knot), 0)


def budgets(largest: int) -> np.ndarray:
    return np.arange(1, largest + 1)


def simulated(curve: np.ndarray, m: int, seed: int) -> Hits:
    """m items whose first success falls by the curve."""
    luck = np.random.default_rng(seed).random(m)
    return Hits(successes=(luck[:, None] < curve).astype(float), counts=np.ones(m))


def test_the_interval_covers_the_planted_bend():
    """Nominal 95 %; of 20 simulations of 400 items at least 16 (P < 1e-2 for fewer at 95 %)."""
    curve = bent(60, 10, 0.3, 0.02)
    got = [inflection(simulated(curve, 400, seed)) for seed in range(20)]
    # Where all resamples agree there is no interval, and then the place has to be right.
    ends = [(e.low or e.value, e.high or e.value) for e in (one.inflection for one in got)]
    assert sum(low <= 10 <= high for low, high in ends if low and high) >= 16
    assert 8 <= float(np.median([one.recommended_budget or 0 for one in got])) <= 12


@pytest.mark.parametrize(
    "curve",
    [
        0.6 * (1 - 0.95 ** budgets(8)),
        0.6 * (1 - 0.95 ** budgets(50)),
        bent(60, 10, 0.15, 0.15),
        bent(100, 30, 0.05, 0.3),
        0.02 * budgets(30),
        np.where(budgets(20) >= 20, 0.5, 0.0),
        bent(60, 10, 0.15, 0.12),
    ],
    ids=["slow 8", "slow 50", "straight", "convex", "linear", "step at the end", "still rises"],
)
@pytest.mark.parametrize("m", [400])
def test_a_rise_is_no_plateau(curve, m):
    """A straight curve passes for one with a plateau in 5 % of runs at most."""
    got = [inflection(simulated(curve, m, seed)) for seed in range(20)]
    passed = [one for one in got if one.recommended_budget is not None]
    assert len(passed) <= 3  # P(more | 5 %) < .02
    none = next(one for one in got if one.recommended_budget is None)
    assert none.inflection.method == "no plateau within the budget"
    assert none.inflection.value is none.slope_change.value is None


@pytest.mark.parametrize(
    ("curve", "m", "least", "most"),
    [
        (np.minimum(0.1 * budgets(8), 0.3), 200, 3, 3),
        (np.minimum(0.1 * budgets(100), 0.3), 60, 2, 3),
        (np.where(budgets(30) >= 20, 0.5, 0.0), 100, 20, 20),
        (0.6 * (1 - 0.5 ** budgets(50)), 100, 2, 8),
        (bent(60, 10, 0.3, 0.0), 100, 6, 14),
    ],
    ids=["early", "early, long", "late step", "fast", "bent"],
)
def test_a_planted_plateau_is_where_it_begins(curve, m, least, most):
    at = [plateau(simulated(curve, m, seed).successes) for seed in range(8)]
    budgets_ = [budget for budget in at if isinstance(budget, int)]
    assert len(budgets_) >= 7
    assert sum(least <= budget <= most for budget in budgets_) >= len(budgets_) - 1


def test_trials_of_one_item_count_once_in_the_test():
    """Ten equal seeds of eight items are no eighty successes."""
    firsts = [2, 2, 3, 3, 3, 3, 4, 8]
    few = (np.array(firsts)[:, None] <= budgets(8)).astype(float)
    assert isinstance(plateau(few), Estimate)
    assert isinstance(plateau(10 * few), Estimate)
    assert plateau(np.repeat(few, 10, axis=0)) == 3


@pytest.mark.parametrize(
    ("arm", "reason"),
    [
        (Hits(successes=np.ones((3, 4)), counts=np.ones(3)), "needs a budget of at least 5, has 4"),
        (Hits(successes=np.ones((3, 9)), counts=np.ones(3)), "the curve is flat"),
        (Hits(successes=np.zeros((3, 9)), counts=np.zeros(3)), "the curve is flat"),
    ],
)
def test_a_curve_that_cannot_bend_says_why(arm, reason):
    got = inflection(arm)
    assert got.recommended_budget is None
    assert (got.inflection.value, got.inflection.method) == (None, reason)


@pytest.mark.parametrize(
    ("difference", "budget"),
    [
        ([0.1, -0.1], 2),
        ([-0.1, 0.0, 0.0, 0.1], 4),
        ([0.1, -0.1, 0.1, 0.2], 3),
        ([0.1, -0.1, 0.0], 2),
        ([0.0, 0.1, 0.2], None),
        ([0.0, 0.0], None),
        ([0.1, 0.2, 0.0], None),
    ],
)
def test_a_crossover_is_where_the_later_leader_takes_over_for_good(difference, budget):
    at = float(crossing(np.array(difference)))
    assert at == budget if budget else np.isnan(at)


def test_planted_curves_cross_and_part_where_they_were_made_to():
    steep, late = np.linspace(0.3, 0.4, 20), np.linspace(0.05, 0.65, 20)
    got = two_curves(simulated(steep, 3000, 5), simulated(late, 3000, 6))
    assert got.leads_after == "second"
    assert got.crossing_share == 1
    assert got.crossover.high is not None
    assert got.crossover.low <= 11 <= got.crossover.high
    # Equally far apart at both ends: .25 at budget 1 and at budget 20.
    assert got.gap.value is not None
    assert abs(got.gap.value) == pytest.approx(0.25, abs=0.05)
    assert got.gap_budget.value in (1, 20)


def test_the_largest_gap_of_two_equal_attacks_has_an_interval_that_holds_0():
    """A plain interval at the largest of 30 differences would exclude 0 far too often."""
    curve = bent(30, 5, 0.2, 0.05)
    gaps = [
        two_curves(simulated(curve, 200, 2 * seed), simulated(curve, 200, 2 * seed + 1)).gap
        for seed in range(30)
    ]
    wrong = sum(not (gap.low or 0) <= 0 <= (gap.high or 0) for gap in gaps)
    assert wrong <= 4  # P(more | 5 %) < .02
