"""Means over clusters with interval and p of one method, for differences that are no shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.stats import t

from medstress.stats.estimates import Estimate, unknown
from medstress.stats.shares import Unit, parts_of

_METHOD = "t interval 95 % of the linearised mean, {n} values of {m} items (documents where known)"
_POWER_AT_80 = 0.8416212335729143
"""The normal quantile of .8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A mean of values that are not independent within a unit."""

    estimate: Estimate
    """The mean with its 95 % interval; no interval if all values are alike or of one unit."""
    p: float | None
    """Two-sided p-value of a mean of 0 by the same statistic; None without an interval."""
    interval90: tuple[float, float] | None
    """The 90 % interval."""
    smallest_effect: float | None
    """The mean that this many units find with 80 % power, at the spread that was seen."""


def mean_of(values: Sequence[tuple[Unit, float]]) -> Mean:
    """Estimate a mean with the largest variance of documents, items and entities as clusters.

    With d_i the sum and c_i the number of the values of unit i of n, N values and mean x:
    se^2 = n / (n - 1) sum (d_i - x c_i)^2 / N^2, and t with n - 1 degrees of freedom.

    Args:
        values: unit and value; all units have equally many parts.

    >>> found = mean_of([(str(i), float(i % 4 == 0)) for i in range(40)])
    >>> found.estimate.value, round(found.estimate.low, 3), round(found.estimate.high, 3)
    (0.25, 0.11, 0.39)
    """
    if not values:
        none = unknown("no pair")
        return Mean(estimate=none, p=None, interval90=None, smallest_effect=None)
    named = [(parts_of(unit), value) for unit, value in values]
    mean = sum(value for _, value in named) / len(named)
    errors = [_error(named, mean, depth) for depth in range(1, len(named[0][0]) + 1)]
    error, n = max(errors)
    n = min(units for _, units in errors)
    method = _METHOD.format(n=len(named), m=n)
    if error == 0:
        why = f"{method}: no interval, as all values are alike or of one item"
        none = Estimate(value=mean, n=len(named), low=None, high=None, method=why)
        return Mean(estimate=none, p=None, interval90=None, smallest_effect=None)
    half, half90 = (float(t.ppf(1 - miss / 2, n - 1)) * error for miss in (0.05, 0.1))
    return Mean(
        estimate=Estimate(
            value=mean, n=len(named), low=mean - half, high=mean + half, method=method
        ),
        p=float(2 * t.sf(abs(mean) / error, n - 1)),
        interval90=(mean - half90, mean + half90),
        smallest_effect=half + _POWER_AT_80 * error,
    )


def _error(
    named: Sequence[tuple[tuple[str, ...], float]], mean: float, depth: int
) -> tuple[float, int]:
    """Return the standard error with units named by the first parts, and their number."""
    units = {unit: i for i, unit in enumerate(sorted({unit[:depth] for unit, _ in named}))}
    spread = np.zeros(len(units))
    for unit, value in named:
        spread[units[unit[:depth]]] += value - mean
    n = len(units)
    if n < 2:
        return 0.0, n
    return sqrt(n / (n - 1) * float((spread**2).sum())) / len(named), n
