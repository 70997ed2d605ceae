"""Verdicts on claims, and effects about whole curves or several victims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from itertools import chain
from math import sqrt
from statistics import fmean, variance
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from medstress.metrics.arms import Hits, hits
from medstress.metrics.contrasts import (
    LEAST,
    Effect,
    Side,
    at_worst,
    hull,
    side_means,
    within,
)
from medstress.metrics.counts import is_eligible, units_of
from medstress.metrics.curves.exponents import peak
from medstress.metrics.curves.plateau import bend, plateau
from medstress.metrics.curves.size import trend
from medstress.metrics.old_stats.estimates import Estimate, unknown
from medstress.metrics.old_stats.resampling import (
    RESAMPLES,
    ROUNDING,
    around,
    bootstrapped,
    in_words,
    resampled_mean,
)

MARGIN = 0.05
"""Two success rates are close if they differ by no more than this."""
NEAR = 2.0
"""Two budgets are near each other if neither is more than this many times the other."""
_CERTAIN = 0.975
_ROUNDED = 12


class Finding(StrEnum):
    """The verdict on a claim."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    UNDECIDED = "undecided"
    NOT_TESTED = "not tested"


def above(estimate: Estimate) -> Finding:
    """Judge the claim that an effect is positive, by its whole interval.

    >>> above(Estimate(value=0.1, n=50, low=-0.02, high=0.2, method="")).value
    'undecided'
    """
    if estimate.low is None or estimate.high is None:
        return Finding.NOT_TESTED
    if estimate.low > 0:
        return Finding.SUPPORTED
    return Finding.CONTRADICTED if estimate.high < 0 else Finding.UNDECIDED


def below(estimate: Estimate) -> Finding:
    """Judge the claim that an effect is negative, by its whole interval."""
    opposite = {
        Finding.SUPPORTED: Finding.CONTRADICTED,
        Finding.CONTRADICTED: Finding.SUPPORTED,
    }
    return opposite.get(found := above(estimate), found)


def inside(estimate: Estimate, low: float, high: float) -> Finding:
    """Judge the claim that an effect lies between two bounds: equivalence by its interval.

    >>> inside(Estimate(value=0.0, n=50, low=-0.02, high=0.04, method=""), -0.05, 0.05).value
    'supported'
    """
    if estimate.low is None or estimate.high is None:
        return Finding.NOT_TESTED
    if low <= estimate.low and estimate.high <= high:
        return Finding.SUPPORTED
    apart = estimate.high < low or estimate.low > high
    return Finding.CONTRADICTED if apart else Finding.UNDECIDED


def frequent(estimate: Estimate) -> Finding:
    """Judge a claim by the share of resamples in which it holds: 97.5 % for, 2.5 % against.

    If answers are open, the least and the largest share decide.
    """
    if estimate.value is None:
        return Finding.NOT_TESTED
    if (estimate.value if estimate.low is None else estimate.low) >= _CERTAIN:
        return Finding.SUPPORTED
    most = estimate.value if estimate.high is None else estimate.high
    return Finding.CONTRADICTED if most <= 1 - _CERTAIN else Finding.UNDECIDED


def peak_inside(side: Side, exponents: Sequence[float], budget: int) -> Effect:
    """Estimate how often the highest success lies inside the grid of n, as a local maximum does.

    Args:
        side: one attack per exponent.
        exponents: ascending, at least three; with fewer there is no inside.
        budget: queries per item within which success counts.

    Returns:
        The share of resamples; the method says where the peak is. It has no interval unless
        answers are unreadable or failed; then it goes from the least share to the largest.
    """
    if len(exponents) < 3:
        return Effect(estimate=unknown(f"needs three values of n, has {len(exponents)}"))

    def estimate(inside: Side, ends: Side) -> Estimate:
        return _inside_share([ends[0], *inside, ends[1]], exponents, budget)

    return Effect(estimate=at_worst(estimate, side[1:-1], [side[0], side[-1]]))


