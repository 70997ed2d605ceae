"""Means over items, each with the mean of its trials, and paired changes of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from statistics import fmean
from typing import TypeAlias

import numpy as np

from medstress.metrics.bootstrap import RESAMPLES, percentiles, resample
from medstress.metrics.counts import is_eligible
from medstress.metrics.estimates import WILSON, Estimate, unknown, wilson_ends
from medstress.rows import TrialRow

Score: TypeAlias = Callable[[TrialRow], float]


def mean_over_items(trials: Iterable[TrialRow], score: Score) -> Estimate:
    """Mean of a score over eligible items, each with the mean of its trials."""
    return item_mean(_by_item(trials, score).values(), 0.0)


def paired_change(before: Iterable[TrialRow], after: Iterable[TrialRow], score: Score) -> Estimate:
    """Mean difference of a score, after - before, over the items eligible in both."""
    old, new = _by_item(before, score), _by_item(after, score)
    return item_mean([new[item] - old[item] for item in old if item in new], -1.0)


def _by_item(trials: Iterable[TrialRow], score: Score) -> dict[str, float]:
    scores: dict[str, list[float]] = defaultdict(list)
    for trial in trials:
        if is_eligible(trial):
            scores[trial.item_id].append(score(trial))
    return {item: fmean(values) for item, values in scores.items()}


def item_mean(scores: Iterable[float], lowest: float) -> Estimate:
    """Mean over items of scores from `lowest` to 1, drawing items for its interval.

    Where all items look alike the bootstrap has no width. With L the lower Wilson end for m of m,
    at least a share L of all items looks like these, and nothing is known of the others.
    """
    values = list(scores)
    m = len(values)
    if not m:
        return unknown("no item is eligible")
    value = fmean(values)
    # Rounded, so that sums in another order do not part items that look alike.
    kinds, drawn = resample(Counter(round(score, 12) for score in values))
    low, high = percentiles(drawn @ np.array(kinds) / m)
    method = f"bootstrap over {m} items, {RESAMPLES} resamples, percentile 95 %"
    if len(kinds) == 1:
        alike = wilson_ends(m, m)[0]
        low, high = alike * value + (1 - alike) * lowest, alike * value + (1 - alike)
        method = f"{WILSON} over {m} items that look alike (their bootstrap interval has no width)"
    return Estimate(value=value, n=m, low=low, high=high, method=method)
