"""The unit of work of the queue: what a trial, an inquiry and a study have in common."""

from __future__ import annotations

from collections.abc import Generator
from enum import StrEnum
from typing import Any, ClassVar, Protocol

from medstress.core.calls import Reply
from medstress.core.items import Item
from medstress.engine.requests import CallRound
from medstress.tasks.victim import Victim


class Result(Protocol):
    """How a unit of work ended."""

    @property
    def verdict(self) -> StrEnum:
        """The outcome in one word, as stored."""

    def as_record(self) -> dict[str, Any]:
        """Return everything else as JSON values."""


class Work(Protocol):
    """A trial, inquiry or study: journalled, answered, cached and replayed under its own id.

    Its place in the ledger is the arm (`dataset`, `group`, label of `victim`, `attack_label`,
    `seed`), then `item` and `repeat`.
    """

    has_deadline: ClassVar[bool]
    """Whether `trial_seconds` ends it."""

    @property
    def id(self) -> str:
        """Content hash of its definition; independent of order."""

    @property
    def dataset(self) -> str:
        """Label of the data set."""

    @property
    def group(self) -> str:
        """Label of the entity group."""

    @property
    def victim(self) -> Victim:
        """The model under attack; it answers all calls that name no other role."""

    @property
    def attack_label(self) -> str:
        """Label of the attack."""

    @property
    def attack_spec(self) -> dict[str, Any]:
        """The attack's parameters, as stored with the arm."""

    @property
    def seed(self) -> int | None:
        """None for deterministic attacks."""

    @property
    def item(self) -> Item:
        """The item."""

    @property
    def repeat(self) -> int:
        """Index of the repeat, if an attack runs several times per item."""

    @property
    def place(self) -> int:
        """Number of a trial in the whole plan; 0 for what is asked later, which is in no shard."""

    def start(self) -> Generator[CallRound, tuple[Reply, ...], Result]:
        """Start it: yields rounds of calls, expects one reply per request, returns the result."""
