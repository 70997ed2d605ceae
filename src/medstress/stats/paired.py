"""The difference of two shares on the same units: interval and test from one method."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np

from medstress.stats.estimate import Ends, Estimate, quantile, unknown
from medstress.stats.shares import Mask, Numbers, Units, linearised_effect, mean_size, tally

FEW = 10
"""Where fewer pairs are discordant and no unit repeats, p is at least the exact binomial one."""
LEAST_UNITS = 6
"""Items or documents that have to differ: 5 of 5 is p = .0625."""
_HALVINGS = 60


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
    b + c < 10 and no unit repeats, p is at least the exact binomial one (METHODS 1.5).

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
    p = 1.0 if b + c == 0 else 2 * NormalDist().cdf(-abs(b - c) / sqrt(f * (b + c)))
    if 0 < b + c < FEW and m == n:
        p = max(p, exact_p(b, c))
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
    from math import comb

    n, few = b + c, min(b, c)
    return min(1.0, 2 * sum(comb(n, i) for i in range(few + 1)) / 2**n) if n else 1.0


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
