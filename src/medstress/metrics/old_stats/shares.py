"""Shares with intervals that allow for dependent answers to one item."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta

from medstress.metrics.old_stats.estimates import WILSON, Estimate, unknown, wilson, wilson_ends


def linearised_effect(hits: NDArray[np.float64], counts: NDArray[np.float64]) -> float:
    """Return the variance of sum(hits) / sum(counts) over units, relative to independent answers.

    n / (n - 1) sum_i (y_i - p c_i)^2 / (N p (1 - p)) for y_i hits among the c_i answers of unit
    i of n, N answers in all and 0 < p < 1.

    Args:
        hits: y_i, shape (n,), n >= 2.
        counts: c_i, shape (n,), at least 1 each.

    References:
        Dean and Pagano, "Evaluating confidence interval methods for binomial proportions in
        clustered surveys", Journal of Survey Statistics and Methodology 2015.
    """
    n, total = hits.shape[0], float(counts.sum())
    p = float(hits.sum()) / total
    spread = float(((hits - p * counts) ** 2).sum())
    return float(n / (n - 1) * spread / (total * p * (1 - p)))


def mean_size(counts: NDArray[np.float64]) -> float:
    """Return K = sum c_i^2 / N, the mean size of an answer's unit."""
    return float((counts**2).sum() / counts.sum())


def design_effect(hits: NDArray[np.float64], counts: NDArray[np.float64]) -> float:
    """Return how many answers of one unit are worth one independent answer, at least 1.

    It is the largest of 1, `linearised_effect` and 1 + (K - 1) ICC, with the intraclass
    correlation by analysis of variance, cut to [0, 1]. `linearised_effect` is low by chance if
    there are few units, the other if their sizes differ. K if all answers are alike or one unit
    gave them all; 1 if every unit gave one.

    Args:
        hits: shape (n,).
        counts: shape (n,), at least 1 each.
    """
    n, total, k = hits.shape[0], float(counts.sum()), mean_size(counts)
    p = float(hits.sum()) / total
    if n == total:
        return 1.0
    if n == 1 or not 0 < p < 1:
        return k
    between = float((counts * (hits / counts - p) ** 2).sum()) / (n - 1)
    within = float((hits * (1 - hits / counts)).sum()) / (total - n)
    size = (total - k) / (n - 1)
    correlation = min(max((between - within) / (between + (size - 1) * within), 0.0), 1.0)
    return float(max(1.0, linearised_effect(hits, counts), 1 + (k - 1) * correlation))


def share(hits: ArrayLike, counts: ArrayLike) -> Estimate:
    """Estimate sum(hits) / sum(counts) by Wilson's interval at N / `design_effect` answers.

    Args:
        hits: hits of each unit (item, or document if known), shape (n,).
        counts: answers of each unit, shape (n,); units without any are left out.

    Returns:
        The share in [0, 1] with its 95 % interval; `n` counts answers.

    >>> found = share([1, 0, 1, 0], [1, 1, 1, 1])
    >>> found.value, round(found.low, 4), round(found.high, 4)
    (0.5, 0.15, 0.85)
    >>> found = share([5, 0, 5, 0], [5, 5, 5, 5])  # all answers of a unit are alike
    >>> found.n, round(found.low, 2) < 0.15
    (20, True)
    """
    y, c = np.asarray(hits, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    return _share([(y[c > 0], c[c > 0])])


def _share(levels: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> Estimate:
    """Estimate with the largest design effect of several levels of units, the widest first.

    Items within a document may differ more than by chance, which cuts that level's effect to 1;
    answers that repeat an item are still not independent.
    """
    y, c = levels[0]
    n, k = round(c.sum()), round(y.sum())
    if n == c.shape[0]:
        return replace(wilson(k, n), method=f"{WILSON} (each item occurs once)" if n else WILSON)
    effect = _largest_effect(levels)
    low, high = wilson_ends(k / effect, n / effect)
    method = f"{WILSON} at the effective sample size, {c.shape[0]} items (documents where known)"
    return Estimate(value=k / n, n=n, low=low, high=high, method=method, hits=k)


def _largest_effect(levels: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> float:
    return max(design_effect(*level) for level in levels)


Unit: TypeAlias = str | tuple[str, ...]
"""An item, or a path from the widest cluster down: document, item, entity."""


def parts_of(unit: Unit) -> tuple[str, ...]:
    """Return the parts of a unit, the widest first."""
    return (unit,) if isinstance(unit, str) else unit


def rate(observations: Iterable[tuple[Unit, bool]]) -> Estimate:
    """Estimate a share from hits and misses of items that may occur several times.

    The design effect is the largest of those with documents, items and entities as clusters.

    Args:
        observations: pairs of the unit and whether it was a hit; all units have equally many parts.

    Returns:
        The estimate, as `share` returns it.

    >>> rate([("q1", True), ("q2", False)]).method
    'Wilson 95 % (each item occurs once)'
    """
    return _share(_levels(observations))


def _levels(
    observations: Iterable[tuple[Unit, bool]],
) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Count hits and answers by unit, for units of every depth."""
    seen = [(parts_of(unit), hit) for unit, hit in observations]
    depth = max((len(unit) for unit, _ in seen), default=1)
    return [_tally(seen, parts) for parts in range(1, depth + 1)]


def _tally(
    seen: Sequence[tuple[tuple[str, ...], bool]], parts: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Count hits and answers by unit, units being named by the first `parts` parts."""
    counts = Counter(unit[:parts] for unit, _ in seen)
    hits = Counter(unit[:parts] for unit, hit in seen if hit)
    # Sorted, so that sums do not depend on the order of the trials.
    table = [(hits[unit], counts[unit]) for unit in sorted(counts)]
    y, c = np.array(table, dtype=np.float64).reshape(-1, 2).T
    return y, c


def slice_shares(slices: Sequence[tuple[ArrayLike, ArrayLike]]) -> list[Estimate]:
    """Estimate the shares of m slices with intervals that all hold together at 95 %.

    Clopper and Pearson's exact interval at Sidak's level: each may miss with probability
    1 - .95^(1/m). Slices may overlap. If items occur several times, at N / `design_effect`, which
    few items make uncertain: then they hold together less often (docs: results/statistics).

    Args:
        slices: hits and counts by unit, as `share` takes them, of each slice.

    >>> alone, = slice_shares([([1] * 5 + [0] * 5, [1] * 10)])
    >>> round(alone.low, 4), round(alone.high, 4)
    (0.1871, 0.8129)

    References:
        Clopper and Pearson, "The use of confidence or fiducial limits", Biometrika 1934.
        Sidak, "Rectangular confidence regions for the means of multivariate normal
        distributions", JASA 1967.
    """
    missed = 1 - 0.95 ** (1 / len(slices)) if slices else 0.0
    return [_exact(hits, counts, missed, len(slices)) for hits, counts in slices]


def _exact(hits: ArrayLike, counts: ArrayLike, missed: float, m: int) -> Estimate:
    y, c = np.asarray(hits, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    y, c = y[c > 0], c[c > 0]
    method = f"Clopper-Pearson, 95 % for all of {m} slices at once (Sidak)"
    if not c.size:
        return replace(unknown(method), hits=0)
    effect = design_effect(y, c)
    k, n = float(y.sum()) / effect, float(c.sum()) / effect
    return Estimate(
        value=float(y.sum() / c.sum()),
        n=round(c.sum()),
        low=0.0 if k == 0 else float(beta.ppf(missed / 2, k, n - k + 1)),
        high=1.0 if k == n else float(beta.ppf(1 - missed / 2, k + 1, n - k)),
        method=method,
        hits=round(y.sum()),
    )
