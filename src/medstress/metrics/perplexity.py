"""How much less likely a model of language finds edited options than the author's own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from math import exp, log
from statistics import fmean
from typing import Any

import numpy as np

from medstress.core.rows import TrialRow
from medstress.metrics.counts import cluster_of
from medstress.stats.estimates import Estimate
from medstress.stats.resampling import RESAMPLES, bootstrapped, resampled_median


def perplexity_fields(trials: Sequence[TrialRow]) -> dict[str, Any]:
    """Return the field `perplexity_ratio` of a row; empty unless `medstress naturalness` was run.

    It is the median over items (documents where known), each with the geometric mean of its trials.
    Whole items are drawn with replacement for the interval. Medians and draws are of logarithms, so
    that twice as perplexing and half as perplexing are as far from 1.
    """
    logs: dict[str, list[float]] = defaultdict(list)
    for row in trials:
        if row.perplexity_ratio is not None:
            logs[cluster_of(row)].append(log(row.perplexity_ratio))
    if not logs:
        return {}
    return {"perplexity_ratio": _median([fmean(logs[item]) for item in sorted(logs)]).as_json()}


def _median(logs: Sequence[float]) -> Estimate:
    """Return the median of ratios, given by their logarithms, one per item."""
    values = np.array(logs)
    method = f"median; bootstrap over {len(logs)} items, {RESAMPLES} resamples, percentile 95 %"
    found = bootstrapped(float(np.median(values)), resampled_median(values), len(logs), method)
    low, high = (None if end is None else exp(end) for end in (found.low, found.high))
    return replace(found, value=float(np.exp(np.median(values))), low=low, high=high)
