"""Means over clusters with interval and p of one method, for differences that are no shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
from scipy.stats import t

from medstress.metrics.old_stats.estimates import Estimate, Z, unknown
from medstress.metrics.old_stats.paired import quantile
from medstress.metrics.old_stats.power import LEAST_DISCORDANCE
from medstress.metrics.old_stats.shares import Unit, mean_size, parts_of

_METHOD = "t interval 95 % of the linearised mean, {n} values of {m} items (documents where known)"
_POWER_AT_80 = 0.8416212335729143
"""The normal quantile of .8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A mean of values that are not independent within a unit."""

    estimate: Estimate
    """The mean with its 95 % interval; no value and no interval without values."""
    p: float | None
    """Two-sided p-value of a mean of 0 by the same statistic; 1 if all values are 0, None without
    any."""
    interval90: tuple[float, float] | None
    """The 90 % interval; None without values."""
    smallest_effect: float | None
    """The mean that this many units find with 80 % power, at the spread that was seen or at
    `LEAST_DISCORDANCE`, whichever is larger; None without values."""
    discordance: float | None
    """The mean square of the values: of 0 and +-1 alone, the share that is not 0."""


def mean_of(values: Sequence[tuple[Unit, float]], reach: float = 1.0) -> Mean:
    """Estimate a mean with the largest variance of documents, items and entities as clusters.

    With d_i the sum and c_i the number of the values of unit i of n, N values and mean x:
    se^2 = n / (n - 1) sum (d_i - x c_i)^2 / N^2, and t with n - 1 degrees of freedom. Few values
    other than 0 say little of their variance, so se is never below z / (m + z^2), with m = N / K
    and K = sum c_i^2 / N: that of the rule for pairs of which none is discordant. If all values
    are 0 the interval is that rule's, +- z^2 / (m + z^2), and p = 1. (Size and coverage: docs,
    compare.)

    Args:
        values: unit and value; all units have equally many parts.
        reach: values lie in [-reach, reach]; the interval ends there.

    >>> found = mean_of([(str(i), float(i % 4 == 0)) for i in range(40)])
    >>> found.estimate.value, round(found.estimate.low, 3), round(found.estimate.high, 3)
    (0.25, 0.11, 0.39)
    >>> found = mean_of([(str(i), 0.0) for i in range(200)])
    >>> found.p, round(found.estimate.low, 4), round(found.estimate.high, 4)
    (1.0, -0.0188, 0.0188)
    """
    if not values:
        none = unknown("no pair")
        return Mean(estimate=none, p=None, interval90=None, smallest_effect=None, discordance=None)
    named = [(parts_of(unit), value) for unit, value in values]
    mean = sum(value for _, value in named) / len(named)
    levels = [_error(named, mean, depth) for depth in range(1, len(named[0][0]) + 1)]
    n, m = min(level.units for level in levels), min(level.effective for level in levels)
    seen, square = max(level.error for level in levels), sum(v * v for _, v in named) / len(named)
    degrees = max(n - 1, 1)

    def half(level: float) -> float:
        z = quantile(level)
        if square == 0:
            return z * z / (m + z * z)
        return float(t.ppf((1 + level) / 2, degrees)) * max(seen, z / (m + z * z))

    ends = [(max(mean - h, -reach), min(mean + h, reach)) for h in (half(0.95), half(0.9))]
    error = max(seen, Z / (m + Z * Z))
    planned = max(error, sqrt(max(square, LEAST_DISCORDANCE) / m))
    return Mean(
        estimate=Estimate(
            value=mean,
            n=len(named),
            low=ends[0][0],
            high=ends[0][1],
            method=_METHOD.format(n=len(named), m=n),
        ),
        p=1.0 if square == 0 else float(2 * t.sf(abs(mean) / error, degrees)),
        interval90=ends[1],
        smallest_effect=min((float(t.ppf(0.975, degrees)) + _POWER_AT_80) * planned, reach),
        discordance=square,
    )


class _Level(NamedTuple):
    error: float
    units: int
    effective: float


def _error(named: Sequence[tuple[tuple[str, ...], float]], mean: float, depth: int) -> _Level:
    """Return the standard error with units named by the first parts, their number, and N / K."""
    units = {unit: i for i, unit in enumerate(sorted({unit[:depth] for unit, _ in named}))}
    spread, counts = np.zeros(len(units)), np.zeros(len(units))
    for unit, value in named:
        spread[units[unit[:depth]]] += value - mean
        counts[units[unit[:depth]]] += 1
    n, effective = len(units), len(named) / mean_size(counts)
    if n < 2:
        return _Level(0.0, n, effective)
    return _Level(sqrt(n / (n - 1) * float((spread**2).sum())) / len(named), n, effective)
