"""What perturbations with parameters of their own have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from medstress.attacks.noise.mention_table import Choice, replace_mentions
from medstress.attacks.noise.protocol import NoiseResources, Perturbed
from medstress.sentences import TaggedText

if TYPE_CHECKING:
    from numpy.random import Generator


class Parameters:
    """Base of frozen dataclasses: told and seeded by their name and their fields."""

    name: ClassVar[str]
    not_told: ClassVar[tuple[str, ...]] = ("choices",)
    """Fields whose effect stands in others."""
    told_if_set: ClassVar[tuple[str, ...]] = ()
    """Fields that came later: unset they are not told, so that older folders know their attacks."""

    @property
    def stream(self) -> str:
        """The perturbation's name: its parameters share their random numbers."""
        return self.name

    @property
    def deterministic(self) -> bool:
        """False: every place is drawn."""
        return False

    def spec(self) -> dict[str, Any]:
        """The parameters, as JSON values."""
        fields: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        unset = {key for key in self.told_if_set if fields[key] is None}
        kept = {k: v for k, v in fields.items() if k not in self.not_told and k not in unset}
        return {"name": self.name, **kept}


class MentionReplacement(Parameters, ABC):
    """Base of perturbations that put other names for whole gold entities."""

    choice: Choice

    @property
    @abstractmethod
    def table(self) -> str:
        """Key of its names in `NoiseResources.replacements`."""

    @property
    def deterministic(self) -> bool:
        """Whether each mention string has one fixed name."""
        return self.choice == "fixed"

    def perturb(self, item: TaggedText, rng: Generator, resources: NoiseResources) -> Perturbed:
        """Perturb one item; see `Perturbation.perturb`."""
        return replace_mentions(item, resources.replacements[self.table], self.choice, rng)
