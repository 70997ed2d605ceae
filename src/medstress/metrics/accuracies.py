"""Accuracy on the clean items, before and after an attack."""

from __future__ import annotations

from collections.abc import Sequence

from medstress.core.rows import TrialRow
from medstress.metrics.counts import is_answered, is_eligible, is_flipped, unit_of
from medstress.metrics.old_stats.estimates import Estimate
from medstress.metrics.old_stats.shares import rate


def accuracy(trials: Sequence[TrialRow]) -> Estimate:
    """Estimate acc_0 = right / answered on the clean items.

    = n_eligible / (n_eligible + n_already_wrong + n_unreadable_at_baseline). Items that cannot
    be attacked are not asked, so they do not count.

    References:
        Xian et al., "Assessing biomedical knowledge robustness in large language models by
        query-efficient sampling attacks", TMLR 2025, Table 1.
    """
    return rate((unit_of(row), is_eligible(row)) for row in trials if is_answered(row))


def accuracy_after(trials: Sequence[TrialRow]) -> Estimate:
    """Estimate acc_after = acc_0 (1 - ASR) = (n_eligible - n_flipped) / answered.

    References:
        Xian et al., 2025, Table 1: ASR = (acc_0 - acc_after) / acc_0.
    """
    return rate(
        (unit_of(row), is_eligible(row) and not is_flipped(row))
        for row in trials
        if is_answered(row)
    )
