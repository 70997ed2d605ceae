"""Where scaling curves level off, cross and part: planted curves are recovered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.arms import Hits, arrange, hits
from medstress.metrics.curves.plateau import plateau
from medstress.metrics.curves.scaling import (
    compare_curves,
    crossing,
    curve_rows,
    inflection,
    pair_rows,
)
from medstress.metrics.old_stats.estimates import Estimate
from medstress.metrics.old_stats.resampling import RESAMPLES, item_weights, ratio

Make = Callable[..., TrialRow]


def bent(budget: int, knot: int, before: float, after: float, start: float = 0.05) -> np.ndarray:
    """A curve of two lines in ln(budget)."""
    x = np.log(np.arange(1, budget + 1))
    return start + before * x + (after - before) * np.maximum(x - np.log(knot), 0)


def simulated(curve: np.ndarray, m: int, seed: int) -> Hits:
    """m items whose first success falls by the curve."""
    luck = np.random.default_rng(seed).random(m)
    return Hits(successes=(luck[:, None] < curve).astype(float), counts=np.ones(m))


NAMES = ("inflection", "slope_before", "slope_after", "slope_change")


def budgets(largest: int) -> np.ndarray:
    return np.arange(1, largest + 1)


@pytest.mark.release
def test_the_interval_covers_the_planted_breakpoint() -> None:
    """Nominal 95 %; of 40 simulations of 400 items at least 34 (P < 1e-2 for fewer at 95 %)."""
    curve = bent(60, 10, 0.3, 0.02)
    rows = [inflection(simulated(curve, 400, seed)) for seed in range(40)]
    found = [row["inflection"] for row in rows]
    # Where all resamples agree there is no interval, and then the place has to be right.
    ends = [(e["low"] or e["value"], e["high"] or e["value"]) for e in found]
    assert sum(low <= 10 <= high for low, high in ends) >= 34
    values = [row["recommended_budget"] for row in rows]
    assert 8 <= np.median(values) <= 12


def test_the_slopes_of_a_plateau_are_the_planted_ones() -> None:
    row = inflection(simulated(bent(60, 10, 0.3, 0.02), 5000, 1))
    assert row["slope_before"]["value"] == pytest.approx(0.3, abs=0.02)
    assert row["slope_after"]["value"] == pytest.approx(0.02, abs=0.02)
    assert row["slope_change"]["high"] < -0.2


@pytest.mark.parametrize(
    "curve",
    [
        0.6 * (1 - 0.95 ** budgets(8)),
        0.6 * (1 - 0.95 ** budgets(12)),
        0.6 * (1 - 0.95 ** budgets(50)),
        bent(8, 4, 0.2, 0.2),
        bent(60, 10, 0.15, 0.15),
        bent(100, 30, 0.05, 0.3),
        bent(100, 3, 0.0, 0.2),
        0.02 * budgets(30),
        np.where(budgets(20) >= 20, 0.5, 0.0),
        bent(60, 10, 0.15, 0.12),
    ],
    ids=["slow 8", "slow 12", "slow 50", "straight 8", "straight 60", "convex 30", "convex 3",
         "linear", "step at the end", "a bend after which it still rises"],
)  # fmt: skip
@pytest.mark.parametrize("m", [40, 400, 4000])
def test_a_rise_is_no_plateau(curve: np.ndarray, m: int) -> None:
    """A straight curve passes for one with a plateau in 5 % of runs at most."""
    rows = [inflection(simulated(curve, m, seed)) for seed in range(20)]
    told = [row for row in rows if row["recommended_budget"] is not None]
    assert len(told) <= 3  # P(more | 5 %) < .02
    for row in rows:
        if row not in told:
            assert row["inflection"]["method"] == "no plateau within the budget"
            assert {row[name]["value"] for name in NAMES} == {None}


@pytest.mark.release
def test_a_straight_curve_passes_for_a_plateau_in_one_run_of_twenty_at_most() -> None:
    for budget, m in ((5, 100), (8, 30), (8, 200), (60, 50)):
        curve = 0.05 + 0.4 * np.log(budgets(budget)) / np.log(budget)
        found = [plateau(simulated(curve, m, seed).successes) for seed in range(150)]
        wrong = sum(isinstance(each, int) for each in found)
        assert wrong <= 14  # P(more | 5 %) < .01


@pytest.mark.release
@pytest.mark.parametrize(
    ("curve", "m", "least", "most"),
    [
        (np.minimum(0.1 * budgets(8), 0.3), 200, 3, 3),
        (np.minimum(0.1 * budgets(8), 0.3), 60, 2, 3),
        (np.minimum(0.1 * budgets(100), 0.3), 60, 2, 3),
        (np.where(budgets(8) >= 3, 0.3, 0.0), 60, 3, 3),
        (np.where(budgets(30) >= 20, 0.5, 0.0), 100, 20, 20),
        (0.6 * (1 - 0.5 ** budgets(8)), 500, 2, 5),
        (0.6 * (1 - 0.5 ** budgets(50)), 100, 2, 8),
        (0.6 * (1 - 0.95 ** budgets(200)), 500, 35, 80),
        (bent(60, 10, 0.3, 0.0), 100, 6, 14),
    ],
    ids=["early", "early, few", "early, long", "step", "late step", "fast 8", "fast 50",
         "slow, but long enough", "bent"],
)  # fmt: skip
def test_a_planted_plateau_is_found_where_it_begins(
    curve: np.ndarray, m: int, least: int, most: int
) -> None:
    """And what is recommended has nearly all that the largest budget has."""
    found = [inflection(simulated(curve, m, seed))["recommended_budget"] for seed in range(20)]
    told = [budget for budget in found if budget is not None]
    assert len(told) >= 18
    assert sum(least <= budget <= most for budget in told) >= len(told) - 1


def test_trials_of_one_item_count_once_in_the_test() -> None:
    """Ten equal seeds of eight items are no eighty successes."""
    firsts = [2, 2, 3, 3, 3, 3, 4, 8]
    few = (np.array(firsts)[:, None] <= budgets(8)).astype(float)
    assert isinstance(plateau(few), Estimate)
    assert isinstance(plateau(10 * few), Estimate)
    assert plateau(np.repeat(few, 10, axis=0)) == 3


@pytest.mark.parametrize(
    ("arm", "reason"),
    [
        (
            Hits(successes=np.ones((3, 4)), counts=np.ones(3)),
            "needs a budget of at least 5, has 4",
        ),
        (Hits(successes=np.ones((3, 9)), counts=np.ones(3)), "the curve is flat"),
        (Hits(successes=np.zeros((3, 9)), counts=np.zeros(3)), "the curve is flat"),
    ],
)
def test_a_curve_that_cannot_bend_says_why(arm: Hits, reason: str) -> None:
    row = inflection(arm)
    assert row["recommended_budget"] is None
    assert (row["inflection"]["value"], row["inflection"]["method"]) == (None, reason)


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
def test_a_crossover_is_where_the_later_leader_takes_over_for_good(
    difference: list[float], budget: int | None
) -> None:
    found = float(crossing(np.array(difference)))
    assert found == budget if budget else np.isnan(found)


def test_planted_curves_cross_and_part_where_they_were_made_to() -> None:
    steep, late = np.linspace(0.3, 0.4, 20), np.linspace(0.05, 0.65, 20)
    rng = np.random.default_rng(5)
    luck, other = rng.random(3000), rng.random(3000)
    first = Hits(successes=(luck[:, None] < steep).astype(float), counts=np.ones(3000))
    second = Hits(successes=(other[:, None] < late).astype(float), counts=np.ones(3000))
    row = compare_curves(first, second)
    assert row["leads_after"] == "against"
    assert row["crossing_share"] == 1
    assert row["crossover"]["low"] <= 11 <= row["crossover"]["high"]
    # Equally far apart at both ends: .25 at budget 1 and at budget 20.
    assert abs(row["gap"]["value"]) == pytest.approx(0.25, abs=0.05)
    assert row["gap_budget"]["value"] in (1, 20)
    assert row["gap"]["low"] < row["gap"]["value"] < row["gap"]["high"]


def test_the_largest_gap_of_two_equal_methods_has_an_interval_that_holds_zero() -> None:
    """A plain interval at the largest of 30 differences would exclude 0 far too often."""
    curve = bent(30, 5, 0.2, 0.05)
    rows = [
        compare_curves(simulated(curve, 200, 2 * seed), simulated(curve, 200, 2 * seed + 1))
        for seed in range(60)
    ]
    wrong = sum(not row["gap"]["low"] <= 0 <= row["gap"]["high"] for row in rows)
    assert wrong <= 7  # P(more | 5 %) < .02


def test_methods_that_share_no_item_are_not_compared() -> None:
    one = Hits(successes=np.array([[1.0, 1.0], [0, 0]]), counts=np.array([1.0, 0]))
    other = Hits(successes=np.array([[0.0, 0.0], [1, 1]]), counts=np.array([0.0, 1]))
    assert compare_curves(one, other)["gap"]["method"] == "no item in common"


def test_rows_name_attacks_and_leave_out_single_queries(trial: Make) -> None:
    trials = [
        trial(item_id=str(i), attack=attack, verdict=Verdict.FLIPPED, first_success=first + i % 2)
        for attack, first in (("a", 1), ("b", 4), ("single", 1))
        for i in range(6)
    ]
    budgets = {"a": 6, "b": 6, "single": 1}
    arms = arrange(trials)
    assert [row["attack"] for row in curve_rows(arms, budgets)] == ["a", "b"]
    (pair,) = pair_rows(arms, budgets)
    assert (pair["attack"], pair["against"], pair["budget"], pair["n_items"]) == ("a", "b", 6, 6)
    assert (pair["gap"]["value"], pair["gap_budget"]["value"]) == (1.0, 2.0)


def test_hits_count_seeds_together_and_only_within_the_budget(trial: Make) -> None:
    rows = [
        trial(item_id="x", seed=0, verdict=Verdict.FLIPPED, first_success=2),
        trial(item_id="x", seed=1),
        trial(item_id="y", verdict=Verdict.FLIPPED, first_success=4),
        trial(item_id="z"),
    ]
    found = hits(rows, ["w", "x", "y"], 3)
    assert found.successes.tolist() == [[0, 0, 0], [0, 1, 1], [0, 0, 0]]
    assert found.counts.tolist() == [0, 2, 1]


# -- resampling -----------------------------------------------------------------------------------


def test_the_draws_depend_on_the_number_of_items_alone() -> None:
    assert item_weights(7).shape == (RESAMPLES, 7)
    assert (item_weights(7).sum(axis=1) == 7).all()
    again: Any = item_weights.__wrapped__(7)
    assert (again == item_weights(7)).all()


def test_the_bootstrap_interval_of_a_mean_agrees_with_its_standard_error() -> None:
    values = np.random.default_rng(3).normal(size=400)
    found = ratio(values, np.ones(400), "values")
    half = norm.ppf(0.975) * values.std() / 20
    assert found.value == pytest.approx(values.mean())
    assert found.high - found.low == pytest.approx(2 * half, rel=0.08)
