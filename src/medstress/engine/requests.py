"""A round of calls that a trial waits for, and why they are made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from medstress.core.calls import Request
from medstress.core.frozen import fast_init
from medstress.core.items import Edited

VICTIM = "victim"
"""The role of the model under attack."""


class Purpose(StrEnum):
    """Why a call was made."""

    BASELINE = "baseline"
    ATTACK = "attack"
    FLIP_CHECK = "flip_check"
    TRANSFER = "transfer"
    REUSE = "reuse"
    TEST = "test"
    JUDGE = "judge"
    EXPLAIN = "explain"


NOTHING: Iterator[Request] = iter(())
"""No requests ahead."""


@fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class CallRound:
    """Calls to one role that must all be answered before the trial can go on."""

    role: str
    """`victim`, or a role such as `attacker`."""
    purpose: Purpose
    """Why they are made."""
    query: int | None
    """Number of the query; 0 is the baseline, None for other roles."""
    call: int
    """Index of the first request within the query."""
    requests: tuple[Request, ...]
    """Never empty."""
    candidate: Edited | None
    """The candidate that the query is about; None for other roles."""
    flags: str | None = None
    """What the query says of itself, as JSON (`flags_of`); None if all is the default."""
    ahead: Iterator[Request] = NOTHING
    """Requests likely to be needed next; consumed only as far as they are computed early."""
    ahead_is_certain: bool = False
    """True if those will be needed whatever the answers are."""
    alone: bool = False
    """Answer in a batch of its own."""
    numbers: tuple[tuple[int, int], ...] = ()
    """(query, call) of every request, if they belong to several queries."""
    stores_requests: bool = False
    """True if the requests are stored in full: item, template and edits do not determine them."""
