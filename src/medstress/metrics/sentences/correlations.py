"""Pearson and Spearman correlation with gold scores, before and after.

Pairs that belong together, such as those that share a sentence, are drawn together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from medstress.metrics.old_stats.estimates import Estimate, unknown
from medstress.metrics.old_stats.resampling import RESAMPLES, bootstrapped, item_weights

PERMUTATIONS = 2_000
COEFFICIENTS = ("pearson", "spearman")
_SEED = 20_260_202

Scores: TypeAlias = NDArray[np.float64]
Clusters: TypeAlias = Sequence[str] | None
"""The cluster of each of m pairs; None if each pair is its own cluster."""


class Scored(NamedTuple):
    """The victim's score of one pair, and the gold score."""

    gold: float
    """The gold score."""
    score: float
    """The victim's score."""
    cluster: str
    """The cluster that is drawn as a whole (`medstress.core.clusters`)."""


def correlation(gold: Scores, scores: Scores, name: str, clusters: Clusters = None) -> Estimate:
    """Estimate a correlation; over several seeds, the mean of each seed's.

    Args:
        gold: gold scores of m pairs, shape (m,).
        scores: the victim's scores, shape (n_seeds, m).
        name: `pearson` or `spearman`.
        clusters: clusters of the pairs.

    Returns:
        The coefficient with a 95 % percentile bootstrap interval over clusters; unknown if there
        are fewer than three pairs, or if one side does not vary.
    """
    method = f"bootstrap over {_drawn_in_words(len(gold), clusters)}"
    value = _mean(gold, scores, name)
    if value is None:
        return unknown(f"{method}: undefined, as one side does not vary", n=0)
    return bootstrapped(value, _resampled(gold, scores, name, clusters), len(gold), method)


def change(
    gold: Scores, before: Scores, after: Scores, name: str, clusters: Clusters = None
) -> Estimate:
    """Estimate by how much a correlation falls, with clusters resampled together.

    Args:
        gold: gold scores, shape (m,).
        before: scores of the clean pairs, shape (n_seeds, m).
        after: scores of the perturbed pairs, same shape.
        name: `pearson` or `spearman`.
        clusters: clusters of the pairs.
    """
    method = f"paired bootstrap over {_drawn_in_words(len(gold), clusters)}"
    first, second = _mean(gold, before, name), _mean(gold, after, name)
    if first is None or second is None:
        return unknown(f"{method}: undefined, as one side does not vary", n=0)
    drawn = _resampled(gold, before, name, clusters) - _resampled(gold, after, name, clusters)
    return bootstrapped(first - second, drawn, len(gold), method)


def coefficient(
    gold: Scores, scores: Scores, name: str, clusters: Clusters = None
) -> tuple[float | None, Scores]:
    """Return a correlation, the mean over seeds (None if undefined), and that of every resample.

    The resamples depend only on the clusters, so arms over the same pairs are resampled together.
    """
    value = _mean(gold, scores, name)
    return value, np.zeros(0) if value is None else _resampled(gold, scores, name, clusters)


def permutation_p(
    gold: Scores, before: Scores, after: Scores, name: str, clusters: Clusters = None
) -> float | None:
    """Return the two-sided p-value of the change; before and after are swapped within clusters.

    p = (1 + #{|change| at least as large}) / (1 + PERMUTATIONS); None if it is undefined.
    """
    first, second = _mean(gold, before, name), _mean(gold, after, name)
    if first is None or second is None:
        return None
    rng = np.random.default_rng(_SEED)
    places, n_clusters = _places(len(gold), clusters)
    swap = rng.integers(0, 2, size=(PERMUTATIONS, 1, n_clusters)).astype(bool)[..., places]
    one = np.where(swap, after[None], before[None])
    other = np.where(swap, before[None], after[None])
    g = np.broadcast_to(gold, one.shape)
    drawn = np.abs(_rows(g, one, name).mean(1) - _rows(g, other, name).mean(1))
    hard = np.nan_to_num(drawn, nan=np.inf) >= abs(first - second) - 1e-12
    return float((1 + int(hard.sum())) / (1 + PERMUTATIONS))


def _drawn_in_words(m: int, clusters: Clusters) -> str:
    n_clusters = _places(m, clusters)[1]
    what = f"{m} pairs"
    if n_clusters < m:
        what = f"{n_clusters} clusters of {m} pairs (those that share a sentence are one)"
    return f"{what}, {RESAMPLES} resamples, percentile 95 %"


def _places(m: int, clusters: Clusters) -> tuple[NDArray[np.int64], int]:
    """Return the number of each pair's cluster, shape (m,), and how many clusters there are."""
    if clusters is None:
        return np.arange(m), m
    names, places = np.unique(np.array(clusters, dtype=str), return_inverse=True)
    return places, len(names)


def _mean(gold: Scores, scores: Scores, name: str) -> float | None:
    if len(gold) < 3 or not scores.size:
        return None
    found = _rows(np.broadcast_to(gold, scores.shape), scores, name)
    return float(found.mean()) if np.isfinite(found).all() else None


def _resampled(gold: Scores, scores: Scores, name: str, clusters: Clusters) -> Scores:
    """Return the coefficient of every resample of clusters, shape (RESAMPLES,)."""
    places, n = _places(len(gold), clusters)
    weights = item_weights(n)[:, places].astype(np.float64)
    found: Scores = np.mean([_weighted(gold, one, weights, name) for one in scores], axis=0)
    return found


def _weighted(x: Scores, y: Scores, weights: Scores, name: str) -> Scores:
    """Return the correlation of two arrays (m,) with weights (n, m), one result per row."""
    ranked = name == "spearman"
    a, b = (_ranks(each, weights) if ranked else each[None] for each in (x, y))
    total = weights.sum(-1, keepdims=True)
    a = a - (weights * a).sum(-1, keepdims=True) / total
    b = b - (weights * b).sum(-1, keepdims=True) / total
    return _ratio((weights * a * b).sum(-1), (weights * a * a).sum(-1), (weights * b * b).sum(-1))


def _ranks(x: Scores, weights: Scores) -> Scores:
    """Return mean ranks of values (m,) with weights (n, m), one row of ranks per row."""
    values, places = np.unique(x, return_inverse=True)
    order = np.argsort(places, kind="stable")
    first = np.searchsorted(places[order], np.arange(len(values)))
    counts = np.add.reduceat(weights[:, order], first, axis=1)
    ranks: Scores = (np.cumsum(counts, axis=1) - counts + (counts + 1) / 2)[:, places]
    return ranks


def _rows(x: Scores, y: Scores, name: str) -> Scores:
    """Return the correlation over the last axis of two arrays; nan if one does not vary."""
    if name == "spearman":
        x, y = rankdata(x, axis=-1), rankdata(y, axis=-1)
    x = x - x.mean(-1, keepdims=True)
    y = y - y.mean(-1, keepdims=True)
    return _ratio((x * y).sum(-1), (x * x).sum(-1), (y * y).sum(-1))


def _ratio(xy: Scores, xx: Scores, yy: Scores) -> Scores:
    size = np.sqrt(xx * yy)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Scores = np.where(size > 1e-12, xy / size, np.nan)
    return found