def _inside_share(side: Side, exponents: Sequence[float], budget: int) -> Estimate:
    rates = [side_means([trials], within(budget)) for trials in side]
    items = sorted(set.intersection(*(set(found) for found in rates)))
    if len(items) < LEAST:
        return unknown(f"needs {LEAST} items in common, has {len(items)}")
    table = np.array([[found[item] for found in rates] for item in items])
    if np.ptp(table.mean(axis=0)) < 1e-12:
        return unknown("success is the same at every n", len(items))
    units = units_of(items, chain.from_iterable(side))
    found = peak(table, exponents, units)
    at = found["n"]
    ends = "" if at["low"] is None else f" [{at['low']:g}, {at['high']:g}]"
    method = (
        f"share of {RESAMPLES} resamples of {in_words(units)} with the peak inside the grid; "
        f"peak at n = {at['value']:g}{ends}"
    )
    return Estimate(value=found["inside_share"], n=len(items), low=None, high=None, method=method)


def lead_after_inflection(first: Side, second: Side, budget: int) -> Effect:
    """Estimate by how much one side leads past the point where the other's curve levels off.

    This is the mean of ASR(first) - ASR(second) over the budgets after the second's inflection;
    each resample of items has its own inflection. Without a plateau there is no estimate.

    Args:
        first: the side that is claimed to overtake.
        second: the side whose curve levels off.
        budget: the largest budget.
    """
    return Effect(estimate=at_worst(partial(_lead, budget=budget), first, second))


def _lead(first: Side, second: Side, budget: int) -> Estimate:
    rates = _paired_rates(first, second, budget)
    if isinstance(rates, Estimate):
        return rates
    found = plateau(rates[1])
    if isinstance(found, Estimate):
        return found
    m, units = len(rates[1]), rates[2]
    ours, theirs = (_curves(each, units) for each in rates[:2])
    later = np.arange(1, budget + 1) > bend(theirs)[:, None]
    leads = ((ours - theirs) * later).sum(axis=1) / later.sum(axis=1)
    method = f"mean over budgets {found + 1} to {budget}, past the inflection; {_paired(units)}"
    return _from_first(leads, m, method)


def gap_over_inflection(first: Side, second: Side, budget: int) -> Effect:
    """Estimate the budget of two curves' largest gap over that of the first's inflection.

    It is a ratio because the claim is about a logarithmic axis.
    """
    return Effect(estimate=at_worst(partial(_gap, budget=budget), first, second))


def _gap(first: Side, second: Side, budget: int) -> Estimate:
    rates = _paired_rates(first, second, budget)
    if isinstance(rates, Estimate):
        return rates
    m, units = len(rates[0]), rates[2]
    ours, theirs = (_curves(each, units) for each in rates[:2])
    gaps = np.round(np.abs(ours - theirs), _ROUNDED)
    if not gaps[0].any():
        return unknown("the two curves are the same", m)
    found = plateau(rates[0])
    if isinstance(found, Estimate):
        return found
    widest = gaps.argmax(axis=1) + 1.0
    method = (
        f"largest gap at {widest[0]:.0f} queries, inflection at {found}, ratio of the two; "
        f"{_paired(units)}"
    )
    return _from_first(widest / bend(ours), m, method)


def size_trend(points: Sequence[Mapping[str, Any]]) -> Effect:
    """Estimate the change of ASR per tenfold number of parameters.

    If unreadable and failed answers leave ASR open, the interval also covers its ends: the trend
    is steepest with small victims at one end and large ones at the other.

    Args:
        points: one per victim, with `parameters`, `asr` and `asr_ends`, the least and the largest.
    """
    known = [p for p in points if p["asr"] is not None]
    found = _trend(known, [p["asr"] for p in known])
    if not any(map(_is_open, known)):
        return Effect(estimate=found)
    sizes = np.log10([p["parameters"] for p in known])
    is_large = (sizes > sizes.mean()).astype(int).tolist()
    pairs = list(zip(known, is_large, strict=True))
    extremes = (
        _trend(known, [p["asr_ends"][i if large else 1 - i] for p, large in pairs]) for i in (0, 1)
    )
    return Effect(estimate=hull(found, *extremes))


