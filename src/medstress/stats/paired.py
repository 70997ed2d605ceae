"""Two arms on the same units: shares, means and names like these, each with its test, and power.

Interval and test of a difference come from one method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, comb, floor, fsum, hypot, sqrt

import numpy as np
from numpy.typing import NDArray

from medstress.stats.estimate import (
    LEAST_P,
    WILSON,
    Ends,
    Estimate,
    Z,
    p_of,
    quantile,
    unknown,
    wilson_ends,
)
from medstress.stats.resampling import Drawn
from medstress.stats.shares import Mask, Numbers, Units, linearised_effect, mean_size, tally

FEW = 10
"""Where fewer items or documents differ, p is at least the exact binomial one."""
LEAST_UNITS = 6
"""Items or documents that have to differ: 5 of 5 is p = .0625."""
ASSUMED = (0.15, 0.4)
"""Shares of discordant pairs that are assumed before any is seen: few of them and many."""
_HALVINGS, _TRIES = 60, 40
_DEVIATIONS = 9
"""Counts farther than so many standard deviations from their mean are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How much more often the first of two arms has a hit than the second."""

    estimate: Estimate
    """The difference in [-1, 1]; `n` counts pairs."""
    p: float | None
    """Two-sided p-value of no difference; None without pairs, 1 without discordant pairs."""
    only_first: int = 0
    """Pairs in which only the first has a hit."""
    only_second: int = 0
    """Pairs in which only the second has a hit."""
    n_units: int = 0
    """Widest units (documents, else items) with such a pair."""
    interval90: Ends = (None, None)
    """The 90 % interval, which decides on equivalence."""


def pair_effect(first: Numbers, second: Numbers, counts: Numbers) -> float:
    """Return the design effect f of a paired difference, from 1 to K (METHODS 1.5).

    f is the largest of the linearised design effects of the difference, of "only the first" and
    of "only the second"; K without a discordant pair.

    Args:
        first: pairs of each unit in which only the first has a hit, shape (n,).
        second: the same for the second.
        counts: pairs of each unit, shape (n,).
    """
    k, n, total = mean_size(counts), counts.shape[0], float(counts.sum())
    b, c = float(first.sum()), float(second.sum())
    if n == 1 or b + c == 0 or total in (b, c):
        return k
    effects = [linearised_effect(kind, counts) for kind in (first, second) if kind.any()]
    d = (b - c) / total
    spread = float(((first - second - d * counts) ** 2).sum())
    effects.append(n / (n - 1) * spread / (b + c - total * d * d))
    return min(max(1.0, *effects), k)


def difference(first: Mask, second: Mask, units: Units, level: float = 0.95) -> Difference:
    """Estimate a paired difference by Tango's score interval at the effective number of pairs.

    With b and c discordant pairs of the two kinds, N pairs and the design effect f: Tango's
    interval of (b/f, c/f, N/f), and p from its statistic at 0, (b - c) / sqrt(f (b + c)). Where
    fewer than 10 units differ, p is at least the exact binomial one of the units (METHODS 1.5).

    Args:
        first: hits of the first arm, one for each pair, shape (n,).
        second: hits of the second arm.
        units: of the pairs, shape (levels, n).
        level: of the interval, two-sided.

    References:
        Tango, "Equivalence test and confidence interval for the difference in proportions for the
        paired-sample design", Statistics in Medicine 1998.

    >>> import numpy as np
    >>> yes, no = np.ones(4, dtype=bool), np.zeros(4, dtype=bool)
    >>> difference(yes, no, np.arange(4)[None]).p
    0.125
    """
    n = len(first)
    if not n:
        return Difference(estimate=unknown("no pair"), p=None)
    only_first, only_second = first & ~second, second & ~first
    levels = [tally(level, only_first, only_second) for level in units]
    f = max(pair_effect(b, c, counts) for counts, b, c in levels)
    b, c, m = int(only_first.sum()), int(only_second.sum()), len(levels[0][0])
    z = abs(b - c) / sqrt(f * (b + c)) if b + c else 0.0
    p = p_of(z)
    _, lost, won = levels[0]  # units whose answers differ one way, or mostly so
    few = int((lost > won).sum()), int((won > lost).sum())
    if 0 < sum(few) < FEW:
        p = max(p, exact_p(*few))
    low, high = tango(b / f, c / f, n / f, quantile(level))
    what = "pairs, each item once" if m == n else f"pairs of {m} items (documents)"
    method = f"Tango's score interval {100 * level:.4g} %, {n} {what}"
    return Difference(
        estimate=Estimate(value=(b - c) / n, n=n, low=low, high=high, method=method, effect=f),
        p=p,
        only_first=b,
        only_second=c,
        n_units=len(np.unique(units[0][first != second])),
        interval90=tango(b / f, c / f, n / f, quantile(0.9)),
    )


def exact_p(b: int, c: int) -> float:
    """Return the two-sided exact binomial p-value of b against c discordant pairs (McNemar).

    >>> exact_p(5, 1)
    0.21875
    """
    n, few = b + c, min(b, c)
    return min(1.0, 2 * sum(comb(n, i) for i in range(few + 1)) / 2**n) if n else 1.0


def p_of_names(first: Set[str], second: Set[str]) -> float:
    """Return the exact binomial p of the names that took something in one arm alone.

    A name that took many items counts once. 0 where `FEW` or more differ: other tests decide.

    >>> p_of_names({"x"}, set()), p_of_names({"a", "b", "c", "d", "e", "f"}, {"a"})
    (1.0, 0.0625)
    """
    only = first - second, second - first
    return exact_p(len(only[0]), len(only[1])) if len(only[0]) + len(only[1]) < FEW else 0.0


def tango(b: float, c: float, n: float, z: float) -> tuple[float, float]:
    """Return the differences that Tango's statistic does not reject.

    Args:
        b: pairs with only the first hit; fractional where pairs depend on each other.
        c: pairs with only the second.
        n: all pairs.
        z: two-sided normal quantile of the level.
    """
    return 0.0 - _upper_end(c, b, n, z), _upper_end(b, c, n, z)


def _upper_end(b: float, c: float, n: float, z: float) -> float:
    """Return the largest difference that the statistic does not reject.

    With q the probability of the second kind, estimated at the difference x as the larger root of
    2n q^2 + (-b - c + (2n - b + c) x) q - c x (1 - x) = 0, the statistic is
    (b - c - n x) / sqrt(n (2q + x (1 - x))); beyond (b - c) / n it only falls. Bisection, because
    root finders stop early where b = c = 0.
    """

    def is_kept(x: float) -> bool:
        linear = -b - c + (2 * n - b + c) * x
        root = sqrt(max(linear * linear + 8 * n * c * x * (1 - x), 0.0))
        q = max(0.0, (root - linear) / (4 * n))
        return (b - c - n * x) ** 2 <= z * z * n * (2 * q + x * (1 - x))

    kept, out = (b - c) / n, 1.0
    if is_kept(out):
        return out
    for _ in range(_HALVINGS):
        middle = (kept + out) / 2
        kept, out = (middle, out) if is_kept(middle) else (kept, middle)
    return kept


# Means -----------------------------------------------------------------------------------------


def mean(values: Numbers, units: Units, reach: float = 1.0) -> Difference:
    """Estimate a mean by its linearised variance.

    The standard error is at least z / (N/K + z^2), so that an interval is never of no width; t has
    n - 1 degrees of freedom for n units of the widest level. Where fewer than 10 values are not 0
    and no unit repeats, p is at least the exact binomial one of their signs.

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
    alike = Drawn(effective, "items", (-1.0, 1.0))

    def half(level: float) -> float:
        if square == 0:
            return alike.ends(0.0, level)[1]
        z, t = quantile(level), float(stdtrit(degrees, (1 + level) / 2))
        return t * max(*errors, z / (effective + z * z))

    error = max(*errors, Z / (effective + Z * Z))
    p = 1.0 if square == 0 else max(2 * float(stdtr(degrees, -abs(centre) / error)), LEAST_P)
    above, below = int((values > 0).sum()), int((values < 0).sum())
    if 0 < above + below < FEW and m == n:
        p = max(p, exact_p(above, below))
    method = f"t interval 95 % of the linearised mean, {n} values of {m} items (documents)"
    return _around(centre, n, half, p, method, reach=reach)


