"""What every attack is: frozen parameters and a generator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from medstress.items import Candidate, Question
from medstress.outcomes import Goal
from medstress.queries import Steps
from medstress.resources import Resources

if TYPE_CHECKING:
    from numpy.random import Generator


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """Whether the key still holds after an attack, as far as known without asking anyone."""

    valid: bool | None = None
    """None is unknown: counted in `asr`, not in `asr_valid`."""
    reason: str | None = None
    """`rule` where an exclusion rule vouches for it."""
    variant_class: str | None = None
    """Class of the replacement against the key, for substitutions."""


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


@runtime_checkable
class RuleChecked(Protocol):
    """An attack with rules of its own about whether the key still holds; others have none."""

    def validity(self, candidate: Candidate, resources: Resources) -> Validity:
        """What the rules say of a success."""
