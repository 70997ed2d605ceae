"""Prompt similarity: how much of the whole prompt's meaning a success keeps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from medstress.core.rows import TrialRow
from medstress.metrics.counts import cluster_of, is_flipped
from medstress.metrics.old_stats.estimates import Estimate, unknown
from medstress.metrics.old_stats.resampling import ratio


def prompt_similarity(trials: Sequence[TrialRow]) -> Estimate:
    """Estimate PSS, the mean cosine of sentence embeddings of prompts before and after.

    It uses first successes whose prompts were embedded (`[analysis] prompt_similarity`); whole
    items are drawn with replacement for the interval.

    References:
        Xian et al., "Assessing biomedical knowledge robustness in large language models by
        query-efficient sampling attacks", TMLR 2025, Fig. 2 (e)-(h).
    """
    totals: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for row in trials:
        if is_flipped(row) and row.prompt_similarity is not None:
            totals[cluster_of(row)] += row.prompt_similarity
            counts[cluster_of(row)] += 1
    if not counts:
        return unknown("not computed")
    items = sorted(counts)
    n_open = sum(map(is_flipped, trials)) - sum(counts.values())
    what = "mean cosine of prompts over successes" + (f", {n_open} not embedded" if n_open else "")
    return ratio([totals[item] for item in items], [counts[item] for item in items], what)
