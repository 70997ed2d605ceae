"""Whole items drawn with replacement, the same draws for all that is compared."""

from __future__ import annotations

from functools import lru_cache
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from medstress.metrics.bootstrap import percentiles
from medstress.metrics.estimates import Estimate, unknown

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


def ratio(totals: ArrayLike, counts: ArrayLike, what: str) -> Estimate:
    """Estimate sum(totals) / sum(counts) over items, with a percentile bootstrap interval.

    Args:
        totals: what each item adds above, shape (m,).
        counts: what each adds below, shape (m,).
        what: names what was counted, for the method.

    Returns:
        The ratio; `n` is the sum of counts. Where all items look alike the interval has no
        width; the method says over how many items.
    """
    above, below = np.asarray(totals, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    n = int(below.sum())
    if n == 0:
        return unknown(f"no {what}")
    drawn = resampled_ratio(above, below)
    low, high = percentiles(drawn[np.isfinite(drawn)])
    method = (
        f"{what}; bootstrap over {below.shape[0]} items, {RESAMPLES} resamples, percentile 95 %"
    )
    return Estimate(value=float(above.sum() / n), n=n, low=low, high=high, method=method)


def clustered_wilson(hits: ArrayLike, counts: ArrayLike) -> Estimate:
    """Estimate a share by Wilson's interval at the effective sample size.

    Trials of one item are not independent. With k of n hits, p = k/n, and k_i of n_i in item
    i of m, the variance of p is v = m/(m-1) sum_i (k_i - p n_i)^2 / n^2, the design effect
    v n / (p (1 - p)), at least 1, and the interval is Wilson's for n over it. It is 1 where no
    item has two trials, n / m where p is 0 or 1. A closed form, so that a table of hundreds of
    cells stays cheap.

    Args:
        hits: k_i, shape (m,).
        counts: n_i, shape (m,).

    >>> found = clustered_wilson([1, 0, 1, 0], [1, 1, 1, 1])
    >>> found.value, round(found.low, 4), round(found.high, 4)
    (0.5, 0.15, 0.85)

    References:
        Dean and Pagano, "Evaluating confidence interval methods for binomial proportions in
        clustered surveys", Journal of Survey Statistics and Methodology 2015.
    """
    k, c = np.asarray(hits, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    n, m = float(c.sum()), int((c > 0).sum())
    if n == 0:
        return unknown("Wilson 95 %")
    p = float(k.sum() / n)
    if c.max() <= 1:
        effect = 1.0
    elif 0 < p < 1 and m > 1:
        variance = m / (m - 1) * float(((k - p * c) ** 2).sum()) / n**2
        effect = max(variance * n / (p * (1 - p)), 1.0)
    else:
        effect = n / m
    effective = n / effect
    z = float(norm.ppf(0.975))
    centre = p + z * z / (2 * effective)
    half = z * sqrt(p * (1 - p) / effective + z * z / (4 * effective**2))
    scale = 1 + z * z / effective
    low, high = max((centre - half) / scale, 0.0), min((centre + half) / scale, 1.0)
    return Estimate(
        value=p,
        n=int(n),
        low=min(low, p),
        high=max(high, p),
        method=f"Wilson 95 % at the effective sample size, {m} items",
    )
