"""A perturbation set from plain names and distances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import isfinite, nan
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from medstress.items import Question
from medstress.resources import PerturbationSet, Resources
from medstress.seeding import rng_for
from medstress.testing.questions import REPLACEMENTS, TINY_TYPE

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from medstress.resources import FloatArray, IndexArray, VectorArray

Distance = Callable[[str, str], float]
Vectors: TypeAlias = "Callable[[str], ArrayLike]"


class PerturbationTable:
    """A `PerturbationSet` from plain Python: no embedding, no vocabulary file, no synonyms.

    Its exclusions are simple: a name may replace an entity unless it equals an option of the
    item whatever the case, or its distance to the key is not finite.

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
                (nan for texts it lacks). Default: 1/n, 2/n, ... 1 in the order of the names.
            vectors: the vector of a text, of any length, as a function. Default: a direction
                in eight dimensions that depends on nothing but the text. They have nothing to
                do with `distances`.
        """
        self.names: Sequence[str] = tuple(names)
        if distances is None:
            distances = {name: (i + 1) / len(self.names) for i, name in enumerate(self.names)}
        self._distances = distances
        self._vectors = vectors or _direction

    @cached_property
    def vectors(self) -> VectorArray:
        """Unit vectors of the names, shape (n_names, n_dimensions)."""
        return np.array([self.vector(name) for name in self.names], dtype=np.float32)

    def vector(self, text: str) -> FloatArray:
        """The unit vector of one text, shape (n_dimensions,); zeros stay zeros."""
        vector = np.asarray(self._vectors(text), dtype=np.float64)
        length = float(np.linalg.norm(vector))
        return vector / length if length else vector

    def distances(self, anchor: str) -> FloatArray:
        """h(anchor, name) for every name, shape (n_names,)."""
        return np.array([self.distance_to(anchor, name) for name in self.names], dtype=np.float64)

    def distance_to(self, anchor: str, text: str) -> float:
        """h(anchor, text) for one text; nan where undefined."""
        if callable(self._distances):
            return self._distances(anchor, text)
        return self._distances.get(text, nan)

    def allowed(
        self, item: Question, variants: Literal["exclude", "mark"] = "exclude"
    ) -> IndexArray:
        """Indices of the names that equal no option and have a distance, ascending.

        It knows no variants of the key, so that `variants` changes nothing.
        """
        options = {option.strip().casefold() for option in item.options}
        kept = [
            i
            for i, name in enumerate(self.names)
            if name.strip().casefold() not in options
            and isfinite(self.distance_to(item.key_text, name))
        ]
        return np.array(kept, dtype=np.int64)

    def variant_class(self, item: Question, name: str) -> str:
        """`same_words` for the key itself whatever the case, else `different`."""
        same = name.strip().casefold() == item.key_text.strip().casefold()
        return "same_words" if same else "different"


def _direction(text: str) -> FloatArray:
    """A direction in eight dimensions, as good as random."""
    return rng_for(0, "PerturbationTable", "", text).standard_normal(8)


def tiny_resources(perturbations: PerturbationSet | None = None) -> Resources:
    """Resources for `tiny_questions`: group `drugs`, and a table of `REPLACEMENTS`."""
    return Resources(
        group="drugs",
        types=frozenset({TINY_TYPE}),
        perturbations=perturbations or PerturbationTable(REPLACEMENTS),
    )
