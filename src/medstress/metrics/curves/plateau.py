"""Find where a query-scaling curve levels off, as opposed to a steady rise or chance."""

from __future__ import annotations

from math import log

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr

from medstress.metrics.old_stats.estimates import Estimate, unknown

LEAST_BUDGET = 5
"""The fewest points with which a bend can be distinguished from a straight line."""
NO_PLATEAU = "no plateau within the budget"
"""Why there is no inflection and no recommended budget."""
LEVEL = 0.05
"""A plateau is found in a straight curve at most this often."""
FLATTER = 0.5
"""A plateau rises at most this much of what the curve rose before it, per unit of ln(budget)."""

_DRAWS = 4_999
_SEED = 20_260_103
_ROUNDED = 12


def bend(curves: NDArray[np.float64]) -> NDArray[np.float64]:
    """Find the budget at which each curve lies farthest above its chord over ln(budget).

    The chord joins success at one query with success at the largest budget. A convex or straight
    curve is never above it, an S-shaped one only where it levels off, so only a concave break is
    found.

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
    found: NDArray[np.float64] = above.argmax(axis=-1) + 1.0
    return found


def plateau(successes: NDArray[np.float64]) -> int | Estimate:
    """Find the budget from which more queries bring little, if that is more than chance.

    It is the `bend` of the curve, if

    * the curve from there on rises at most `FLATTER` times as much per unit of ln(budget) as
      before, and
    * its bend is more than chance. Were the curve straight over ln(budget), a success that came
      after the first query would have come by query b with probability x = ln b / ln B. The
      statistic is the largest log likelihood ratio of two slopes, the first the steeper, against
      one: with F the share that had come by b, max over F > x of F ln(F / x) + (1 - F) ln((1 - F) /
      (1 - x)). Its p is drawn from the straight curve, given the number of late successes; under
      a convex curve they come later still, so the test errs even less. The trials of all items
      count as (sum w)^2 / sum w^2 independent ones, w the late successes of an item.

    Args:
        successes: contribution of each item to the curve at budgets 1..B, shape (m, B), never
            falling.

    Returns:
        The budget; or an estimate without a value whose method says why there is none.

    References:
        Berk and Jones, "Goodness-of-fit test statistics that dominate the Kolmogorov statistics",
        Zeitschrift für Wahrscheinlichkeitstheorie und verwandte Gebiete 1979 (one-sided).
    """
    budget, m = successes.shape[1], successes.shape[0]
    if budget < LEAST_BUDGET:
        return unknown(f"needs a budget of at least {LEAST_BUDGET}, has {budget}", m)
    late = successes[:, -1] - successes[:, 0]
    if late.sum() < 1e-9:
        return unknown("the curve is flat", m)
    curve = (successes.sum(axis=0) - successes[:, 0].sum()) / late.sum()
    found = int(bend(curve))
    if found == 1 or not _levels_off(curve, found):
        return unknown(NO_PLATEAU, m)
    n = int(late.sum() ** 2 / (late**2).sum() + 1e-9)
    return found if _chance(curve, n) <= LEVEL else unknown(NO_PLATEAU, m)


def slopes(
    curves: NDArray[np.float64], budget: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the rise per unit of ln(budget) before and after a budget.

    Args:
        curves: success at budgets 1..B, shape (..., B).
        budget: 2..B - 1.
    """
    at, last = curves[..., budget - 1], curves.shape[-1]
    before = (at - curves[..., 0]) / log(budget)
    after = (curves[..., -1] - at) / log(last / budget)
    return before, after


def _levels_off(curve: NDArray[np.float64], budget: int) -> bool:
    before, after = slopes(curve, budget)
    return bool(after <= FLATTER * before)


def _chance(curve: NDArray[np.float64], n: int) -> float:
    """Return how often n late successes on a straight curve look as much like two slopes."""
    shares = np.diff(_log_share(len(curve)))
    rng = np.random.default_rng(_SEED)
    drawn = rng.multinomial(n, shares, size=_DRAWS).cumsum(axis=1) / n
    observed = _two_slopes(curve[1:-1])
    return float((1 + (_two_slopes(drawn[:, :-1]) >= observed - 1e-9).sum()) / (1 + _DRAWS))


def _two_slopes(share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest log likelihood ratio per success; shares at 2..B - 1, (..., B - 2)."""
    x = _log_share(share.shape[-1] + 2)[1:-1]
    ratio = rel_entr(share, x) + rel_entr(np.maximum(1 - share, 0), 1 - x)
    found: NDArray[np.float64] = np.where(share > x, ratio, 0).max(axis=-1)
    return found


def _log_share(budget: int) -> NDArray[np.float64]:
    """Return ln b / ln B for b = 1..B."""
    x = np.log(np.arange(1, budget + 1))
    found: NDArray[np.float64] = x / x[-1]
    return found
