"""Pure functions from trial rows to the numbers of a run."""

from __future__ import annotations

from medstress.metrics.accuracies import accuracy, accuracy_after
from medstress.metrics.chance import above_chance, binomial_above, chance_level, chance_of
from medstress.metrics.diversity import gini_simpson, name_diversity, replacement_diversity
from medstress.metrics.old_stats.estimates import Estimate, wilson
from medstress.metrics.old_stats.multiplicity import benjamini_hochberg
from medstress.metrics.old_stats.paired import Difference, paired_difference
from medstress.metrics.old_stats.shares import rate, share, slice_shares
from medstress.metrics.pairs import attack_tests, difference_of, pair_trials
from medstress.metrics.success import (
    asr,
    asr_at,
    asr_by_variant,
    asr_decided,
    queries_to_success,
)
from medstress.metrics.summary import LEDGER_FIELDS, Ledger, RowKey, summarise
from medstress.metrics.valid_bounds import asr_unrefuted, asr_valid_bounds, asr_valid_bounds_at
from medstress.metrics.vouched import Vouched, asr_valid

__all__ = [
    "LEDGER_FIELDS",
    "Difference",
    "Estimate",
    "Ledger",
    "RowKey",
    "Vouched",
    "above_chance",
    "accuracy",
    "accuracy_after",
    "asr",
    "asr_at",
    "asr_by_variant",
    "asr_decided",
    "asr_unrefuted",
    "asr_valid",
    "asr_valid_bounds",
    "asr_valid_bounds_at",
    "attack_tests",
    "benjamini_hochberg",
    "binomial_above",
    "chance_level",
    "chance_of",
    "difference_of",
    "gini_simpson",
    "name_diversity",
    "pair_trials",
    "paired_difference",
    "queries_to_success",
    "rate",
    "replacement_diversity",
    "share",
    "slice_shares",
    "summarise",
    "wilson",
]
