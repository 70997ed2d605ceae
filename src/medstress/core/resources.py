"""The read-only bundle an attack is given: protocols only, built by `experiment`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from medstress.core.calls import Decoding
from medstress.core.drug_names import DrugNames
from medstress.core.evidence import Evidence
from medstress.core.items import Question
from medstress.core.passages import Passages

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IndexArray = NDArray[np.int64]
    SimilarityArray = NDArray[np.float32]

Exclusions: TypeAlias = Literal["exclude", "mark", "key_string"]
"""Which names are never drawn (METHODS 3.3). `exclude`: any that could be a second right answer
or repeats an option. `mark`: those that repeat an option. `key_string`: those that are the key
itself, which is the published rule. A name without a distance to the key is never drawn."""


class PerturbationSet(Protocol):
    """The names that may replace entities of a group, and their distances from an anchor."""

    @property
    def names(self) -> Sequence[str]:
        """All names, in the vocabulary's order, shape (n_names,)."""

    def vectors_of(self, indices: IndexArray) -> FloatArray:
        """Return the unit vectors of some names, shape (n, n_dimensions); a zero row if a name has
        none."""

    def cosines(self, direction: FloatArray) -> SimilarityArray:
        """Return the cosine of every name's vector and a direction that is not zero, shape
        (n_names,); 0 for names without a vector."""

    def vector(self, text: str) -> FloatArray:
        """Return the unit vector of one text that need not be in the vocabulary, shape
        (n_dimensions,); zeros if it has none."""

    def distances(self, anchor: str) -> FloatArray:
        """Return h(anchor, name) for every name, shape (n_names,), >= 0; nan where undefined."""

    def distance_to(self, anchor: str, text: str) -> float:
        """Return h(anchor, text); the text need not be in the vocabulary; nan if undefined."""

    def obstacle(self, item: Question) -> str | None:
        """Return why no name has a distance from the item's key, or None."""

    def allowed(self, item: Question, rule: Exclusions = "exclude") -> IndexArray:
        """Return the indices of the names that may be drawn under a rule, ascending; by default
        those that cannot be a second right answer or repeat an option (METHODS 3.3)."""

    def n_excluded(self, item: Question, rule: Exclusions = "exclude") -> Mapping[str, int]:
        """Count the names that the rule leaves out, by reason; reasons without any are absent.
        Each name counts once, under the first reason that fits."""

    def evidence(self, item: Question, name: str, field: str) -> Sequence[Evidence]:
        """Return what tables say of a name in the option `field`; empty if nothing."""

    def objection(self, item: Question, name: str) -> str | None:
        """Return why the rule `exclude` would leave this name out because of its wording, or None:
        `key_duplicate`, `equal_to_option`, or its variant class."""

    def variant_class(self, item: Question, name: str) -> str:
        """Return the name's class against the key: `same_words`, `key_plus_words`, `key_subset`,
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
    roles: Mapping[str, Decoding] = field(default_factory=dict)
    """The roles that can be asked, and how each generates."""
    names_in: Callable[[str], Sequence[str]] | None = None
    """Finds the names of drugs and diseases in a text, if an attack needs them."""
    noise: Any = None
    """What noise may read (`medstress.attacks.noise.NoiseResources`), if an attack is noise."""
    drugs: DrugNames = field(default_factory=DrugNames)
    """Brand and generic names of drugs, if an attack needs them; else empty."""
    passages: Passages = field(default_factory=Passages)
    """The passages of the item's data set, if an attack needs them; else empty."""
