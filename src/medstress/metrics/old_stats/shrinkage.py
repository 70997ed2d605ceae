"""Shares of several groups, each pulled towards the mean of all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SHRINKAGE = (
    "empirical Bayes: each share and the mean of all, weighted by the variance between slices "
    "(DerSimonian and Laird) and within them"
)
"""The method of `shrunken`, for people."""


def shrunken(hits: Sequence[float], counts: Sequence[float]) -> list[float | None]:
    """Return the shares hits / counts of m groups, pulled towards their mean.

    With p the mean over all answers and v_j = p (1 - p) / n_j, the share of group j becomes
    p + (p_j - p) t / (t + v_j). The variance t between groups is DerSimonian and Laird's moment
    estimate, at least 0. The fewer answers a group has, the more it is pulled, so that the highest
    of many small groups is no longer high by chance alone.

    Args:
        hits: hits of each group; fractional if answers depend on each other.
        counts: answers of each group, likewise; a group without any has no share.

    Returns:
        The shares in [0, 1]; None for groups without answers.

    >>> [round(share, 3) for share in shrunken([9, 40, 10], [10, 100, 100])]
    [0.763, 0.397, 0.105]
    >>> shrunken([2, 2], [4, 0])
    [0.5, None]

    References:
        Morris, "Parametric empirical Bayes inference", JASA 1983. DerSimonian and Laird,
        "Meta-analysis in clinical trials", Controlled Clinical Trials 1986.
    """
    k, n = np.asarray(hits, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    known = n > 0
    if not known.any():
        return [None] * len(n)
    k, n = k[known], n[known]
    p = float(k.sum() / n.sum())
    within = p * (1 - p) / n
    found = k / n
    if len(n) > 1 and 0 < p < 1:
        weights = 1 / within
        excess = float((weights * (found - p) ** 2).sum()) - (len(n) - 1)
        between = max(0.0, excess / float(weights.sum() - (weights**2).sum() / weights.sum()))
        found = p + (found - p) * between / (between + within)
    shares = iter(found.tolist())
    return [next(shares) if has else None for has in known]
