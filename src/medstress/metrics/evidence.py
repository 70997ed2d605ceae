"""Tell reading from remembering by the answers after a passage supports another option."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from medstress.core.rows import TrialRow
from medstress.metrics.counts import is_eligible, unit_of
from medstress.metrics.old_stats.shares import rate


def evidence(trials: Sequence[TrialRow]) -> dict[str, Any] | None:
    """Estimate how often the victim follows evidence that was changed.

    Counted are eligible trials (right before the change) whose edited passage supports an option
    and that were answered; an unreadable answer is one.

    Returns:
        Three shares that add up to 1: `followed` answers the supported option, `kept` the key,
        `other` anything else. None if no passage supports an option after its change.
    """
    asked = [row for row in trials if is_eligible(row) and row.supported is not None]
    if not asked:
        return None

    def share(holds: Callable[[TrialRow], bool]) -> dict[str, Any]:
        return rate((unit_of(row), holds(row)) for row in asked).as_json()

    return {
        "followed": share(lambda row: row.answer_after == row.supported),
        "kept": share(lambda row: row.answer_after == row.key),
        "other": share(lambda row: row.answer_after not in (row.supported, row.key)),
    }
