"""Base classes of perturbations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from medstress.attacks.noise.mention_table import Choice, replace_mentions
from medstress.attacks.noise.protocol import NoiseResources, Perturbed
from medstress.core.sentences import TaggedText

if TYPE_CHECKING:
    from numpy.random import Generator


class Parameters:
    """Base of frozen dataclasses that are identified by their name and fields."""

    name: ClassVar[str]
    not_told: ClassVar[tuple[str, ...]] = ("choices",)
    """Fields whose effect shows in other fields."""

    @property
    def stream(self) -> str:
        """The perturbation's name: its parameters share their random numbers."""
        return self.name

    @property
    def deterministic(self) -> bool:
        """False: every place is drawn."""
        return False

    def spec(self) -> dict[str, Any]:
        """Return the parameters, as JSON values."""
        fields: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        return {"name": self.name, **{k: v for k, v in fields.items() if k not in self.not_told}}


class MentionReplacement(Parameters, ABC):
    """Base of perturbations that replace whole gold entities by other names."""

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
