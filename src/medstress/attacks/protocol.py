"""What every attack is: frozen parameters and a generator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from medstress.items import Candidate, Question
from medstress.outcomes import Goal
from medstress.queries import Steps
from medstress.resources import Resources

if TYPE_CHECKING:
    from numpy.random import Generator


class Attack(Protocol):
    """An attack on one item; no I/O, no clock, no global state."""

    @property
    def stream(self) -> str:
        """Name of the random stream: shared by arms that differ in sampler, n or budget."""

    @property
    def budget(self) -> int:
        """The most perturbed queries one trial may consume."""

    @property
    def deterministic(self) -> bool:
        """True where the seed changes nothing; such attacks run once, with seed null."""

    @property
    def goal(self) -> Goal:
        """When a candidate counts as success."""

    def spec(self) -> dict[str, Any]:
        """The parameters, as JSON values; part of the fingerprint."""

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Why this item cannot be attacked, or None; asked before any query."""

    def run(self, item: Question, rng: Generator, resources: Resources) -> Steps[Candidate | None]:
        """Attack one item.

        Yields:
            Steps; is sent same-length, same-order tuples.

        Returns:
            The candidate the attack prefers, or None; the referee judges for itself.
        """
