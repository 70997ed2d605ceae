"""Means of values that depend on each other within a unit, for differences that are no shares."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, hypot, sqrt

import numpy as np
from numpy.typing import NDArray

from medstress.stats.estimate import WILSON, Estimate, Z, quantile, unknown, wilson_ends
from medstress.stats.paired import Difference
from medstress.stats.shares import Numbers, Units, mean_size, tally


def mean(values: Numbers, units: Units, reach: float = 1.0) -> Difference:
    """Estimate a mean by its linearised variance.

    The standard error is at least z / (N/K + z^2), so that an interval is never of no width; t has
    n - 1 degrees of freedom for n units of the widest level.

    Args:
        values: in [-reach, reach], shape (n,).
        units: shape (levels, n).
        reach: the largest value there can be; ends are cut at it.
    """
    from scipy.special import stdtr, stdtrit

    n = len(values)
    if not n:
        return Difference(estimate=unknown("no pair"), p=None)
    centre = float(values.mean())
    levels = [tally(level, values - centre) for level in units]
    errors = [
        sqrt(len(c) / (len(c) - 1) * float((d**2).sum())) / n if len(c) > 1 else 0.0
        for c, d in levels
    ]
    m, effective = min(len(c) for c, _ in levels), min(n / mean_size(c) for c, _ in levels)
    square, degrees = float((values**2).mean()), max(m - 1, 1)

    def half(level: float) -> float:
        z = quantile(level)
        if square == 0:
            return z * z / (effective + z * z)
        t = float(stdtrit(degrees, (1 + level) / 2))
        return t * max(*errors, z / (effective + z * z))

    error = max(*errors, Z / (effective + Z * Z))
    p = 1.0 if square == 0 else 2 * float(stdtr(degrees, -abs(centre) / error))
    (low, high), narrow = (
        (max(centre - half(level), -reach), min(centre + half(level), reach))
        for level in (0.95, 0.9)
    )
    method = f"t interval 95 % of the linearised mean, {n} values of {m} items (documents)"
    return Difference(
        estimate=Estimate(value=centre, n=n, low=low, high=high, method=method),
        p=p,
        interval90=narrow,
    )


def difference_of_names(
    values: Numbers,
    items: NDArray[np.int64],
    names: Sequence[frozenset[str]],
    n_names: int,
    level: float = 0.95,
    reach: float = 1.0,
) -> Difference:
    """Estimate a mean for items and names like these, and test whether it is 0.

    N^2 V = n/(n-1) sum over items of (sum r)^2
    + k/(k-1) max(0, sum over names of (sum r)^2 - sum over both of (sum r)^2)
    with r the residuals, n items and k names; t has min(n, k) - 1 degrees of freedom.

    Args:
        values: shape (N,).
        items: the item (document where known) of each value, shape (N,).
        names: the names that each value rests on.
        n_names: k, how many names the arm with fewer drew.
        level: of the interval, two-sided.
        reach: the largest value there can be; ends are cut at it.

    Returns:
        The estimate; without an interval where the names cannot be told from the items, and
        `method` says why.

    References:
        Cameron, Gelbach and Miller, "Robust inference with multiway clustering", JBES 2011.
    """
    from scipy.sparse import csr_array
    from scipy.special import stdtr, stdtrit

    numbers = np.unique(items, return_inverse=True)[1]
    n, k, size = int(numbers.max(initial=-1)) + 1, n_names, len(values)
    if k < 2:
        return Difference(estimate=unknown("fewer than two names were drawn", size), p=None)
    if n < 2:
        return Difference(estimate=unknown("fewer than two items have pairs", size), p=None)
    columns = {name: j for j, name in enumerate(sorted(frozenset().union(*names)))}
    entries = [(i, columns[name]) for i, drawn in enumerate(names) for name in drawn]
    at, column = zip(*entries, strict=True)
    by_name = csr_array((np.ones(len(entries)), (at, column)), shape=(size, len(columns)))
    by_item = csr_array((np.ones(size), (np.arange(size), numbers)), shape=(size, n))
    centre = float(values.mean())
    r = (values - centre)[:, None]
    both = by_item.T @ by_name.multiply(r)
    shared = float(((by_name.T @ r) ** 2).sum()) - float(both.multiply(both).sum())
    variance = n / (n - 1) * float(((by_item.T @ r) ** 2).sum()) + k / (k - 1) * max(shared, 0.0)
    if variance == 0:
        why = "all pairs agree, so that an interval would have no width"
        return Difference(estimate=unknown(why, size), p=None)
    error, degrees = sqrt(variance) / size, min(n, k) - 1
    (low, high), narrow = (
        (max(centre - half, -reach), min(centre + half, reach))
        for half in (float(stdtrit(degrees, (1 + at) / 2)) * error for at in (level, 0.9))
    )
    method = (
        f"two-way linearised variance over {n} items (documents where known) and {k} names, t "
        f"interval {100 * level:.4g} %"
    )
    return Difference(
        estimate=Estimate(value=centre, n=size, low=low, high=high, method=method),
        p=2 * float(stdtr(degrees, -abs(centre) / error)),
        interval90=narrow,
    )


def difference_of_few(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """Estimate mean(first) - mean(second) of a few values in [0, 1].

    Among values in [0, 1] with a given mean, zeros and ones vary most. So Wilson's interval of a
    share, with the sum of the values as hits, covers the mean of any such values at least as often.
    Newcombe's rule joins the two intervals: with means s and t and intervals [l, u] and [v, w],
    from s - t - sqrt((s - l)^2 + (w - t)^2) to s - t + sqrt((u - s)^2 + (t - v)^2). A bootstrap of
    five values a side covers 86 % instead of 95 %.

    Args:
        first: at least one value.
        second: at least one; `n` of the estimate counts these.

    >>> sure = difference_of_few([1.0, 1.0, 1.0], [0.0, 0.0, 0.0])
    >>> sure.value, round(sure.low, 2), sure.high
    (1.0, 0.21, 1.0)

    References:
        Newcombe, "Interval estimation for the difference between independent proportions:
        comparison of eleven methods", Statistics in Medicine 1998, method 10.
    """

    def mean_and_ends(values: Sequence[float]) -> tuple[float, tuple[float, float]]:
        n = len(values)
        # Normalised probabilities may exceed 1 by rounding.
        total = min(max(fsum(values), 0.0), float(n))
        return total / n, wilson_ends(total, n)

    s, (low, high) = mean_and_ends(first)
    t, (least, most) = mean_and_ends(second)
    return Estimate(
        value=s - t,
        n=len(second),
        low=s - t - hypot(s - low, most - t),
        high=s - t + hypot(high - s, t - least),
        method=f"{WILSON} of each mean over sampled conversations, joined by Newcombe's rule",
    )
