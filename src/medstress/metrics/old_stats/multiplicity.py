"""Adjust the p-values of a family of tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import false_discovery_control


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values so that rejecting those below q errs at all with probability q at most.

    The i-th smallest of m becomes max over j <= i of (m - j + 1) p_(j), at most 1. The tests may
    depend on each other in any way.

    Args:
        p_values: the p-values of one family, each in [0, 1].

    Returns:
        As many adjusted p-values, in the same order.

    Raises:
        ValueError: a p-value lies outside [0, 1] or is no number.

    >>> [round(p, 6) for p in holm([0.04, 0.01, 0.03])]
    [0.06, 0.03, 0.06]

    References:
        Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
        Statistics 1979.
    """
    p = np.asarray(p_values, dtype=np.float64)
    if not np.all((p >= 0) & (p <= 1)):
        raise ValueError(f"expected p-values in [0, 1], got {list(p_values)}")
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    return [float(each) for each in np.minimum(adjusted, 1.0)]


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values so that rejecting those below q keeps the false discovery rate at q.

    The i-th smallest of m becomes min over j >= i of p_(j) m / j.

    Args:
        p_values: the p-values of one family, each in [0, 1].

    Returns:
        As many adjusted p-values, in the same order.

    Raises:
        ValueError: a p-value lies outside [0, 1] or is no number.

    >>> [round(p, 6) for p in benjamini_hochberg([0.04, 0.01, 0.03])]
    [0.04, 0.03, 0.04]

    References:
        Benjamini and Hochberg, "Controlling the false discovery rate", 1995.
    """
    if not p_values:
        return []
    return [float(p) for p in false_discovery_control(p_values, method="bh")]
