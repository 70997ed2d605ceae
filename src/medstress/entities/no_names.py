"""The perturbation set of attacks that replace no entity: it is empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from medstress.core.hashing import content_hash
from medstress.core.items import Question
from medstress.core.resources import Exclusions

if TYPE_CHECKING:
    from medstress.core.resources import FloatArray, IndexArray, VectorArray

LABEL = "all"


class NoNames:
    """A perturbation set without names; attacks that need names can attack no item."""

    names: Sequence[str] = ()
    undefined: Sequence[int] = ()
    lack = ""
    hash = content_hash("no names")

    @property
    def vectors(self) -> VectorArray:
        """Empty, shape (0, 0)."""
        import numpy as np

        return np.empty((0, 0), dtype=np.float32)

    def vector(self, text: str) -> FloatArray:
        """Empty, shape (0,)."""
        return self.distances(text)

    def distances(self, anchor: str) -> FloatArray:
        """Empty, shape (0,)."""
        import numpy as np

        return np.empty(0)

    def distance_to(self, anchor: str, text: str) -> float:
        """Always nan."""
        return float("nan")

    def obstacle(self, item: Question) -> str | None:
        """Always an obstacle: there is nothing to draw."""
        return "the group has no names"

    def allowed(self, item: Question, rule: Exclusions = "exclude") -> IndexArray:
        """Empty, shape (0,)."""
        import numpy as np

        return np.empty(0, dtype=np.int64)

    def n_excluded(self, item: Question, rule: Exclusions = "exclude") -> Mapping[str, int]:
        """Empty."""
        return {}

    def evidence(self, item: Question, name: str, field: str) -> tuple[()]:
        """Always empty."""
        return ()

    def objection(self, item: Question, name: str) -> str | None:
        """Always None."""
        return None

    def variant_class(self, item: Question, name: str) -> str:
        """Always `different`."""
        return "different"
