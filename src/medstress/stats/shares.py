"""Shares with intervals that allow for answers that depend on each other (METHODS 1.5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from medstress.stats.estimate import WILSON, Estimate, sidak, unknown, wilson, wilson_ends

Numbers: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Units: TypeAlias = NDArray[np.int64]
"""Numbers of nested units, the widest first (document, item, entity), shape (levels, n)."""


def number_units(paths: Sequence[tuple[Any, ...]]) -> Units:
    """Number the units of every level.

    Args:
        paths: for each answer the names of its units, from the widest level down; all are equally
            long.

    Returns:
        Shape (levels, n); units are numbered in the order of their sorted paths.

    >>> number_units([("d", "q1"), ("d", "q2"), ("e", "q1")]).tolist()
    [[0, 0, 1], [0, 1, 2]]
    """
    levels = len(paths[0]) if paths else 1
    ordered = sorted(set(paths))
    # Sorted, the paths of one unit of any level follow each other.
    depths = range(1, levels + 1)
    is_new = [[path[:d] != last[:d] for d in depths] for last, path in pairwise(ordered)]
    numbers = np.cumsum(np.array([[False] * levels, *is_new]), axis=0, dtype=np.int64).T
    places = {path: i for i, path in enumerate(ordered)}
    return numbers[:, np.array([places[path] for path in paths], dtype=np.int64)]


def tally(units: NDArray[np.int64], *values: NDArray[Any]) -> list[Numbers]:
    """Return the number of answers of each unit that has some, then its sum of each of the values.

    Args:
        units: shape (n,).
        values: each of shape (n,).
    """
    counts = np.bincount(units).astype(np.float64)
    used = counts > 0
    of_all = (np.bincount(units, weights=one, minlength=len(counts)) for one in values)
    return [counts[used], *(sums[used].astype(np.float64) for sums in of_all)]


def linearised_effect(hits: Numbers, counts: Numbers) -> float:
    """Return the variance of sum(hits) / sum(counts) over units, relative to independent answers.

    n / (n - 1) sum_i (y_i - p c_i)^2 / (N p (1 - p)) for y_i hits among the c_i answers of unit
    i of n, N answers in all and 0 < p < 1.

    References:
        Dean and Pagano, "Evaluating confidence interval methods for binomial proportions in
        clustered surveys", Journal of Survey Statistics and Methodology 2015.
    """
    n, total = hits.shape[0], float(counts.sum())
    p = float(hits.sum()) / total
    spread = float(((hits - p * counts) ** 2).sum())
    return float(n / (n - 1) * spread / (total * p * (1 - p)))


def mean_size(counts: Numbers) -> float:
    """Return K = sum c_i^2 / N, the mean size of an answer's unit."""
    return float((counts**2).sum() / counts.sum())


def design_effect(hits: Numbers, counts: Numbers) -> float:
    """Return how many answers of one unit are worth one independent answer, at least 1.

    It is the largest of 1, `linearised_effect` and 1 + (K - 1) ICC, with the intraclass
    correlation by analysis of variance, cut to [0, 1]; K where all answers are alike or one unit
    gave them all, 1 where every unit gave one.

    Args:
        hits: of each unit, shape (n,).
        counts: answers of each unit, at least 1, shape (n,).
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
    icc = min(max((between - within) / (between + (size - 1) * within), 0.0), 1.0)
    return float(max(1.0, linearised_effect(hits, counts), 1 + (k - 1) * icc))


def rate(hits: Mask, units: Units) -> Estimate:
    """Estimate a share by Wilson's interval at N / the largest design effect of all levels.

    Items within a document may differ more than by chance, which cuts that level's effect to 1;
    answers that repeat an item still depend on each other.

    Args:
        hits: one for each answer, shape (n,).
        units: shape (levels, n).

    >>> rate(np.array([True, False]), number_units([("q1",), ("q2",)])).method
    'Wilson 95 % (each item occurs once)'
    """
    n, k = len(hits), int(hits.sum())
    if not n:
        return replace(unknown(WILSON), hits=0)
    levels = [tally(level, hits) for level in units]
    m = len(levels[0][0])
    if m == n:
        return replace(wilson(k, n), method=f"{WILSON} (each item occurs once)")
    effect = max(design_effect(y, counts) for counts, y in levels)
    low, high = wilson_ends(k / effect, n / effect)
    method = f"{WILSON} at the effective sample size, {m} items (documents where known)"
    return Estimate(value=k / n, n=n, low=low, high=high, method=method, hits=k, effect=effect)


def rate_of(marks: Iterable[tuple[tuple[Any, ...], bool]]) -> Estimate:
    """Estimate a share of marks, each given with the names of its units (`number_units`)."""
    both = list(marks)
    hits = np.array([hit for _, hit in both], dtype=bool)
    return rate(hits, number_units([path for path, _ in both]))


def simultaneous(shares: Sequence[tuple[Mask, Units]]) -> list[Estimate]:
    """Estimate m shares with intervals that all hold together at 95 %.

    Clopper and Pearson's exact interval at Sidak's level, at N / the design effect of the widest
    units. Shares may overlap.

    Args:
        shares: hits and units of each share, as `rate` takes them.

    References:
        Clopper and Pearson, "The use of confidence or fiducial limits", Biometrika 1934.
    """
    from scipy.special import betaincinv

    missed, m = 1 - sidak(len(shares)), len(shares)
    method = f"Clopper-Pearson, 95 % for all of {m} slices at once (Sidak)"
    estimates = []
    for hits, units in shares:
        if not len(hits):
            estimates.append(replace(unknown(method), hits=0))
            continue
        counts, y = tally(units[0], hits)
        effect = design_effect(y, counts)
        k, n = float(y.sum()) / effect, float(counts.sum()) / effect
        low = 0.0 if k == 0 else float(betaincinv(k, n - k + 1, missed / 2))
        high = 1.0 if k == n else float(betaincinv(k + 1, n - k, 1 - missed / 2))
        estimates.append(
            Estimate(
                value=float(y.sum() / counts.sum()),
                n=len(hits),
                low=low,
                high=high,
                method=method,
                hits=int(y.sum()),
                effect=effect,
            )
        )
    return estimates
