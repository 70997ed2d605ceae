"""The recorded attempts of a trial."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from medstress.core.rows import TrialRow
from medstress.metrics.counts import pick_success

Try: TypeAlias = tuple[dict[str, Any], dict[str, Any] | None]
"""What the attacker did at one attempt, and the victim's answer; None if it was not asked."""


def entries(row: TrialRow) -> list[dict[str, Any]]:
    """Return all records of a trial's attempts, in order; attempt 0 is the clean item."""
    recorded: list[dict[str, Any]] = json.loads(row.attempts) if row.attempts else []
    return recorded


def tries(row: TrialRow) -> Iterator[Try]:
    """Yield the attempts of one trial, in order."""
    recorded = entries(row)
    answers = {entry["attempt"]: entry for entry in recorded if "query" in entry}
    for entry in recorded:
        if "query" not in entry:
            yield entry, answers.get(entry["attempt"])


def n_cut_confidences(rows: Iterable[TrialRow]) -> int:
    """Count answers, clean ones included, whose confidences were cut off at `max_new_tokens`."""
    return sum(bool(entry.get("cut_confidences")) for row in rows for entry in entries(row))


def pick_attempt(row: TrialRow) -> int | None:
    """Return the attempt of a trial's pick, the success that represents it; None without one.

    If gates only mark, the first success may be refuted and the search goes on. *The* success of a
    trial, with its edits, its reasoning and its test, is always the pick.
    """
    pick = pick_success(row)
    if pick is None:
        return None
    found = (entry["attempt"] for entry in entries(row) if entry.get("query") == pick)
    return next(found, row.first_success_attempt if pick == row.first_success else None)