def _around(
    centre: float,
    n: int,
    half: Callable[[float], float],
    p: float,
    method: str,
    level: float = 0.95,
    *,
    reach: float,
) -> Difference:
    """Return a mean with an interval of some half width at a level, cut at what there can be."""
    (low, high), narrow = (
        (max(centre - half(at), -reach), min(centre + half(at), reach)) for at in (level, 0.9)
    )
    estimate = Estimate(value=centre, n=n, low=low, high=high, method=method)
    return Difference(estimate=estimate, p=p, interval90=narrow)


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

    def half(at: float) -> float:
        return float(stdtrit(degrees, (1 + at) / 2)) * error

    p = max(2 * float(stdtr(degrees, -abs(centre) / error)), LEAST_P)
    method = (
        f"two-way linearised variance over {n} items (documents where known) and {k} names, t "
        f"interval {100 * level:.4g} %"
    )
    return _around(centre, size, half, p, method, level, reach=reach)


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


# What n pairs can see --------------------------------------------------------------------------
#
# Each item occurs once: n independent pairs, b of which only the first arm hits and c only the
# second. With discordance D = P(b) + P(c) and difference d = P(b) - P(c), b + c is binomial (n, D),
# and b given b + c is binomial with probability (D + d) / 2D. All tables are enumerated; nothing is
# approximated by the normal distribution. Clustered pairs are worth fewer: hand in n / f with the
# design effect f.


