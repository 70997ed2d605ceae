"""Pearson and Spearman correlation with gold scores, before and after, pairs drawn as a whole."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from medstress.metrics.bootstrap import bootstrapped
from medstress.metrics.estimates import Estimate, unknown

RESAMPLES = 2_000
PERMUTATIONS = 2_000
COEFFICIENTS = ("pearson", "spearman")
_SEED = 20_260_202

Scores = NDArray[np.float64]


def correlation(gold: Scores, scores: Scores, name: str) -> Estimate:
    """Estimate a correlation; over several seeds, the mean of each seed's.

    Args:
        gold: gold scores of m pairs, shape (m,).
        scores: the victim's, shape (n_seeds, m).
        name: `pearson` or `spearman`.

    Returns:
        The coefficient with a 95 % percentile bootstrap interval over pairs; unknown where there
        are fewer than three pairs, or where one side does not vary.
    """
    method = f"bootstrap over {len(gold)} pairs, {RESAMPLES} resamples, percentile 95 %"
    value = _mean(gold, scores, name)
    if value is None:
        return unknown(f"{method}: undefined, as one side does not vary", n=0)
    return bootstrapped(value, _resampled(gold, scores, name), len(gold), method)


def change(gold: Scores, before: Scores, after: Scores, name: str) -> Estimate:
    """Estimate by how much a correlation falls, with pairs resampled together.

    Args:
        gold: shape (m,).
        before: scores of the clean pairs, shape (n_seeds, m).
        after: scores of the perturbed pairs, same shape.
        name: `pearson` or `spearman`.
    """
    method = f"paired bootstrap over {len(gold)} pairs, {RESAMPLES} resamples, percentile 95 %"
    first, second = _mean(gold, before, name), _mean(gold, after, name)
    if first is None or second is None:
        return unknown(f"{method}: undefined, as one side does not vary", n=0)
    drawn = _resampled(gold, before, name) - _resampled(gold, after, name)
    return bootstrapped(first - second, drawn, len(gold), method)


def coefficient(gold: Scores, scores: Scores, name: str) -> tuple[float | None, Scores]:
    """A correlation, the mean over seeds (None: undefined), and that of every resample of pairs.

    The resamples depend on the number of pairs alone, so that arms over the same pairs are
    resampled together.
    """
    value = _mean(gold, scores, name)
    return value, np.zeros(0) if value is None else _resampled(gold, scores, name)


def permutation_p(gold: Scores, before: Scores, after: Scores, name: str) -> float | None:
    """Two-sided p-value of the change: before and after swapped at random within pairs.

    p = (1 + #{|change| at least as large}) / (1 + PERMUTATIONS); None where it is undefined.
    """
    first, second = _mean(gold, before, name), _mean(gold, after, name)
    if first is None or second is None:
        return None
    rng = np.random.default_rng(_SEED)
    swap = rng.integers(0, 2, size=(PERMUTATIONS, 1, len(gold))).astype(bool)
    one = np.where(swap, after[None], before[None])
    other = np.where(swap, before[None], after[None])
    g = np.broadcast_to(gold, one.shape)
    drawn = np.abs(_rows(g, one, name).mean(1) - _rows(g, other, name).mean(1))
    hard = np.nan_to_num(drawn, nan=np.inf) >= abs(first - second) - 1e-12
    return float((1 + int(hard.sum())) / (1 + PERMUTATIONS))


def _mean(gold: Scores, scores: Scores, name: str) -> float | None:
    if len(gold) < 3 or not scores.size:
        return None
    found = _rows(np.broadcast_to(gold, scores.shape), scores, name)
    return float(found.mean()) if np.isfinite(found).all() else None


def _resampled(gold: Scores, scores: Scores, name: str) -> Scores:
    """The coefficient of every resample, shape (RESAMPLES,)."""
    rng = np.random.default_rng(_SEED)
    drawn = rng.integers(0, len(gold), size=(RESAMPLES, len(gold)))
    found: Scores = np.mean([_rows(gold[drawn], one[drawn], name) for one in scores], axis=0)
    return found


def _rows(x: Scores, y: Scores, name: str) -> Scores:
    """The correlation of the last axis of two arrays; nan where one does not vary."""
    if name == "spearman":
        x, y = rankdata(x, axis=-1), rankdata(y, axis=-1)
    x = x - x.mean(-1, keepdims=True)
    y = y - y.mean(-1, keepdims=True)
    size = np.sqrt((x * x).sum(-1) * (y * y).sum(-1))
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Scores = np.where(size > 1e-12, (x * y).sum(-1) / size, np.nan)
    return found
