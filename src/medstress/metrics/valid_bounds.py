"""What is known of valid successes without asking more: bounds, and counts of what is unknown.

A success is valid if the key still holds after the edit. Rules refute and never vouch, so what
they let pass is of unknown validity (`medstress.core.validity`). An unknown rate is never reported
as 0. A panel errs, so its word narrows no bound either way: what it says, for or against, leaves a
success unknown here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from medstress.core.rows import TrialRow
from medstress.core.validity import PANEL
from medstress.metrics.arms import EVERY_BUDGET
from medstress.metrics.counts import (
    is_eligible,
    is_flipped,
    is_unrefuted_success,
    pick_success,
    unit_of,
)
from medstress.metrics.old_stats.estimates import Estimate
from medstress.metrics.old_stats.shares import rate

Bounds: TypeAlias = list[float]
"""The rate if [no unknown success is valid, all are, and censored searches would succeed too]."""

Reach: TypeAlias = tuple[int | None, int | None, int | None]
"""The query from which a trial counts in each of the three bounds; None if it never does."""


def asr_unrefuted(trials: Sequence[TrialRow]) -> Estimate:
    """Estimate the share of eligible trials with a success that nothing refutes.

    Every success of unknown validity counts: it is the middle of `asr_valid_bounds`, unless a panel
    refuted some.
    """
    return rate((unit_of(row), is_unrefuted_success(row)) for row in trials if is_eligible(row))


def n_validity_unknown(trials: Sequence[TrialRow]) -> int:
    """Count successes of unknown validity: neither people nor a rule settle it."""
    return sum(is_flipped(row) and settled_validity(row) is None for row in trials)


def settled_validity(trial: TrialRow) -> bool | None:
    """Return what people or rules say of a success; None: unknown, or only a panel's word."""
    return None if trial.validity_reason == PANEL else trial.valid


def n_censored(trials: Sequence[TrialRow]) -> int:
    """Count successes found invalid at which the search ended, so it could not find another."""
    return sum(is_flipped(row) and row.censored is True for row in trials)


def asr_valid_bounds(trials: Sequence[TrialRow]) -> Bounds | None:
    """Bound the share of eligible trials with a valid success, from all that is known of each.

    Returns:
        Three shares, never falling; None if no trial is eligible.
    """
    found = [reach(row) for row in trials if is_eligible(row)]
    return shares(found, max((q for each in found for q in each if q), default=0))


def asr_valid_bounds_at(trials: Sequence[TrialRow], budget: int) -> list[dict[str, Any]]:
    """Read the bounds at every smaller budget off one run, as `asr_at` does for all successes.

    Only the pick is labelled, so valid success within B has bounds and no estimate. A censored
    search could have found a valid success only after its pick.
    """
    found = [reach(row) for row in trials if is_eligible(row)]
    steps = {q for each in found for q in each if q is not None and q <= budget}
    shown = range(1, budget + 1) if budget <= EVERY_BUDGET else sorted({1, budget, *steps})
    return [{"budget": b, "bounds": shares(found, b)} for b in shown]


def reach(trial: TrialRow) -> Reach:
    """Return the query from which a trial counts in each bound (see `Bounds`)."""
    pick = pick_success(trial)
    if pick is None:
        return None, None, None
    valid = settled_validity(trial)
    if valid is False:
        return None, None, pick + 1 if trial.censored else None
    return trial.first_valid_success if valid else None, pick, pick


def shares(found: Sequence[Reach], within: int) -> Bounds | None:
    """Return the share of trials that count in each bound up to a query; None without trials."""
    if not found:
        return None
    counts = [sum(q is not None and q <= within for q in each) for each in zip(*found, strict=True)]
    return [count / len(found) for count in counts]
