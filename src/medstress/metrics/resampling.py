"""Whole items drawn with replacement, the same draws for all that is compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from medstress.metrics.bootstrap import bootstrapped
from medstress.metrics.counts import cluster_of
from medstress.metrics.estimates import Estimate, unknown
from medstress.rows import TrialRow

RESAMPLES = 1_000
"""Resamples behind the intervals of the analyses."""

_SEED = 20_260_101
_BLOCK = 64


@lru_cache(maxsize=4)
def item_weights(m: int) -> NDArray[np.float64]:
    """How often each of m items is drawn in each resample of m.

    The draws depend on m alone, so that two curves over the same items are resampled together
    (paired) and a summary is a pure function of its rows.

    Returns:
        Shape (RESAMPLES, m), not to be written to; every row sums to m.

    >>> item_weights(3).shape, float(item_weights(3)[0].sum())
    ((1000, 3), 3.0)
    """
    rng = np.random.default_rng(_SEED)
    weights = np.empty((RESAMPLES, m))
    for start in range(0, RESAMPLES, _BLOCK):
        n = min(_BLOCK, RESAMPLES - start)
        drawn = rng.integers(0, m, size=(n, m)) + m * np.arange(n)[:, None]
        weights[start : start + n] = np.bincount(drawn.ravel(), minlength=n * m).reshape(n, m)
    weights.setflags(write=False)
    return weights


def resampled_ratio(totals: ArrayLike, counts: ArrayLike) -> NDArray[np.float64]:
    """Resample a ratio of sums over items.

    Args:
        totals: what each item adds above, shape (m,) or (m, k).
        counts: what each adds below, shape (m,).

    Returns:
        sum(totals) / sum(counts) of every resample, shape (RESAMPLES,) or (RESAMPLES, k); nan
        where nothing was counted.
    """
    above, below = np.asarray(totals, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    weights = item_weights(below.shape[0])
    n = weights @ below
    with np.errstate(divide="ignore", invalid="ignore"):
        found: NDArray[np.float64] = (weights @ above) / (n if above.ndim == 1 else n[:, None])
    return found


def units_of(items: Sequence[str], trials: Iterable[TrialRow]) -> NDArray[np.int64]:
    """The number of the document of each item where it is known, else of the item; shape (m,)."""
    known = {row.item_id: cluster_of(row) for row in trials}
    found: NDArray[np.int64] = np.unique([known[item] for item in items], return_inverse=True)[1]
    return found


def n_units(units: NDArray[np.int64]) -> int:
    """How many there are."""
    return int(units.max()) + 1 if len(units) else 0


def told(units: NDArray[np.int64]) -> str:
    """What is drawn, in words.

    >>> told(np.array([0, 1, 2])), told(np.array([0, 0, 1]))
    ('3 items', '2 documents')
    """
    n = n_units(units)
    return f"{n} items" if n == len(units) else f"{n} documents"


def resampled_mean(values: NDArray[np.float64], units: NDArray[np.int64]) -> NDArray[np.float64]:
    """Resample a mean over items, whole documents drawn.

    Args:
        values: one an item, shape (m,) or (m, k).
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
        totals: what each item adds above, shape (m,).
        counts: what each adds below, shape (m,).
        what: names what was counted, for the method.

    Returns:
        The ratio; `n` is the sum of counts. Where all items look alike it has no interval.
    """
    above, below = np.asarray(totals, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    n = int(below.sum())
    if n == 0:
        return unknown(f"no {what}")
    method = (
        f"{what}; bootstrap over {below.shape[0]} items, {RESAMPLES} resamples, percentile 95 %"
    )
    return bootstrapped(float(above.sum() / n), resampled_ratio(above, below), n, method)
