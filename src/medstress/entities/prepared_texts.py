"""Texts whose vectors lie on disk, found in a few bytes a text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from medstress.entities.vector_files import VectorFile

if TYPE_CHECKING:
    from numpy.typing import NDArray


class PreparedTexts:
    """The texts of all items, and which of them will be asked for one after the other.

    Found by bisection: a dict would take ten times the memory, and there are several texts an
    item.
    """

    def __init__(self, texts: Sequence[str], vectors: VectorFile, order: Iterable[str]) -> None:
        """Take over texts and their vectors.

        Args:
            texts: ascending, each once.
            vectors: of the texts, in their order.
            order: anchors in the order of the items; others than `texts` are passed over.
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
        """Return the vector of a text, shape (n_dimensions,); None unless it is one of these."""
        row = self._row(text)
        if row is None:
            return None
        return np.asarray(self._vectors.rows(row, row + 1)[0], np.float64)

    def neighbours(self, anchor: str, most: int) -> list[str]:
        """Return up to `most` anchors that stand together in the order, `anchor` among them."""
        row = self._row(anchor)
        place = -1 if row is None else int(self._places[row])
        if place < 0:
            return [anchor]
        start = place - place % most
        return [self._texts[i] for i in self._order[start : start + most].tolist()]

    def _row(self, text: str) -> int | None:
        row = bisect_left(self._texts, text)
        return row if row < len(self._texts) and self._texts[row] == text else None
