"""The attempts of a trial, as an attack that counts them records them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from medstress.metrics.counts import pick_success
from medstress.rows import TrialRow

Try: TypeAlias = tuple[dict[str, Any], dict[str, Any] | None]
"""What the attacker did at one attempt, and what the victim answered where it was asked."""


def entries(row: TrialRow) -> list[dict[str, Any]]:
    """All that is recorded of a trial's attempts, in order; attempt 0 is the clean item."""
    found: list[dict[str, Any]] = json.loads(row.attempts) if row.attempts else []
    return found


def tries(row: TrialRow) -> Iterator[Try]:
    """The attempts of one trial, in order."""
    recorded = entries(row)
    answers = {entry["attempt"]: entry for entry in recorded if "query" in entry}
    for entry in recorded:
        if "query" not in entry:
            yield entry, answers.get(entry["attempt"])


def n_cut_confidences(rows: Iterable[TrialRow]) -> int:
    """Answers, the clean item's included, whose confidences were cut off at `max_new_tokens`."""
    return sum(bool(entry.get("cut_confidences")) for row in rows for entry in entries(row))


def pick_attempt(row: TrialRow) -> int | None:
    """The attempt of a trial's pick: of the success that it stands for; None without one.

    Where gates only mark, the first success may be a refuted one, after which the search went on.
    What is said of *the* success, such as its edits, its reasoning and its test, is of the pick.
    """
    pick = pick_success(row)
    if pick is None:
        return None
    found = (entry["attempt"] for entry in entries(row) if entry.get("query") == pick)
    return next(found, row.first_success_attempt if pick == row.first_success else None)


def attempts_used(row: TrialRow) -> int:
    """The attempts that a success took."""
    return pick_attempt(row) or 1
