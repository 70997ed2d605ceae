"""Bootstrap intervals over whole clusters, with one seed and one number of draws for all.

The draws depend only on the number of clusters, or on how many look alike. So arms over the same
clusters are resampled together (paired), and a summary is a pure function of its rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from medstress.metrics.old_stats.estimates import Estimate, unknown

RESAMPLES = 2_000
"""Resamples behind every interval."""
ROUNDING = 1e-12
"""Resamples that differ by no more than this differ only by rounding."""

_SEED = 20_250_101
_BLOCK = 64
_AT_ONCE = 1_000_000
_ENDS = (0.025, 0.975)


def random_stream(number: int = 0) -> Generator:
    """Return the random numbers behind intervals, the same in every process.

    Args:
        number: 0 draws clusters; anything drawn together with clusters needs another number,
            because the same random numbers would make the two dependent.
    """
    return np.random.default_rng([_SEED, number] if number else _SEED)


@lru_cache(maxsize=4)
def item_weights(m: int) -> NDArray[np.uint8]:
    """Return how often each of m items (or clusters of them) is drawn in each resample of m.

    Returns:
        Shape (RESAMPLES, m), read-only; every row sums to m.

    >>> item_weights(3).shape, int(item_weights(3)[0].sum())
    ((2000, 3), 3)
    """
    rng = random_stream()
    # A byte is enough: counts are about Poisson with mean 1.
    weights = np.empty((RESAMPLES, m), dtype=np.uint8)
    for start in range(0, RESAMPLES, _BLOCK):
        n = min(_BLOCK, RESAMPLES - start)
        drawn = rng.integers(0, m, size=(n, m)) + m * np.arange(n)[:, None]
        weights[start : start + n] = np.bincount(drawn.ravel(), minlength=n * m).reshape(n, m)
    weights.setflags(write=False)
    return weights


def resampled_sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum over items, or clusters, in every resample.

    Args:
        values: one row per item, shape (m,) or (m, k).

    Returns:
        Shape (RESAMPLES,) or (RESAMPLES, k).
    """
    weights = item_weights(values.shape[0])
    # Weights become floats block by block, which saves memory if there are many items.
    step = max(_BLOCK, _AT_ONCE // len(weights[0])) if weights.size else RESAMPLES
    blocks = (weights[start : start + step] for start in range(0, RESAMPLES, step))
    return np.concatenate([block.astype(np.float64) @ values for block in blocks])


def resample(clusters: Mapping[Any, int]) -> tuple[list[Any], NDArray[np.int64]]:
    """Draw clusters with replacement, `RESAMPLES` times as many as there are.

    Clusters that look alike are exchangeable, so it suffices to draw how often each kind
    occurs: Multinomial(m, m_kind / m) for m clusters. Sorting the kinds makes the draw
    independent of the order of the trials.

    Args:
        clusters: how many clusters look like this, by their (sortable) looks.

    Returns:
        The kinds, sorted, and an array `(RESAMPLES, n_kinds)` of how often each was drawn.
    """
    kinds = sorted(clusters)
    multiplicity = np.array([clusters[kind] for kind in kinds], dtype=np.float64)
    m = int(multiplicity.sum())
    return kinds, random_stream().multinomial(m, multiplicity / m, size=RESAMPLES)


def percentiles(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the 2.5 % and the 97.5 % quantile of resampled values."""
    low, high = np.quantile(values, _ENDS)
    return float(low), float(high)


def bootstrapped(value: float, drawn: NDArray[np.float64], n: int, method: str) -> Estimate:
    """Return an estimate with the percentile interval of its resamples, or without an interval.

    If all resamples agree, the interval would have no width and say nothing about other items. Then
    `low` and `high` are None, and the method says why.

    Args:
        value: the estimate.
        drawn: the estimate in every resample, shape (n_resamples,); values that are not finite
            are left out.
        n: what it was counted over.
        method: how it was resampled, for people.

    >>> bootstrapped(0.0, np.zeros(9), 3, "bootstrap over 3 items").method
    'bootstrap over 3 items: no interval, as all resamples agree'
    """
    finite = drawn[np.isfinite(drawn)]
    low, high = percentiles(finite) if finite.size else (value, value)
    if high - low < ROUNDING:
        no_interval = f"{method}: no interval, as all resamples agree"
        return Estimate(value=value, n=n, low=None, high=None, method=no_interval)
    return Estimate(value=value, n=n, low=low, high=high, method=method)


def around(estimate: Estimate) -> Estimate:
    """Widen the interval, if there is one, so that it includes the value.

    The position of a maximum or of a bend may lie outside most of its resamples.
    """
    value, low, high = estimate.value, estimate.low, estimate.high
    if value is None or low is None or high is None:
        return estimate
    return replace(estimate, low=min(low, value), high=max(high, value))


def resampled_ratio(totals: ArrayLike, counts: ArrayLike) -> NDArray[np.float64]:
    """Resample a ratio of sums over items.

    Args:
        totals: each item's part of the numerator, shape (m,) or (m, k).
        counts: each item's part of the denominator, shape (m,).

    Returns:
        sum(totals) / sum(counts) of every resample, shape (RESAMPLES,) or (RESAMPLES, k); nan
        if the denominator is 0.
    """
    above, below = np.asarray(totals, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    n, sums = resampled_sums(below), resampled_sums(above)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: NDArray[np.float64] = sums / (n if above.ndim == 1 else n[:, None])
    return found


def n_units(units: NDArray[np.int64]) -> int:
    """Return the number of units."""
    return int(units.max()) + 1 if len(units) else 0


def in_words(units: NDArray[np.int64]) -> str:
    """Describe the units that are drawn.

    >>> in_words(np.array([0, 1, 2])), in_words(np.array([0, 0, 1]))
    ('3 items', '2 documents')
    """
    n = n_units(units)
    return f"{n} items" if n == len(units) else f"{n} documents"


def resampled_mean(values: NDArray[np.float64], units: NDArray[np.int64]) -> NDArray[np.float64]:
    """Resample a mean over items, whole documents drawn.

    Args:
        values: one per item, shape (m,) or (m, k).
        units: the number of each item's document, shape (m,).

    Returns:
        Shape (RESAMPLES,) or (RESAMPLES, k).
    """
    sums = np.zeros((n_units(units), *values.shape[1:]))
    np.add.at(sums, units, values)
    return resampled_ratio(sums, np.bincount(units))


def ratio(totals: ArrayLike, counts: ArrayLike, what: str) -> Estimate:
    """Estimate sum(totals) / sum(counts) over items, with a percentile bootstrap interval.

    Args:
        totals: each item's part of the numerator, shape (m,).
        counts: each item's part of the denominator, shape (m,).
        what: name of what was counted, for the method.

    Returns:
        The ratio; `n` is the sum of counts. It has no interval if all items look alike.
    """
    above, below = np.asarray(totals, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    n = int(below.sum())
    if n == 0:
        return unknown(f"no {what}")
    method = (
        f"{what}; bootstrap over {below.shape[0]} items, {RESAMPLES} resamples, percentile 95 %"
    )
    return bootstrapped(float(above.sum() / n), resampled_ratio(above, below), n, method)
