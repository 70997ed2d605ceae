"""The difference between a row and the same row of a baseline run, trial by trial."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from medstress.core.rows import TrialRow
from medstress.metrics.bounds import is_open_at_baseline, possibly_flipped, surely_flipped
from medstress.metrics.counts import (
    flipped_within,
    is_answered,
    is_eligible,
    is_failed_at_baseline,
    unit_of,
)
from medstress.stats.estimates import Estimate
from medstress.stats.paired import unite

Key: TypeAlias = tuple[str, str, str, int | None, int]
"""Item, its content hash, unit, seed and repeat: what both runs attack alike."""
Hit: TypeAlias = Callable[[TrialRow], bool]
Ends: TypeAlias = tuple[float | None, float | None]


def key_of(row: TrialRow) -> Key:
    """Return what identifies a trial in two runs of one attack."""
    return row.item_id, row.item_hash, row.unit, row.seed, row.repeat


def paired(ours: Iterable[TrialRow], theirs: Iterable[TrialRow]) -> list[tuple[TrialRow, TrialRow]]:
    """Pair the trials of two runs on the same item, seed and repeat."""
    known: Mapping[Key, TrialRow] = {key_of(row): row for row in theirs}
    return [(row, known[key_of(row)]) for row in ours if key_of(row) in known]


def difference(
    metric: str, pairs: Sequence[tuple[TrialRow, TrialRow]], budget: int
) -> tuple[Estimate, Ends]:
    """Estimate how much larger a metric is in the first run, with its ends at their worst.

    ASR is compared on trials that are eligible in both, accuracy (before and after) on all that
    both answered. For the ends, unreadable and missing answers count for the first run and
    against the second (upper end), and the reverse (lower end).

    Args:
        metric: `asr`, `accuracy` or `accuracy_after`.
        pairs: trials of the first run and of the second.
        budget: perturbed queries per item, for ASR and accuracy after.
    """
    counts, may_count, hit, sure, possible = _rules(metric, budget)
    found = _estimate(pairs, counts, hit, hit)
    low = _estimate(pairs, may_count, sure, possible).low
    high = _estimate(pairs, may_count, possible, sure).high
    return found, (low, high)


def _estimate(
    pairs: Sequence[tuple[TrialRow, TrialRow]], counts: Hit, first: Hit, second: Hit
) -> Estimate:
    return unite(
        [
            (unit_of(one), first(one), second(other))
            for one, other in pairs
            if counts(one) and counts(other)
        ]
    ).estimate


def _rules(metric: str, budget: int) -> tuple[Hit, Hit, Hit, Hit, Hit]:
    """Return what counts, what may count, and what is, surely is and possibly is a hit."""

    def may_be_right(row: TrialRow) -> bool:
        return is_eligible(row) or is_open_at_baseline(row)

    def may_be_answered(row: TrialRow) -> bool:
        return is_answered(row) or is_failed_at_baseline(row)

    def withstood(row: TrialRow, flips: Callable[[TrialRow, int], bool]) -> bool:
        return is_eligible(row) and not flips(row, budget)

    if metric == "asr":
        return (
            is_eligible,
            may_be_right,
            lambda row: flipped_within(row, budget),
            lambda row: is_eligible(row) and surely_flipped(row, budget),
            lambda row: not is_eligible(row) or possibly_flipped(row, budget),
        )
    if metric == "accuracy":
        return is_answered, may_be_answered, is_eligible, is_eligible, may_be_right
    return (
        is_answered,
        may_be_answered,
        lambda row: withstood(row, flipped_within),
        lambda row: withstood(row, possibly_flipped),
        lambda row: is_open_at_baseline(row) or withstood(row, surely_flipped),
    )
