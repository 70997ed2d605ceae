"""Intervals that know that trials of one item are not independent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medstress.metrics.estimates import WILSON, Estimate, wilson, wilson_ends

RESAMPLES = 2_000
"""Bootstrap resamples behind every interval."""

_SEED = 20_250_101
"""The resamples are the same in every process, so a summary is a pure function of its rows."""

_ENDS = (0.025, 0.975)


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
    rng = np.random.default_rng(_SEED)
    return kinds, rng.multinomial(m, multiplicity / m, size=RESAMPLES)


def percentiles(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the 2.5 % and the 97.5 % quantile of resampled values."""
    low, high = np.quantile(values, _ENDS)
    return float(low), float(high)


def rate(observations: Iterable[tuple[str, bool]]) -> Estimate:
    """Estimate a share from hits and misses of items that may occur several times.

    The share is sum(hits) / sum(observations). Where every item occurs once its interval is
    Wilson's. Otherwise whole items are drawn with replacement and the interval holds the
    2.5 % to 97.5 % quantiles of the shares of the resamples (cluster bootstrap). Where that
    interval has no width (a share of 0 or 1, a single item) it is Wilson's for as many
    trials as there are distinct items; a fractional number of hits is widened to the
    integers around it.

    Args:
        observations: pairs of item identifier and whether it was a hit.

    Returns:
        The share in [0, 1] with a 95 % interval; `n` counts observations.

    >>> rate([("q1", True), ("q2", False)]).method
    'Wilson 95 % (each item occurs once)'
    >>> rate([("q1", True), ("q1", True), ("q2", True)]).method
    'Wilson 95 % over 2 items (their bootstrap interval has no width)'

    References:
        Davison and Hinkley, "Bootstrap Methods and their Application", 1997, section 3.8.
        Wilson, 1927 (see `wilson`).
    """
    seen = list(observations)
    counted = Counter(item for item, _ in seen)
    hits = Counter(item for item, hit in seen if hit)
    k, n, m = hits.total(), counted.total(), len(counted)
    if n == m:
        return replace(wilson(k, n), method=f"{WILSON} (each item occurs once)")
    kinds, drawn = resample(Counter((hits[item], counted[item]) for item in counted))
    totals = drawn @ np.array(kinds)
    low, high = percentiles(totals[:, 0] / totals[:, 1])
    method = f"cluster bootstrap over {m} items, {RESAMPLES} resamples, percentile 95 %"
    if low == high:
        low, _ = wilson_ends(k * m // n, m)
        _, high = wilson_ends(-(-k * m // n), m)
        method = f"{WILSON} over {m} items (their bootstrap interval has no width)"
    return Estimate(value=k / n, n=n, low=low, high=high, method=method)
