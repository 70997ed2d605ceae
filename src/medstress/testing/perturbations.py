"""A perturbation set from plain names and distances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import isfinite, nan
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from medstress.core.items import Question
from medstress.core.resources import Exclusions, PerturbationSet, Resources
from medstress.core.seeding import rng_for
from medstress.testing.questions import REPLACEMENTS, TINY_TYPE

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from medstress.core.resources import FloatArray, IndexArray, SimilarityArray

Distance = Callable[[str, str], float]
Vectors: TypeAlias = "Callable[[str], ArrayLike]"


class PerturbationTable:
    """A `PerturbationSet` from plain Python: no embedding, no vocabulary file, no synonyms.

    Its exclusions are simple: a name may replace an entity unless it equals an option of the item,
    ignoring case, or its distance to the key is not finite. A name that contains the key as a word
    is a variant of the key (`key_plus_words`) and excluded unless the rule includes variants.

    >>> table = PerturbationTable(["near", "far"], {"near": 0.1, "far": 0.9})
    >>> table.distances("any key").tolist(), table.distance_to("any key", "unknown")
    ([0.1, 0.9], nan)
    """

    def __init__(
        self,
        names: Sequence[str],
        distances: Mapping[str, float] | Distance | None = None,
        vectors: Vectors | None = None,
    ) -> None:
        """Store names, distances and vectors.

        Args:
            names: the vocabulary, in order.
            distances: h(anchor, text) as a function; or text -> h, the same from every anchor
                (nan for missing texts). Default: 1/n, 2/n, ... 1 in the order of the names.
            vectors: the vector of a text, of any length, as a function. Default: a direction
                in eight dimensions that depends only on the text. They are unrelated to
                `distances`.
        """
        self.names: Sequence[str] = tuple(names)
        if distances is None:
            distances = {name: (i + 1) / len(self.names) for i, name in enumerate(self.names)}
        self._distances = distances
        self._vectors = vectors or _direction

    def vectors_of(self, indices: IndexArray) -> FloatArray:
        """Return the unit vectors of some names, shape (n, n_dimensions)."""
        return np.asarray(self._unit[indices], np.float64)

    def cosines(self, direction: FloatArray) -> SimilarityArray:
        """Return the cosine of every name's vector and a direction, shape (n_names,)."""
        return self._unit @ (direction / np.linalg.norm(direction)).astype(np.float32)

    @cached_property
    def _unit(self) -> SimilarityArray:
        return np.array([self.vector(name) for name in self.names], dtype=np.float32)

    def vector(self, text: str) -> FloatArray:
        """Return the unit vector of one text, shape (n_dimensions,); zeros stay zeros."""
        vector = np.asarray(self._vectors(text), dtype=np.float64)
        length = float(np.linalg.norm(vector))
        return vector / length if length else vector

    def distances(self, anchor: str) -> FloatArray:
        """Return h(anchor, name) for every name, shape (n_names,)."""
        return np.array([self.distance_to(anchor, name) for name in self.names], dtype=np.float64)

    def distance_to(self, anchor: str, text: str) -> float:
        """Return h(anchor, text) for one text; nan if undefined."""
        if callable(self._distances):
            return self._distances(anchor, text)
        return self._distances.get(text, nan)

    def obstacle(self, item: Question) -> str | None:
        """Return None: names without a distance are left out by `allowed`."""

    def allowed(self, item: Question, rule: Exclusions = "exclude") -> IndexArray:
        """Return the indices of the names that the rule keeps, ascending."""
        kept = [i for i, name in enumerate(self.names) if self._reason(item, name, rule) is None]
        return np.array(kept, dtype=np.int64)

    def n_excluded(self, item: Question, rule: Exclusions = "exclude") -> dict[str, int]:
        """Return how many names the rule leaves out, by reason."""
        reasons = (self._reason(item, name, rule) for name in self.names)
        return dict(Counter(reason for reason in reasons if reason is not None))

    def evidence(self, item: Question, name: str, field: str) -> tuple[()]:
        """Return nothing: there are no tables."""
        return ()

    def objection(self, item: Question, name: str) -> str | None:
        """Return why the rule `exclude` would leave a name out by its text, or None."""
        if _folded(name) == _folded(item.key_text):
            return "key_duplicate"
        if _folded(name) in map(_folded, item.options):
            return "equal_to_option"
        found = self.variant_class(item, name)
        return None if found == "different" else found

    def variant_class(self, item: Question, name: str) -> str:
        """Return `same_words` for the key itself, ignoring case, `key_plus_words` if the key is one
        of several words, else `different`."""
        if _folded(name) == _folded(item.key_text):
            return "same_words"
        return "key_plus_words" if _folded(item.key_text) in _folded(name).split() else "different"

    def _reason(self, item: Question, name: str, rule: Exclusions) -> str | None:
        if not isfinite(self.distance_to(item.key_text, name)):
            return "undefined_distance"
        found = self.objection(item, name)
        included: dict[Exclusions, tuple[str | None, ...]] = {
            "exclude": (),
            "mark": ("key_plus_words",),
            "key_string": ("key_plus_words", "equal_to_option"),
        }
        return None if found in included[rule] else found


def _folded(text: str) -> str:
    return text.strip().casefold()


def _direction(text: str) -> FloatArray:
    """Return a pseudo-random direction in eight dimensions."""
    return rng_for(0, "PerturbationTable", "", text).standard_normal(8)


def tiny_resources(perturbations: PerturbationSet | None = None) -> Resources:
    """Return resources for `tiny_questions`: group `drugs` and a table of `REPLACEMENTS`."""
    return Resources(
        group="drugs",
        types=frozenset({TINY_TYPE}),
        perturbations=perturbations or PerturbationTable(REPLACEMENTS),
    )
