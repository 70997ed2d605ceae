"""What a ledger is given and gives back: trials that begin, and calls as they were consumed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from medstress.core.calls import Answer, Failure, Reply
from medstress.core.items import Item

PlannedTrial: TypeAlias = tuple[str, int, str, Item, int, int]
"""A trial that is about to begin: (trial_id, row of its arm, dataset, item, repeat, place)."""
Exchange: TypeAlias = tuple[
    int, int, str, str, int | None, int, bytes, str | None, str | None, str | None, str | None
]
"""(trial, seq, role, purpose, query, call, key, edits, flags, request, error)"""


class BegunTrial(NamedTuple):
    """A trial that begins, or begins again."""

    row: int
    """Its row."""
    is_finished: bool
    """Whether it has a verdict."""
    journal: dict[int, tuple[bytes, str | None]]
    """Calls consumed before an interrupt: seq -> (key, error); empty for a finished trial."""


@dataclass(frozen=True, slots=True)
class StoredCall:
    """One call that a trial, inquiry or study consumed: a row of `exchanges`, with its answer."""

    role: str
    purpose: str
    query: int | None
    call: int
    key: bytes
    edits: str | None
    """Of the first call of a perturbed query, as JSON."""
    flags: str | None
    """Of the first call of a query: what it says of itself, as JSON."""
    request: str | None
    """`[call, sample]` as JSON, where item, edits and prompt do not determine it."""
    error: str | None
    answer: Answer | None
    """None if it was not answered."""

    @property
    def reply(self) -> Reply:
        """What the one who asked was sent."""
        if self.error is not None or self.answer is None:
            return Failure(error=self.error or "the answer is missing")
        return self.answer
