"""Many tables at once: drawn, enumerated, and judged by the package's statistics.

The functions repeat those of the package for arrays whose first axis is the run, because
10,000 runs a cell would take hours one by one. An interval holds a truth where its statistic at the
truth is within 1.96.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import lgamma
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from medstress.stats.estimate import Z

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Table = tuple[Floats, Floats, Floats, Floats]
"""Pairs that neither flips, only the control (second), only the attack (first), both."""

SEED = 20_261_125
ITEMS = 200
ONCE = "once"
LAYOUTS = {ONCE: (1, 1), "5 each": (5, 5), "1 to 10": (1, 10), "1 to 20": (1, 20)}
"""Answers of an item: from, to."""
_AT_ONCE = 500


def stream(*name: object) -> np.random.Generator:
    """Random numbers of one cell, the same whatever else is simulated."""
    return np.random.default_rng([SEED, crc32(repr(name).encode())])


def sizes(layout: str, runs: int, rng: np.random.Generator, n: int = ITEMS) -> NDArray[np.int64]:
    """How many answers each item has, shape (runs, n)."""
    low, high = LAYOUTS[layout]
    return rng.integers(low, high, (runs, n), endpoint=True)


def clustered(
    shares: Sequence[float], correlation: float, layout: str, runs: int, rng: np.random.Generator
) -> Iterator[Floats]:
    """Counts of each outcome in each item, item by item alike to a degree.

    Args:
        shares: probability of each outcome; they sum to 1.
        correlation: intraclass correlation, in (0, 1): shares of an item are Dirichlet.
        layout: one of `LAYOUTS`.
        runs: how many data sets.
        rng: random numbers.

    Yields:
        Shape (outcomes, up to 500, ITEMS).
    """
    shape = np.array(shares) * (1 / correlation - 1)
    for start in range(0, runs, _AT_ONCE):
        counts = sizes(layout, min(_AT_ONCE, runs - start), rng)
        drawn = rng.standard_gamma(np.broadcast_to(shape, (*counts.shape, len(shape))))
        total = drawn.sum(-1, keepdims=True)
        drawn = np.where(total > 0, drawn / np.where(total > 0, total, 1), np.array(shares))
        yield np.moveaxis(rng.multinomial(counts, drawn).astype(np.float64), -1, 0)


def enumerated(n: int) -> tuple[Table, Floats]:
    """All tables of n pairs, and the logarithm of how many ways lead to each."""
    sides = np.arange(n + 1)
    a, b = (each.ravel() for each in np.meshgrid(sides, sides, indexing="ij"))
    a, b = a[a + b <= n], b[a + b <= n]
    rest = n - a - b + 1
    first, second = np.repeat(a, rest), np.repeat(b, rest)
    third = np.arange(rest.sum()) - np.repeat(np.cumsum(rest) - rest, rest)
    cells = (first, second, third, n - first - second - third)
    factorial = np.array([lgamma(k + 1) for k in range(n + 1)])
    ways = factorial[n] - sum(factorial[each] for each in cells)
    return tuple(each.astype(np.float64) for each in cells), ways  # type: ignore[return-value]


def chances(table: Table, ways: Floats, shares: Sequence[float]) -> Floats:
    """The probability of each table under the shares of its four cells."""
    powers = [xlogy(k, p) for k, p in zip(table, shares, strict=True)]
    return np.exp(ways + sum(powers))


def wilson_misses(k: Floats, n: Floats, p: float) -> tuple[Bools, Bools]:
    """Where Wilson's interval lies above p, and where below."""
    z = (k / n - p) / np.sqrt(p * (1 - p) / n)
    return np.asarray(z > Z), np.asarray(z < -Z)


def tango_statistic(b: Floats, c: Floats, n: Floats | float, x: float) -> Floats:
    """Tango's statistic of "the difference is x"."""
    linear = -b - c + (2 * n - b + c) * x
    root = np.sqrt(np.maximum(linear**2 + 8 * n * c * x * (1 - x), 0))
    q = np.maximum((root - linear) / (4 * n), 0)
    return _ratio(b - c - n * x, np.sqrt(np.maximum(n * (2 * q + x * (1 - x)), 0)))


def _ratio(distance: Floats, scale: Floats) -> Floats:
    beyond = np.where(np.abs(distance) < 1e-9, 0.0, np.copysign(np.inf, distance))
    return np.where(scale > 1e-12, distance / np.where(scale > 1e-12, scale, 1), beyond)


def mean_sizes(counts: Floats) -> Floats:
    """K of each run."""
    return np.asarray((counts**2).sum(-1) / counts.sum(-1))


def linearised(hits: Floats, counts: Floats) -> Floats:
    """`linearised_effect` of each run; 0 where all answers are alike."""
    n, total = counts.shape[-1], counts.sum(-1)
    p = hits.sum(-1) / total
    spread = ((hits - p[:, None] * counts) ** 2).sum(-1)
    alone = total * p * (1 - p)
    return np.where(alone > 0, n / (n - 1) * spread / np.where(alone > 0, alone, 1), 0.0)


def share_effect(hits: Floats, counts: Floats) -> Floats:
    """`design_effect` of each run."""
    n, total, k = counts.shape[-1], counts.sum(-1), mean_sizes(counts)
    p = hits.sum(-1) / total
    between = (counts * (hits / counts - p[:, None]) ** 2).sum(-1) / (n - 1)
    within = (hits * (1 - hits / counts)).sum(-1) / np.maximum(total - n, 1)
    size = (total - k) / (n - 1)
    scale = between + (size - 1) * within
    icc = np.clip(np.where(scale > 0, (between - within) / np.where(scale > 0, scale, 1), 0), 0, 1)
    effect = np.maximum(np.maximum(1, linearised(hits, counts)), 1 + (k - 1) * icc)
    return np.where(total == n, 1.0, np.where((p > 0) & (p < 1), effect, k))


def pair_effects(first: Floats, second: Floats, counts: Floats) -> Floats:
    """`pair_effect` of each run."""
    n, total, k = counts.shape[-1], counts.sum(-1), mean_sizes(counts)
    b, c = first.sum(-1), second.sum(-1)
    d = (b - c) / total
    spread = ((first - second - d[:, None] * counts) ** 2).sum(-1)
    alone = b + c - total * d * d
    of_difference = n / (n - 1) * spread / np.where(alone > 0, alone, 1)
    effect = np.maximum(linearised(first, counts), linearised(second, counts))
    effect = np.minimum(np.maximum(np.maximum(effect, of_difference), 1), k)
    return np.where((b + c == 0) | (b == total) | (c == total), k, effect)
