"""A consumed call, as a ledger keeps it and as it is replayed."""

from __future__ import annotations

from dataclasses import dataclass

from medstress.core.calls import Answer, Failure, Reply


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
