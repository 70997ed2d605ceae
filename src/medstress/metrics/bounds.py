"""Worst-case bounds of rates that unreadable and failed answers leave open.

A rate counts an unreadable or failed answer as no success and not right. If a criterion is judged
by a rate, such answers count at their worst instead: the lower end is that of the rate with none of
them a hit, the upper end that with all of them hits.

References:
    Manski, "Nonparametric bounds on treatment effects", American Economic Review 1990.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.counts import (
    flipped_within,
    is_answered,
    is_eligible,
    is_failed_at_baseline,
    is_flipped,
    unit_of,
)
from medstress.metrics.old_stats.shares import Unit, rate

Bounds: TypeAlias = list[float | None]
"""[low, high]: the ends of the 95 % intervals at their worst; None without any trial."""


def surely_flipped(row: TrialRow, budget: int) -> bool:
    """Return True if the trial succeeded by a readable answer."""
    return flipped_within(row, budget) and not _is_by_unreadable(row)


def possibly_flipped(row: TrialRow, budget: int) -> bool:
    """Return True if the trial succeeded, or may have: an answer is unreadable or missing."""
    return flipped_within(row, budget) or lacks_answers(row)


def _is_by_unreadable(row: TrialRow) -> bool:
    return row.n_options > 0 and row.n_unreadable > 0 and row.first_success_answer is None


def lacks_answers(row: TrialRow) -> bool:
    """Return True if an answer under attack is unreadable or missing."""
    lost = row.verdict in (Verdict.FAILED, Verdict.CUT_SHORT)
    return lost or row.n_unreadable > 0 or row.n_failed > 0


def settled(trials: Iterable[TrialRow], *, hits: bool) -> list[TrialRow]:
    """Return the trials with every unreadable or missing answer settled one way.

    Args:
        trials: trials; those that are not eligible stay as they are.
        hits: True if every such answer is a success, of the first query already; False if none is.
    """

    def settle(row: TrialRow) -> TrialRow:
        if not is_eligible(row):
            return row
        if hits and lacks_answers(row):
            return replace(row, verdict=Verdict.FLIPPED, first_success=1)
        if not hits and is_flipped(row) and _is_by_unreadable(row):
            return replace(row, verdict=Verdict.HELD, first_success=None)
        return row

    return [settle(row) for row in trials]


def is_open(row: TrialRow, budget: int) -> bool:
    """Return True if unreadable or missing answers leave open whether the attack succeeded."""
    return surely_flipped(row, budget) != possibly_flipped(row, budget)


def asr_bounds(trials: Sequence[TrialRow], budget: int) -> Bounds:
    """Return the worst-case ends of ASR within `budget` queries.

    An item whose clean answer was unreadable or failed may be eligible, so it counts as eligible:
    as held for the lower end, as flipped for the upper end.
    """
    met = [row for row in trials if may_be_eligible(row)]
    return _bounds(
        ((unit_of(row), certainly_lost(row, budget)) for row in met),
        ((unit_of(row), possibly_lost(row, budget)) for row in met),
    )


def may_be_eligible(row: TrialRow) -> bool:
    """Return True if the clean answer was right, or unreadable or missing and so perhaps right."""
    return is_eligible(row) or is_open_at_baseline(row)


def certainly_lost(row: TrialRow, budget: int) -> bool:
    """Return True if a right answer was flipped by a readable one within the budget."""
    return is_eligible(row) and surely_flipped(row, budget)


def possibly_lost(row: TrialRow, budget: int) -> bool:
    """Return True unless all answers were readable and none flipped; of `may_be_eligible` rows."""
    return not is_eligible(row) or possibly_flipped(row, budget)


def accuracy_bounds(trials: Sequence[TrialRow]) -> Bounds:
    """Return the worst-case ends of accuracy: unreadable and failed answers wrong, or right."""
    met = [row for row in trials if is_answered(row) or is_failed_at_baseline(row)]
    return _bounds(
        ((unit_of(row), is_eligible(row)) for row in met),
        ((unit_of(row), is_eligible(row) or is_open_at_baseline(row)) for row in met),
    )


def accuracy_after_bounds(trials: Sequence[TrialRow], budget: int) -> Bounds:
    """Return the worst-case ends of accuracy after the attack."""
    met = [row for row in trials if is_answered(row) or is_failed_at_baseline(row)]
    return _bounds(
        ((unit_of(row), is_eligible(row) and not possibly_flipped(row, budget)) for row in met),
        (
            (
                unit_of(row),
                is_open_at_baseline(row) or (is_eligible(row) and not surely_flipped(row, budget)),
            )
            for row in met
        ),
    )


def is_open_at_baseline(row: TrialRow) -> bool:
    """Return True if the clean answer was unreadable or missing, so that it may have been right."""
    return row.verdict == Verdict.UNREADABLE or is_failed_at_baseline(row)


def _bounds(least: Iterable[tuple[Unit, bool]], most: Iterable[tuple[Unit, bool]]) -> Bounds:
    return [rate(least).low, rate(most).high]