def _trend(points: Sequence[Mapping[str, Any]], rates: Sequence[float]) -> Estimate:
    rated = zip(points, rates, strict=True)
    return trend([{"parameters": p["parameters"], "asr": {"value": rate}} for p, rate in rated])


def mean_difference(
    first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]
) -> Effect:
    """Estimate the difference of mean ASR of two groups of victims, by Welch's t.

    The victims are the sample, because items do not say how another model would do. If ASR is open,
    the interval also covers its ends.

    Args:
        first: one per victim, with `asr` and `asr_ends` as in `size_trend`.
        second: the same for the other group.
    """
    sides = [[p for p in side if p["asr"] is not None] for side in (first, second)]
    found = _welch(*([p["asr"] for p in side] for side in sides))
    if not any(_is_open(p) for side in sides for p in side):
        return Effect(estimate=found)
    ends = [[[p["asr_ends"][i] for p in side] for i in (0, 1)] for side in sides]
    extremes = (_welch(ends[0][i], ends[1][1 - i]) for i in (0, 1))
    return Effect(estimate=hull(found, *extremes))


def _is_open(point: Mapping[str, Any]) -> bool:
    least, most = point["asr_ends"]
    return bool(least < most)


def _welch(first: Sequence[float], second: Sequence[float]) -> Estimate:
    a, b = len(first), len(second)
    if min(a, b) < 2:
        return unknown("needs two victims of each group", a + b)
    value = fmean(first) - fmean(second)
    u, v = variance(first) / a, variance(second) / b
    method = "difference of means over victims, Welch's t 95 %"
    if u + v < ROUNDING**2:
        return unknown("victims of a group do not differ", a + b)
    freedom = (u + v) ** 2 / (u**2 / (a - 1) + v**2 / (b - 1))
    half = float(student.ppf(0.975, freedom)) * sqrt(u + v)
    return Estimate(value=value, n=a + b, low=value - half, high=value + half, method=method)


def _paired_rates(
    first: Side, second: Side, budget: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]] | Estimate:
    """Return both sides' success on shared items, shape (m, budget) each, and the documents.

    Every item weighs the same, as in the paired differences.
    """
    eligible = [[[r for r in t if is_eligible(r)] for t in side] for side in (first, second)]
    met = [{row.item_id for row in trials} for side in eligible for trials in side]
    items = sorted(set.intersection(*met))
    if len(items) < LEAST:
        return unknown(f"needs {LEAST} items in common, has {len(items)}", len(items))
    ours, theirs = (
        np.mean([_rates(hits(trials, items, budget)) for trials in side], axis=0)
        for side in eligible
    )
    met_by_all = (row for side in eligible for trials in side for row in trials)
    return ours, theirs, units_of(items, met_by_all)


def _rates(arm: Hits) -> NDArray[np.float64]:
    return arm.successes / arm.counts[:, None]


def _curves(rates: NDArray[np.float64], units: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return mean curves over items: the observed one first, then those of the resamples."""
    observed = rates.mean(axis=0, keepdims=True)
    return np.concatenate([observed, resampled_mean(rates, units)])


def _from_first(values: NDArray[np.float64], n: int, method: str) -> Estimate:
    """Return an estimate of the first value, with the quantiles of the others as interval."""
    return around(bootstrapped(float(values[0]), values[1:], n, method))


def _paired(units: NDArray[np.int64]) -> str:
    return f"bootstrap over {in_words(units)}, {RESAMPLES} resamples, paired, percentile 95 %"
