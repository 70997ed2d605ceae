"""How a trial counts towards a rate if its unreadable and missing answers are at their worst."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from medstress.core.rows import TrialRow
from medstress.metrics.bounds import (
    certainly_lost,
    is_open_at_baseline,
    may_be_eligible,
    possibly_flipped,
    possibly_lost,
    surely_flipped,
)
from medstress.metrics.counts import (
    flipped_within,
    is_answered,
    is_eligible,
    is_failed_at_baseline,
)

Within: TypeAlias = Callable[[TrialRow, int], bool]
"""Whether a trial is a hit within so many queries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rate: which trials are counted and which are hits, as observed and at their worst."""

    counts: Callable[[TrialRow], bool]
    """Counts in the rate."""
    hit: Within
    """Is a hit."""
    may_count: Callable[[TrialRow], bool]
    """Counts, or might have with other answers."""
    least: Within
    """Is surely a hit."""
    most: Within
    """Is a hit, or might have been."""


def _may_be_answered(row: TrialRow) -> bool:
    return is_answered(row) or is_failed_at_baseline(row)


def _is_right(row: TrialRow, _: int) -> bool:
    return is_eligible(row)


def _may_be_right(row: TrialRow, _: int) -> bool:
    return may_be_eligible(row)


_FLIPS = Rule(
    counts=is_eligible,
    hit=flipped_within,
    may_count=may_be_eligible,
    least=certainly_lost,
    most=possibly_lost,
)
RULES: Mapping[str, Rule] = {
    "asr": _FLIPS,
    "control": _FLIPS,
    "accuracy": Rule(
        counts=is_answered,
        hit=_is_right,
        may_count=_may_be_answered,
        least=_is_right,
        most=_may_be_right,
    ),
    "accuracy_after": Rule(
        counts=is_answered,
        hit=lambda row, budget: is_eligible(row) and not flipped_within(row, budget),
        may_count=_may_be_answered,
        least=lambda row, budget: is_eligible(row) and not possibly_flipped(row, budget),
        most=lambda row, budget: (
            is_open_at_baseline(row) or (is_eligible(row) and not surely_flipped(row, budget))
        ),
    ),
}
"""The rates that a criterion can follow trial by trial."""
