"""Means over items, each item with the mean of its trials, and paired changes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from statistics import fmean
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from medstress.core.rows import TrialRow
from medstress.metrics.counts import is_eligible
from medstress.metrics.old_stats.estimates import WILSON, Estimate, unknown, wilson_ends
from medstress.metrics.old_stats.resampling import (
    RESAMPLES,
    ROUNDING,
    bootstrapped,
    n_units,
    percentiles,
    resample,
    resampled_mean,
)

Score: TypeAlias = Callable[[TrialRow], float]


def mean_over_items(trials: Iterable[TrialRow], score: Score) -> Estimate:
    """Estimate the mean of a score over eligible items, each with the mean of its trials."""
    return item_mean(_by_item(trials, score).values(), 0.0)


def paired_change(before: Iterable[TrialRow], after: Iterable[TrialRow], score: Score) -> Estimate:
    """Estimate the mean difference of a score, after - before, over items eligible in both."""
    old, new = _by_item(before, score), _by_item(after, score)
    return item_mean([new[item] - old[item] for item in old if item in new], -1.0)


def _by_item(trials: Iterable[TrialRow], score: Score) -> dict[str, float]:
    scores: dict[str, list[float]] = defaultdict(list)
    for trial in trials:
        if is_eligible(trial):
            scores[trial.item_id].append(score(trial))
    return {item: fmean(values) for item, values in scores.items()}


def item_mean(
    scores: Iterable[float], lowest: float, units: NDArray[np.int64] | None = None
) -> Estimate:
    """Estimate a mean over items by a bootstrap of items or documents; scores are at most 1.

    If all drawn units look alike, the bootstrap has no width. Then, with L the lower Wilson end for
    m of m, at least a share L of all units looks like these, and the others are unknown.

    Args:
        scores: one per item, m of them.
        lowest: the lowest possible score.
        units: the number of each item's document, shape (m,); None if each item is its own unit.
    """
    values = list(scores)
    m = len(values)
    if not m:
        return unknown("no item is eligible")
    value = fmean(values)
    if units is not None and (n := n_units(units)) < m:
        means = resampled_mean(np.array(values), units)
        method = f"bootstrap over {n} documents, {RESAMPLES} resamples, percentile 95 %"
        if np.ptp(means) > ROUNDING:
            return bootstrapped(value, means, m, method)
        return _alike(value, lowest, n, m, "documents")
    # Rounded, so that equal items stay equal if sums were taken in another order.
    kinds, drawn = resample(Counter(round(score, 12) for score in values))
    low, high = percentiles(drawn @ np.array(kinds) / m)
    method = f"bootstrap over {m} items, {RESAMPLES} resamples, percentile 95 %"
    if len(kinds) == 1:
        return _alike(value, lowest, m, m, "items")
    return Estimate(value=value, n=m, low=low, high=high, method=method)


def _alike(value: float, lowest: float, n: int, m: int, what: str) -> Estimate:
    """Return a mean over m items if all n drawn units look alike."""
    alike = wilson_ends(n, n)[0]
    low, high = alike * value + (1 - alike) * lowest, alike * value + (1 - alike)
    method = f"{WILSON} over {n} {what} that look alike (their bootstrap interval has no width)"
    return Estimate(value=value, n=m, low=low, high=high, method=method)
