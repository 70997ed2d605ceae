"""Intervals that know that trials of one item are not independent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medstress.metrics.estimates import Estimate

RESAMPLES = 2_000
"""Bootstrap resamples behind every interval."""

_SEED = 20_250_101
"""The resamples are the same in every process, so a summary is a pure function of its rows."""

ROUNDING = 1e-12
"""Resamples no farther apart differ by rounding alone."""

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


def bootstrapped(value: float, drawn: NDArray[np.float64], n: int, method: str) -> Estimate:
    """An estimate with the percentile interval of its resamples, or with none.

    Where the resamples agree the interval would have no width: nothing is known then of what was
    not drawn, so `low` and `high` are None and the method says why.

    Args:
        value: the estimate.
        drawn: that of every resample, shape (n_resamples,); those that are not finite are left
            out.
        n: what it was counted over.
        method: how it was resampled, for people.

    >>> bootstrapped(0.0, np.zeros(9), 3, "bootstrap over 3 items").method
    'bootstrap over 3 items: no interval, as all resamples agree'
    """
    finite = drawn[np.isfinite(drawn)]
    low, high = percentiles(finite) if finite.size else (value, value)
    if high - low < ROUNDING:
        told = f"{method}: no interval, as all resamples agree"
        return Estimate(value=value, n=n, low=None, high=None, method=told)
    return Estimate(value=value, n=n, low=low, high=high, method=method)


def around(estimate: Estimate) -> Estimate:
    """The same with an interval that holds its value, where it has one.

    The place of a maximum or of a bend may lie beside most of its resamples.
    """
    value, low, high = estimate.value, estimate.low, estimate.high
    if value is None or low is None or high is None:
        return estimate
    return replace(estimate, low=min(low, value), high=max(high, value))
