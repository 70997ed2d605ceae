"""The difference of two shares on the same items, with interval and test from one method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binomtest

from medstress.metrics.old_stats.estimates import Estimate, unknown
from medstress.metrics.old_stats.shares import Unit, linearised_effect, mean_size, parts_of

Level: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
"""Counts by unit: pairs with only the first hit, pairs with only the second, all pairs."""

_HALVINGS = 60
"""Bisections of an interval's end; they make it exact up to rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How much more often the first of two arms has a hit than the second."""

    estimate: Estimate
    """The difference in [-1, 1]; `n` counts pairs."""
    p: float | None
    """Two-sided p-value of no difference; None without pairs, 1 without discordant pairs."""
    only_first: int
    """Pairs in which only the first has a hit."""
    only_second: int
    """Pairs in which only the second has a hit."""
    effect: float = 1.0
    """The design effect f: how many pairs are worth one independent pair, at least 1."""


def paired_difference(
    only_first: ArrayLike, only_second: ArrayLike, counts: ArrayLike, level: float = 0.95
) -> Difference:
    """Estimate a paired difference by Tango's score interval at the effective sample size.

    With b and c discordant pairs of the two kinds, N pairs and the design effect f
    (`pair_effect`): Tango's interval of (b/f, c/f, N/f), and p from its statistic at 0,
    (b - c) / sqrt(f (b + c)), so that p < .05 if the 95 % interval excludes 0. Where each item
    occurs once, p is that of McNemar's test without correction for continuity.

    Args:
        only_first: pairs of each unit (item, or document if known) in which only the first arm
            has a hit, shape (n,).
        only_second: the same for the second arm.
        counts: pairs of each unit; units without any are left out.
        level: how sure the interval is, in (0, 1); .9 for a verdict of equivalence. Whatever it
            is, the fields of the estimate keep their names, and `method` says the level.

    Raises:
        ValueError: the level is not inside (0, 1).

    >>> found = paired_difference([1] * 12 + [0] * 38, [0] * 48 + [1] * 2, [1] * 50)
    >>> found.estimate.value, round(found.estimate.low, 3), round(found.estimate.high, 3)
    (0.2, 0.061, 0.345)
    >>> round(found.p, 4)
    0.0075

    References:
        Tango, "Equivalence test and confidence interval for the difference in proportions for
        the paired-sample design", Statistics in Medicine 1998.
    """
    first, second, size = (
        np.asarray(values, dtype=np.float64) for values in (only_first, only_second, counts)
    )
    return _difference([(first[size > 0], second[size > 0], size[size > 0])], level)


def _difference(levels: Sequence[Level], level: float) -> Difference:
    """Estimate with the largest design effect of several levels of units, widest first."""
    first, second, size = levels[0]
    units, n = size.shape[0], round(float(size.sum()))
    if n == 0:
        return Difference(estimate=unknown("no pair"), p=None, only_first=0, only_second=0)
    f = max(pair_effect(*each) for each in levels)
    b, c = float(first.sum()), float(second.sum())
    z = quantile(level)
    # 0 - x, for -0.0 is a confusing end in JSON.
    low, high = 0.0 - _upper_end(c / f, b / f, n / f, z), _upper_end(b / f, c / f, n / f, z)
    p = 1.0 if b + c == 0 else 2 * NormalDist().cdf(-abs(b - c) / sqrt(f * (b + c)))
    what = "pairs, each item once" if units == n else f"pairs of {units} items (documents)"
    method = f"Tango's score interval {100 * level:g} %, {n} {what}"
    estimate = Estimate(value=(b - c) / n, n=n, low=low, high=high, method=method)
    return Difference(estimate=estimate, p=p, only_first=round(b), only_second=round(c), effect=f)


def pair_effect(
    first: NDArray[np.float64], second: NDArray[np.float64], counts: NDArray[np.float64]
) -> float:
    """Return the design effect f of a paired difference, from 1 to K = sum c_i^2 / N.

    It is the largest of the linearised design effects of the difference, of "only the first" and
    of "only the second" (an empty one is left out); K if no pair is discordant, if all are alike,
    or if one unit gave all pairs.

    Args:
        first: pairs of each unit in which only the first has a hit, shape (n,).
        second: the same for the second.
        counts: pairs of each unit, at least 1 each.
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


def unite(pairs: Sequence[tuple[Unit, bool, bool]], level: float = 0.95) -> Difference:
    """Estimate the difference of two arms from pairs of answers.

    The design effect is the largest of those with documents, items and entities as clusters.

    Args:
        pairs: unit, the first arm's hit, the second's; all units have equally many parts.
        level: how sure the interval is, in (0, 1).

    >>> unite([("q1", True, False), ("q2", True, True)]).only_first
    1
    """
    named = [(parts_of(unit), first, second) for unit, first, second in pairs]
    depth = max((len(unit) for unit, *_ in named), default=1)
    return _difference([_tally(named, parts) for parts in range(1, depth + 1)], level)


def _tally(pairs: Sequence[tuple[tuple[str, ...], bool, bool]], parts: int) -> Level:
    """Count pairs by unit, units being named by the first `parts` parts."""
    units = {unit: i for i, unit in enumerate(sorted({unit[:parts] for unit, *_ in pairs}))}
    table = np.zeros((3, len(units)))
    for unit, first, second in pairs:
        table[:, units[unit[:parts]]] += (first and not second, second and not first, 1)
    only_first, only_second, counts = table
    return only_first, only_second, counts


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Return McNemar's exact two-sided p-value, to compare with what other tools print.

    It assumes that each item occurs once. `paired_difference` gives the p-value that belongs to
    the interval; this one may lie on the other side of .05.

    Args:
        only_first: pairs in which only the first has a hit.
        only_second: pairs in which only the second has a hit.

    >>> mcnemar_exact(5, 1)
    0.21875
    """
    n = only_first + only_second
    return float(binomtest(only_first, n).pvalue) if n else 1.0


def quantile(level: float) -> float:
    """Return the normal quantile of a two-sided interval.

    Args:
        level: how sure the interval is, in (0, 1).

    Raises:
        ValueError: the level is not inside (0, 1).

    >>> round(quantile(0.9), 4)
    1.6449
    """
    if not 0 < level < 1:
        raise ValueError(f"expected a level between 0 and 1, such as 0.95; got {level}")
    return NormalDist().inv_cdf((1 + level) / 2)


def _upper_end(b: float, c: float, n: float, z: float) -> float:
    """Return the largest difference that Tango's statistic does not reject.

    With q the probability of the second kind, estimated at the difference x as the larger root of
    2n q^2 + (-b - c + (2n - b + c) x) q - c x (1 - x) = 0, the statistic is
    (b - c - n x) / sqrt(n (2q + x (1 - x))); beyond (b - c) / n it only falls.
    """

    def is_kept(x: float) -> bool:
        linear = -b - c + (2 * n - b + c) * x
        root = linear * linear + 8 * n * c * x * (1 - x)
        q = max(0.0, (sqrt(max(root, 0.0)) - linear) / (4 * n))
        return (b - c - n * x) ** 2 <= z * z * n * (2 * q + x * (1 - x))

    kept, out = (b - c) / n, 1.0
    if is_kept(out):
        return out
    for _ in range(_HALVINGS):
        middle = (kept + out) / 2
        kept, out = (middle, out) if is_kept(middle) else (kept, middle)
    return kept
