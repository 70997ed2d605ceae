"""The calls that one trial consumed, with their answers."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from medstress.core.calls import Answer
from medstress.store.codec import decode_answer


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumedCall:
    """One call."""

    role: str
    purpose: str
    query: int | None
    call: int
    edits: str | None
    """Of the first call of a perturbed query."""
    request: str | None
    """The call in full, as JSON, where item, edits and prompt do not determine it."""
    answer: Answer | None
    """None if it was not answered."""


def read(db: sqlite3.Connection, trial: int) -> list[ConsumedCall]:
    """Return the calls of a trial's latest attempt, in order."""
    rows = db.execute(
        "SELECT role, purpose, query, call, edits, request, error, body, tokens_in, tokens_out "
        "FROM calls WHERE trial = ? ORDER BY seq",
        (trial,),
    )
    return [
        ConsumedCall(
            role=role,
            purpose=purpose,
            query=query,
            call=call,
            edits=edits,
            request=request,
            answer=(
                decode_answer(body, tokens_in, tokens_out)
                if error is None and body is not None
                else None
            ),
        )
        for role, purpose, query, call, edits, request, error, body, tokens_in, tokens_out in rows
    ]
