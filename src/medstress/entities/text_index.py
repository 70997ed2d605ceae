"""An index of texts whose vectors are on disk; it takes a few bytes per text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from medstress.entities.vector_files import VectorFile

if TYPE_CHECKING:
    from numpy.typing import NDArray


class PreparedTexts:
    """The texts of all items, and the order in which anchors among them will be requested.

    Texts are found by bisection: a dict would take ten times the memory, and an item has several
    texts.
    """

    def __init__(self, texts: Sequence[str], vectors: VectorFile, order: Iterable[str]) -> None:
        """Index texts and their vectors.

        Args:
            texts: distinct, in ascending order.
            vectors: their vectors, in the same order.
            order: anchors in the order of the items; those not in `texts` are ignored.
        """
        self._texts = texts
        self._vectors = vectors
        rows = [self._row(anchor) for anchor in order]
        self._order = np.array([row for row in rows if row is not None], np.int32)
        self._places = np.full(len(texts), -1, np.int32)
        self._places[self._order] = np.arange(len(self._order), dtype=np.int32)

    def __contains__(self, text: str) -> bool:
        return self._row(text) is not None

    def vector(self, text: str) -> NDArray[np.float64] | None:
        """Return the vector of a text, shape (n_dimensions,); None if it is not among these."""
        row = self._row(text)
        if row is None:
            return None
        return np.asarray(self._vectors.rows(row, row + 1)[0], np.float64)

    def neighbours(self, anchor: str, limit: int) -> list[str]:
        """Return up to `limit` anchors that are consecutive in the order and include `anchor`."""
        row = self._row(anchor)
        place = -1 if row is None else int(self._places[row])
        if place < 0:
            return [anchor]
        start = place - place % limit
        return [self._texts[i] for i in self._order[start : start + limit].tolist()]

    def _row(self, text: str) -> int | None:
        row = bisect_left(self._texts, text)
        return row if row < len(self._texts) and self._texts[row] == text else None
