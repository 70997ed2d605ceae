"""No attack: the clean answers alone, for runs that are about these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from medstress.attacks.protocol import Attack, AttackTraits
from medstress.core.items import Candidate, Question
from medstress.core.queries import Steps
from medstress.core.resources import Resources

if TYPE_CHECKING:
    from numpy.random import Generator

NAME = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unasked(Attack):
    """Ask the clean items and nothing else.

    Accuracy, criteria, slices and comparisons of clean answers work as in every run. No item is
    lost, because none is attacked: the summary counts them as never asked.
    """

    traits: ClassVar[AttackTraits] = AttackTraits(
        stream=NAME, budget=1, deterministic=True, needs_entities=False, adds_bytes=0
    )

    def spec(self) -> dict[str, Any]:
        """Return the name."""
        return {"name": NAME}

    def label_parameters(self) -> Mapping[str, Any]:  # type: ignore[override]
        """Return nothing: there is one of this name."""
        return {}

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return None: every item has a clean answer."""
        return None

    def most_queries(self, item: Question, resources: Resources) -> int:
        """Return 0."""
        return 0

    def run(self, item: Question, rng: Generator, resources: Resources) -> Steps[Candidate | None]:
        """Ask nothing."""
        yield from ()
        return None
