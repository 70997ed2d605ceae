"""State of a DiscreteZOO trial: the queries left, and the names still open at each entity."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np

from medstress.attacks.constraints import CaseCopy
from medstress.attacks.discrete_zoo.gradient import Floats, Indices, cosines, most_similar
from medstress.attacks.spans import distractor_spans, span_text
from medstress.core.items import Candidate, Mention, Question
from medstress.core.outcomes import Prediction
from medstress.core.queries import Predict, Replies, Step, ask
from medstress.core.resources import Resources

SAME_VECTOR = 1e-6
"""A name closer than this to the span in the embedding gives no direction and is not asked."""


class QueryBudget:
    """The queries left in one trial."""

    def __init__(self, left: int) -> None:
        self.left = left

    def ask(
        self, query: Predict, then: Sequence[Predict] = ()
    ) -> Generator[Step, Replies, Prediction]:
        """Ask one query and count it."""
        self.left -= 1
        (answer,) = yield from ask([query], then=then)
        return answer


class AttackedEntity:
    """One entity under attack, and the names that may still replace it."""

    def __init__(
        self,
        item: Question,
        span: Mention,
        resources: Resources,
        allowed: Indices,
        threshold: float | str,
        copy_case: CaseCopy,
    ) -> None:
        names = resources.perturbations
        self.item = item
        self.span = span
        self.text = span_text(item, span)
        self.names = names.names
        self._copy_case = copy_case
        self.vectors = names.vectors
        self.origin = _unit(names.vector(self.text))
        self.similarity = cosines(self.vectors, self.origin)
        self.open = np.zeros(len(self.names), dtype=np.bool_)
        self.open[allowed] = True
        if not isinstance(threshold, str):
            self.open &= self.similarity >= threshold
        # Exclude e0 itself under another spelling; in float64, as float32 is too coarse.
        near = np.flatnonzero(self.open & (self.similarity > 1 - 1e-5))
        lengths = np.linalg.norm(self.vectors_of(near) - self.origin, axis=1)
        self.open[near[lengths < SAME_VECTOR]] = False

    def pool(self, size: int) -> Indices:
        """Return the open names most similar to the entity, shape (<= size,)."""
        return most_similar(self.similarity, np.flatnonzero(self.open), size)

    def vectors_of(self, names: Indices) -> Floats:
        """Return the vectors of names, shape (n, n_dimensions)."""
        return np.asarray(self.vectors[names], dtype=np.float64)

    def candidate(self, name: int) -> Candidate:
        """Return the item with the entity replaced by this name."""
        replacement = self._copy_case(self.names[name], self.text)
        return Candidate(item=self.item).edit(self.span, replacement)


def spans_with_vectors(item: Question, resources: Resources) -> list[Mention]:
    """Return the distractor entities that have a vector."""
    spans = distractor_spans(item, resources)
    return [span for span in spans if resources.perturbations.vector(span_text(item, span)).any()]


def _unit(vector: Floats) -> Floats:
    unit: Floats = vector / np.linalg.norm(vector)
    return unit
