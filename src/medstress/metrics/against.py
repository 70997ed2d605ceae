"""The difference between a row and the same row of a baseline run, trial by trial."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from medstress.core.rows import TrialRow
from medstress.metrics.counts import unit_of
from medstress.metrics.old_stats.estimates import Estimate
from medstress.metrics.old_stats.paired import unite
from medstress.metrics.worst_case import RULES, Within

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
    rule = RULES[metric]

    def within(what: Within) -> Hit:
        return lambda row: what(row, budget)

    hit, least, most = within(rule.hit), within(rule.least), within(rule.most)
    found = _estimate(pairs, rule.counts, hit, hit)
    low = _estimate(pairs, rule.may_count, least, most).low
    high = _estimate(pairs, rule.may_count, most, least).high
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
