"""Curves over the budget: where one levels off, and where two cross or differ most."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log

import numpy as np
from numpy.typing import NDArray

from medstress.stats.estimate import Estimate, unknown, wilson_ends
from medstress.stats.resampling import RESAMPLES, around, bootstrapped, resampled_ratio
from medstress.stats.shares import Numbers

LEAST_BUDGET = 5
"""The fewest points with which a bend can be distinguished from a straight line."""
NO_PLATEAU = "no plateau within the budget"
"""Why there is no inflection and no recommended budget."""
LEVEL = 0.05
"""A straight curve passes for one with a plateau at most this often."""
FLATTER = 0.5
"""A plateau rises at most this much of what the curve rose before it, per unit of ln(budget)."""
_DRAWS, _SEED, _ROUNDED = 4_999, 20_260_103, 12


@dataclass(frozen=True, kw_only=True, eq=False)
class Hits:
    """Successes of one attack, unit by unit (document where known, else item)."""

    successes: Numbers
    """Trials that succeeded within b queries, shape (m, budget), b = 1..budget."""
    counts: Numbers
    """Eligible trials, shape (m,); 0 where the attack has none of the unit."""

    @property
    def budget(self) -> int:
        """The largest budget."""
        return int(self.successes.shape[1])

    @cached_property
    def resampled(self) -> Numbers:
        """The curve of every resample of units, shape (RESAMPLES, budget)."""
        return resampled_ratio(self.successes, self.counts)


def bend(curves: Numbers) -> Numbers:
    """Find the budget at which each curve lies farthest above its chord over ln(budget).

    The chord joins success at one query with success at the largest budget. A convex or straight
    curve is never above it, an S-shaped one only where it levels off, so only a concave break
    counts.

    Args:
        curves: success at budgets 1..B, shape (..., B).

    Returns:
        Budgets, shape (...); 1 if the curve is nowhere above its chord.

    >>> rise = np.log(np.arange(1, 9))
    >>> bend(np.stack([rise, rise**2, np.minimum(rise, np.log(3))])).tolist()
    [1.0, 1.0, 3.0]

    References:
        Satopaa, Albrecht, Irwin and Raghavan, "Finding a 'kneedle' in a haystack: detecting knee
        points in system behavior", ICDCS Workshops 2011.
    """
    x = _log_share(curves.shape[-1])
    first, last = curves[..., :1], curves[..., -1:]
    above = np.round(curves - first - (last - first) * x, _ROUNDED)
    return np.asarray(above.argmax(axis=-1) + 1.0)


def plateau(successes: Numbers) -> int | Estimate:
    """Find the budget from which more queries bring little, if that is more than chance.

    It is the `bend` of the curve, if

    * the curve from there on rises at most `FLATTER` times as much per unit of ln(budget) as
      before, and
    * its bend is more than chance. Were the curve straight over ln(budget), a success that came
      after the first query would have come by query b with probability x = ln b / ln B. The
      statistic is the largest log likelihood ratio of two slopes, the first the steeper, against
      one: with F the share that had come by b, max over F > x of F ln(F / x) + (1 - F) ln((1 - F) /
      (1 - x)). Its p is drawn from the straight curve, given the number of late successes; under
      a convex curve they come later still, so the test errs even less. The trials of all units
      count as (sum w)^2 / sum w^2 independent ones, w the late successes of a unit.

    Args:
        successes: contribution of each unit to the curve at budgets 1..B, shape (m, B), never
            falling.

    Returns:
        The budget; or an estimate without a value whose method says why there is none.

    References:
        Berk and Jones, "Goodness-of-fit test statistics that dominate the Kolmogorov statistics",
        Zeitschrift für Wahrscheinlichkeitstheorie und verwandte Gebiete 1979 (one-sided).
    """
    m, budget = successes.shape
    if budget < LEAST_BUDGET:
        return unknown(f"needs a budget of at least {LEAST_BUDGET}, has {budget}", m)
    late = successes[:, -1] - successes[:, 0]
    if late.sum() < 1e-9:
        return unknown("the curve is flat", m)
    curve = (successes.sum(axis=0) - successes[:, 0].sum()) / late.sum()
    at = int(bend(curve))
    before, after = slopes(curve, at) if at > 1 else (0.0, 1.0)
    n = int(late.sum() ** 2 / (late**2).sum() + 1e-9)
    if after <= FLATTER * before and _chance(curve, n) <= LEVEL:
        return at
    return unknown(NO_PLATEAU, m)


def slopes(curves: Numbers, budget: int) -> tuple[Numbers, Numbers]:
    """Return the rise per unit of ln(budget) before and after a budget.

    Args:
        curves: success at budgets 1..B, shape (..., B).
        budget: 2..B - 1.
    """
    at, last = curves[..., budget - 1], curves.shape[-1]
    before, after = at - curves[..., 0], curves[..., -1] - at
    return before / log(budget), after / log(last / budget)


def _chance(curve: Numbers, n: int) -> float:
    """Return how often n late successes on a straight curve look as much like two slopes."""
    shares = np.diff(_log_share(len(curve)))
    drawn = np.random.default_rng(_SEED).multinomial(n, shares, size=_DRAWS).cumsum(axis=1) / n
    observed = _two_slopes(curve[1:-1])
    return float((1 + (_two_slopes(drawn[:, :-1]) >= observed - 1e-9).sum()) / (1 + _DRAWS))


def _two_slopes(share: Numbers) -> Numbers:
    """Return the largest log likelihood ratio per success; shares at 2..B - 1, (..., B - 2)."""
    x, rest = _log_share(share.shape[-1] + 2)[1:-1], np.maximum(1 - share, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        # 0 ln 0 = 0; the share is above 0 where its ratio counts.
        ratio = share * np.log(share / x) + np.where(rest, rest * np.log(rest / (1 - x)), 0)
    return np.asarray(np.where(share > x, ratio, 0).max(axis=-1))


def _log_share(budget: int) -> Numbers:
    """Return ln b / ln B for b = 1..B."""
    x = np.log(np.arange(1, budget + 1))
    return np.asarray(x / x[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Inflection:
    """From which budget on a curve levels off; nothing has a value without a plateau."""

    inflection: Estimate
    """That budget, with a bootstrap interval over units."""
    slope_before: Estimate
    """Rise per unit of ln(budget) up to it."""
    slope_after: Estimate
    slope_change: Estimate
    recommended_budget: int | None
    """The inflection, as a recommendation."""


def inflection(arm: Hits) -> Inflection:
    """Estimate where a curve levels off, with the slopes on either side (`plateau`)."""
    n, at = int(arm.counts.sum()), plateau(arm.successes)
    if isinstance(at, Estimate):
        names = ("inflection", "slope_before", "slope_after", "slope_change")
        none = dict.fromkeys(names, unknown(at.method, n))
        return Inflection(**none, recommended_budget=None)
    drawn = arm.resampled
    drawn = drawn[np.isfinite(drawn).all(axis=1)]
    bends, (before, after) = bend(drawn), slopes(arm.successes.sum(axis=0) / n, at)
    old, new = slopes(drawn, at)
    m = int((arm.counts > 0).sum())
    method = f"farthest above the chord over ln(budget); bootstrap over {m} items, {RESAMPLES} "
    method += "resamples"

    def estimate(value: float | Numbers, resampled: Numbers) -> Estimate:
        return around(bootstrapped(float(value), resampled, n, method))

    return Inflection(
        inflection=estimate(at, bends[bends > 1]),
        slope_before=estimate(before, old),
        slope_after=estimate(after, new),
        slope_change=estimate(after - before, new - old),
        recommended_budget=at,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoCurves:
    """Two attacks over the units of both."""

    budget: int
    """The largest budget of both."""
    n_items: int
    crossover: Estimate
    """The budget from which the one that trails at first leads for good, at its most beyond the
    band of `gap`."""
    crossing_share: float | None
    """Share of the resamples in which the same attack overtakes."""
    leads_after: str | None
    """The attack that leads after the crossover."""
    gap: Estimate
    """The largest difference, first minus second; its band holds over all budgets."""
    gap_budget: Estimate
    """Where it is."""


def two_curves(
    first: Hits,
    second: Hits,
    names: tuple[str, str] = ("first", "second"),
) -> TwoCurves:
    """Compare two attacks over the units that both have.

    Args:
        first: successes of one attack.
        second: of another; the same units in the same order.
        names: of both attacks.
    """
    both = (first.counts > 0) & (second.counts > 0)
    n, budget = int(both.sum()), min(first.budget, second.budget)
    if n == 0:
        none = unknown("no item in common")
        return TwoCurves(
            budget=budget,
            n_items=0,
            crossover=none,
            crossing_share=None,
            leads_after=None,
            gap=none,
            gap_budget=none,
        )
    same = ((first.counts > 0) == (second.counts > 0)).all()
    observed, resampled = np.zeros(budget), np.zeros((RESAMPLES, budget))
    for arm, sign in ((first, 1), (second, -1)):
        above, below = arm.successes[both, :budget], arm.counts[both]
        observed += sign * above.sum(axis=0) / below.sum()
        again = arm.resampled[:, :budget] if same else resampled_ratio(above, below)
        resampled += sign * again
    resampled = resampled[np.isfinite(resampled).all(axis=1)]
    paired = f"bootstrap over {n} items, paired"
    crossover, share, leader = _crossover(observed, resampled, n, paired)
    at = int(np.argmax(np.abs(observed)))
    # The largest of many differences is biased upwards; a band over all budgets still covers it.
    band = float(np.quantile(np.abs(resampled - observed).max(axis=1), 0.95))
    if band == 0:  # all units look alike: Wilson's end for 0 of n
        band = wilson_ends(0, n)[1]
    if leader is not None and np.abs(observed[int(crossover.value or 1) - 1 :]).max() <= band:
        crossover, leader = unknown("the later lead may be chance", n), None
    gap = Estimate(
        value=float(observed[at]),
        n=n,
        low=max(float(observed[at]) - band, -1.0),
        high=min(float(observed[at]) + band, 1.0),
        method=f"simultaneous 95 % band over budgets; {paired}",
    )
    widest = np.abs(resampled).argmax(axis=1) + 1.0
    return TwoCurves(
        budget=budget,
        n_items=n,
        crossover=crossover,
        crossing_share=share,
        leads_after=None if leader is None else names[leader],
        gap=gap,
        gap_budget=around(bootstrapped(at + 1.0, widest, n, paired)),
    )


def _crossover(
    observed: Numbers, drawn: Numbers, n: int, paired: str
) -> tuple[Estimate, float, int | None]:
    """Return the crossover, the share of resamples that agree, and which one leads then: 0 or 1."""
    value, again = float(crossing(observed)), crossing(drawn)
    if np.isnan(value):
        none = unknown("neither overtakes the other for good within the budget", n)
        return none, float(np.isfinite(again).mean()), None
    # A resample agrees if the same attack leads in the end.
    leader = _last_sign(observed)
    same = np.isfinite(again) & (_last_sign(drawn) == leader)
    method = f"{paired}; of the resamples that cross the same way"
    estimate = around(bootstrapped(value, again[same], n, method))
    return estimate, float(same.mean()), 0 if leader > 0 else 1


def crossing(difference: Numbers) -> Numbers:
    """Return the budget from which the trailing attack leads for good; nan if none overtakes.

    Args:
        difference: of two curves at budgets 1..B, shape (..., B).

    Returns:
        The first budget of the last run of one sign (zeros allowed), if an earlier budget has the
        other sign; shape (...).

    >>> float(crossing(np.array([0.2, 0.1, 0.0, -0.1, -0.2])))
    4.0
    >>> float(crossing(np.array([0.2, 0.1, 0.0])))
    nan
    """
    sign = _sign(difference)
    last = _last_sign(difference)[..., None]
    opposed = (sign[..., ::-1] == -last) & (last != 0)
    # Seen from the end, the last run stops at the first opposite sign.
    start = difference.shape[-1] - _first(opposed)
    budgets = np.arange(1, difference.shape[-1] + 1)
    within = (sign == last) & (budgets > start[..., None])
    return np.where(opposed.any(axis=-1), _first(within) + 1.0, np.nan)


def _sign(difference: Numbers) -> Numbers:
    """Return -1, 0 or 1; differences from rounding are 0."""
    return np.asarray(np.sign(np.round(difference, _ROUNDED)))


def _last_sign(difference: Numbers) -> Numbers:
    """Return the sign at the largest budget at which the two differ; 0 if they never do."""
    sign = _sign(difference)[..., ::-1]
    return np.asarray(np.take_along_axis(sign, _first(sign != 0)[..., None], axis=-1)[..., 0])


def _first(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the index of the first True along the last axis; 0 if there is none."""
    return np.asarray(np.argmax(mask, axis=-1))
