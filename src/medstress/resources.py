"""The read-only bundle an attack is given: protocols only, built by `experiment`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from medstress.items import Question

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IndexArray = NDArray[np.int64]


class PerturbationSet(Protocol):
    """The names an entity group may be replaced with, and how far they lie from an anchor."""

    @property
    def names(self) -> Sequence[str]:
        """All names, in the vocabulary's order, shape (n_names,)."""

    def distances(self, anchor: str) -> FloatArray:
        """h(anchor, name) for every name, shape (n_names,), >= 0; nan where undefined."""

    def distance_to(self, anchor: str, text: str) -> float:
        """h(anchor, text) for one text that need not be in the vocabulary; nan where undefined."""

    def obstacle(self, item: Question) -> str | None:
        """Why no name has a distance from the item's key, or None."""

    def allowed(self, item: Question) -> IndexArray:
        """Indices of the names that cannot be a second right answer or repeat an option
        (METHODS 3.3), ascending."""

    def variant_class(self, item: Question, name: str) -> str:
        """The name's class against the key: `same_words`, `key_plus_words`, `key_subset`,
        `synonym` or `different` (METHODS 3.3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What the attacks on one entity group may read."""

    group: str
    """The entity group's name."""
    types: frozenset[str]
    """UMLS semantic types that belong to the group."""
    perturbations: PerturbationSet
    """Replacements of that type."""
