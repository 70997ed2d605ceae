"""The group of attacks that replace no entity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from medstress.hashing import content_hash
from medstress.items import Question
from medstress.resources import Exclusions

if TYPE_CHECKING:
    from medstress.resources import FloatArray, IndexArray, VectorArray

LABEL = "all"


class NoNames:
    """A perturbation set without names: attacks that need some have an obstacle everywhere."""

    names: Sequence[str] = ()
    undefined: Sequence[int] = ()
    lack = ""
    hash = content_hash("no names")

    @property
    def vectors(self) -> VectorArray:
        """None, shape (0, 0)."""
        import numpy as np

        return np.empty((0, 0), dtype=np.float32)

    def vector(self, text: str) -> FloatArray:
        """No dimensions."""
        return self.distances(text)

    def distances(self, anchor: str) -> FloatArray:
        """No distances."""
        import numpy as np

        return np.empty(0)

    def distance_to(self, anchor: str, text: str) -> float:
        """Undefined."""
        return float("nan")

    def obstacle(self, item: Question) -> str | None:
        """There is nothing to draw."""
        return "the group has no names"

    def allowed(self, item: Question, rule: Exclusions = "exclude") -> IndexArray:
        """None."""
        import numpy as np

        return np.empty(0, dtype=np.int64)

    def n_excluded(self, item: Question, rule: Exclusions = "exclude") -> Mapping[str, int]:
        """None."""
        return {}

    def objection(self, item: Question, name: str) -> str | None:
        """None."""
        return None

    def variant_class(self, item: Question, name: str) -> str:
        """Always `different`."""
        return "different"
