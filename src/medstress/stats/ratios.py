"""The ratio of two means over the same answers, where the upper one is partly estimated elsewhere.

Fieller's interval over units, with the ends of what was estimated elsewhere combined into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot, sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from medstress.stats.estimates import Estimate, Z, unknown

Sums: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
"""Sums by unit: of the upper values, of the lower ones, and the number of answers; (n,) each."""

UNBOUNDED = "null: the interval of what it is a share of holds 0"
ONE_UNIT = "all answers are of one unit, so there is no interval"


def mean_of(levels: Sequence[Sums], below: float = 0.0, above: float = 0.0) -> Estimate:
    """Estimate the mean of the upper values.

    Args:
        levels: sums over documents, items and entities, the widest first; the widest interval of
            these counts.
        below: how far the lower end lies below the value by what was estimated elsewhere alone.
        above: the same for the upper end.

    >>> found = mean_of([(np.array([1.0, 0, 1, 0]), np.ones(4), np.ones(4))])
    >>> found.value, round(found.low, 3), round(found.high, 3)
    (0.5, -0.066, 1.066)
    """
    top, _, counts = levels[0]
    value, n = float(top.sum() / counts.sum()), round(float(counts.sum()))
    if len(counts) == 1:
        return Estimate(value=value, n=n, low=None, high=None, method=ONE_UNIT)
    spread = Z * sqrt(max(_moments(each)[0, 0] for each in levels))
    return Estimate(
        value=value,
        n=n,
        low=value - hypot(spread, below),
        high=value + hypot(spread, above),
        method=f"mean over {n} pairs, {_units(levels)}, 95 %",
    )


def ratio_of(levels: Sequence[Sums], below: float = 0.0, above: float = 0.0) -> Estimate:
    """Estimate the ratio of the mean upper value to the mean lower one.

    With C(x) = mean of (upper - x lower), V(x) its variance over units, and the distances `below`
    and `above` of the ends of the upper mean that were estimated elsewhere, the interval holds
    every x with C(x) - sqrt(1.96^2 V(x) + below^2) <= 0 <= C(x) + sqrt(1.96^2 V(x) + above^2).

    Args:
        levels: as of `mean_of`; the level with the largest variance at the estimate counts.
        below: as of `mean_of`.
        above: as of `mean_of`.

    Returns:
        None, with the reason as `method`, where the lower mean is not clear of 0 on its positive
        side: then no x, however far, is excluded.

    >>> gained = np.array([1.0] * 30 + [0] * 70)
    >>> found = ratio_of([(gained * (np.arange(100) % 2), gained, np.ones(100))])
    >>> found.value, round(found.low, 3), round(found.high, 3)
    (0.5, 0.311, 0.689)

    References:
        Fieller, "Some problems in interval estimation", JRSS B 1954.
        Zou and Donner, "Construction of confidence limits about effect measures: a general
        approach", Statistics in Medicine 2008.
    """
    top, bottom, counts = levels[0]
    total = float(counts.sum())
    upper, lower = float(top.sum()) / total, float(bottom.sum()) / total
    if lower <= 0 or len(counts) == 1:
        return unknown(UNBOUNDED if lower <= 0 else ONE_UNIT, round(total))
    x = upper / lower
    at = np.array([1.0, -x])
    v = max((_moments(each) for each in levels), key=lambda v: float(at @ v @ at))
    own, both, other = (Z * Z * float(v[i, j]) for i, j in ((0, 0), (0, 1), (1, 1)))
    square = lower * lower - other
    if square <= 0:
        return unknown(UNBOUNDED, round(total))
    middle = upper * lower - both

    def reach(distance: float) -> float:
        # a x^2 - 2 m x + c = 0; below 0 only by rounding, where the estimate is its own end.
        root = middle * middle - square * (upper * upper - own - distance * distance)
        return sqrt(max(root, 0.0))

    return Estimate(
        value=x,
        n=round(total),
        low=min(x, (middle - reach(below)) / square),
        high=max(x, (middle + reach(above)) / square),
        method=f"ratio of means over {round(total)} pairs, {_units(levels)}; Fieller's interval, "
        "95 %",
    )


def _moments(sums: Sums) -> NDArray[np.float64]:
    """Return the covariance matrix of both means, shape (2, 2), by linearisation over units."""
    *values, counts = sums
    n, total = len(counts), float(counts.sum())
    rest = np.array([each - each.sum() / total * counts for each in values])
    found: NDArray[np.float64] = n / (n - 1) * (rest @ rest.T) / total**2
    return found


def _units(levels: Sequence[Sums]) -> str:
    return f"{len(levels[0][2])} items (documents where known)"
