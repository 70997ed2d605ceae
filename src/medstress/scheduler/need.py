"""What a trial waits for: calls of one role, and why they are made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from medstress.calls import Request
from medstress.frozen import quickly_made
from medstress.items import Edited

VICTIM = "victim"
"""The role of the model under attack."""


class Purpose(StrEnum):
    """Why a call was made."""

    BASELINE = "baseline"
    ATTACK = "attack"
    FLIP_CHECK = "flip_check"
    TRANSFER = "transfer"
    UNIVERSALITY = "universality"
    TEST = "test"
    JUDGE = "judge"
    SLOPE = "slope"


NOTHING: Iterator[Request] = iter(())
"""Nothing is likely to be needed next."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class CallRound:
    """Calls that must be answered before the trial can go on."""

    role: str
    """`victim`, or a role such as `attacker`."""
    purpose: Purpose
    """Why."""
    query: int | None
    """Number of the query; 0 is the baseline, None for other roles."""
    call: int
    """Index of the first request within the query."""
    requests: tuple[Request, ...]
    """Never empty."""
    candidate: Edited | None
    """What the query is about; None for other roles."""
    ahead: Iterator[Request] = NOTHING
    """Requests likely to be needed next; pulled only as far as they are computed early."""
    ahead_is_certain: bool = False
    """Whether those are needed whatever the answers are."""
    alone: bool = False
    """Answer in a batch of its own."""
    numbers: tuple[tuple[int, int], ...] = ()
    """(query, call) of every request, where they belong to several queries."""
    stores_requests: bool = False
    """Whether the requests do not follow from item, template and edits, and are stored in full."""
