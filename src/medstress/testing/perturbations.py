"""A perturbation set from plain names and distances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite, nan
from typing import TYPE_CHECKING

import numpy as np

from medstress.items import Question
from medstress.resources import PerturbationSet, Resources
from medstress.testing.questions import REPLACEMENTS, TINY_TYPE

if TYPE_CHECKING:
    from medstress.resources import FloatArray, IndexArray

Distance = Callable[[str, str], float]


class PerturbationTable:
    """A `PerturbationSet` without vectors, vocabularies or synonyms.

    Its exclusions are simple: a name may replace an entity unless it equals an option of the
    item whatever the case, or its distance to the key is not finite.

    >>> table = PerturbationTable(["near", "far"], {"near": 0.1, "far": 0.9})
    >>> table.distances("any key").tolist(), table.distance_to("any key", "unknown")
    ([0.1, 0.9], nan)
    """

    def __init__(
        self, names: Sequence[str], distances: Mapping[str, float] | Distance | None = None
    ) -> None:
        """Store names and distances.

        Args:
            names: the vocabulary, in order.
            distances: h(anchor, text) as a function; or text -> h, the same from every anchor
                (nan for texts it lacks). Default: 1/n, 2/n, ... 1 in the order of the names.
        """
        self.names: Sequence[str] = tuple(names)
        if distances is None:
            distances = {name: (i + 1) / len(self.names) for i, name in enumerate(self.names)}
        self._distances = distances

    def distances(self, anchor: str) -> FloatArray:
        """h(anchor, name) for every name, shape (n_names,)."""
        return np.array([self.distance_to(anchor, name) for name in self.names], dtype=np.float64)

    def distance_to(self, anchor: str, text: str) -> float:
        """h(anchor, text) for one text; nan where undefined."""
        if callable(self._distances):
            return self._distances(anchor, text)
        return self._distances.get(text, nan)

    def obstacle(self, item: Question) -> str | None:
        """None: whether a name has a distance is for `allowed` to say."""

    def allowed(self, item: Question) -> IndexArray:
        """Indices of the names that equal no option and have a distance, ascending."""
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


def tiny_resources(perturbations: PerturbationSet | None = None) -> Resources:
    """Resources for `tiny_questions`: group `drugs`, and a table of `REPLACEMENTS`."""
    return Resources(
        group="drugs",
        types=frozenset({TINY_TYPE}),
        perturbations=perturbations or PerturbationTable(REPLACEMENTS),
    )
