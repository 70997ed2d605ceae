"""One unit of work: what the queue needs of a trial, an inquiry and a study."""

from __future__ import annotations

from collections.abc import Generator
from enum import StrEnum
from typing import Any, ClassVar, Protocol

from medstress.calls import Reply
from medstress.items import Item
from medstress.scheduler.need import CallRound
from medstress.victim import Victim


class Result(Protocol):
    """How a unit of work ended."""

    @property
    def verdict(self) -> StrEnum:
        """In one word, as stored."""

    def as_record(self) -> dict[str, Any]:
        """All else, as JSON values."""


class Work(Protocol):
    """What is journalled, answered, cached and replayed under an id of its own.

    Its place in the ledger is the arm (`dataset`, `group`, label of `victim`, `attack_label`,
    `seed`), then `item` and `repeat`.
    """

    has_deadline: ClassVar[bool]
    """Whether `trial_seconds` ends it."""

    @property
    def id(self) -> str:
        """Content hash of what it is; no order."""

    @property
    def dataset(self) -> str:
        """Label of the data set."""

    @property
    def group(self) -> str:
        """Label of the entity group."""

    @property
    def victim(self) -> Victim:
        """Who answers what is asked of no role."""

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
        """What it is about."""

    @property
    def repeat(self) -> int:
        """Index where an attack runs several times per item."""

    def start(self) -> Generator[CallRound, tuple[Reply, ...], Result]:
        """Begin: yields needs, is sent one reply a request, in order, and returns the result."""