def power_of(n: int, discordance: float, difference: float) -> float:
    """Return the probability that n pairs give p < .05.

    Args:
        n: independent pairs, at least 1.
        discordance: probability that exactly one arm has a hit, in [0, 1].
        difference: first arm minus second, at most `discordance` in size.

    >>> round(power_of(200, 0.15, 0.1), 3)
    0.977
    """
    if discordance == 0:
        return 0.0
    m, weight = _discordant(n, discordance)
    least, first = _least(m), (discordance + difference) / (2 * discordance)
    rejected = _above(least - 1, m, first) + _above(least - 1, m, 1 - first)
    return float((weight * rejected).sum())


def detectable(n: int, discordance: float, power: float = 0.8) -> float | None:
    """Return the smallest difference that n pairs find with the given power.

    A difference above the discordance cannot be; so where the discordance is too small for the
    power, it is taken to be as large as the difference, all discordant pairs going one way.

    Args:
        n: independent pairs.
        discordance: probability that exactly one arm has a hit, in [0, 1].
        power: probability of p < .05, in (0, 1).

    Returns:
        The difference in (0, 1], to 1e-9; None if n pairs cannot find any.

    >>> round(detectable(200, 0.15), 3)
    0.074
    >>> detectable(5, 0.5) is None
    True
    """
    if n == 0:
        return None

    def is_enough(difference: float) -> bool:
        return power_of(n, max(discordance, difference), difference) >= power

    if not is_enough(1.0):
        return None
    too_small, enough = 0.0, 1.0
    for _ in range(_TRIES):
        middle = (too_small + enough) / 2
        too_small, enough = (too_small, middle) if is_enough(middle) else (middle, enough)
    return enough


def _least(m: Numbers) -> Numbers:
    """Return the smallest b of b + c = m, b > c, that the test rejects; above m if it rejects none.

    (2b - m) / sqrt(m) > z, and where m < FEW the exact test rejects too.
    """
    least = np.floor((m + Z * np.sqrt(m)) / 2) + 1
    few = m < FEW
    return np.where(few, np.maximum(least, _exact_least()[np.where(few, m, 0).astype(int)]), least)


@lru_cache(maxsize=1)
def _exact_least() -> Numbers:
    """Return the same of the exact test alone, for m = 0, ..., FEW - 1."""
    return np.array(
        [
            next((b for b in range(m + 1) if 2 * b > m and exact_p(b, m - b) < 0.05), m + 1)
            for m in range(FEW)
        ],
        dtype=np.float64,
    )


def _above(k: Numbers, m: Numbers, p: float) -> Numbers:
    """Return P(X > k) for X binomial (m, p); 1 for k below 0, 0 from m on."""
    from scipy.special import bdtrc

    inside = np.clip(k, 0, m)
    return np.where(k < 0, 1.0, np.where(k >= m, 0.0, bdtrc(inside, m.astype(np.int64), p)))


def _discordant(n: int, discordance: float) -> tuple[Numbers, Numbers]:
    """Return the counts of discordant pairs that matter, and their probabilities."""
    from scipy.special import gammaln, xlog1py, xlogy

    mean = n * discordance
    reach = _DEVIATIONS * sqrt(mean * (1 - discordance)) + 3 * _DEVIATIONS
    m = np.arange(max(floor(mean - reach), 0), min(ceil(mean + reach), n) + 1).astype(np.float64)
    logs = gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m + 1)
    return m, np.exp(logs + xlogy(m, discordance) + xlog1py(n - m, -discordance))
