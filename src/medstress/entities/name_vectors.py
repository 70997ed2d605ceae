"""The vectors of a vocabulary beside those of keys, and the cosines between them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from medstress.entities.embeddings import Embedder
from medstress.entities.encoders import Progress
from medstress.entities.recent import Recent

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KEPT_ANCHORS = 512
_BLOCK = 128
_TOGETHER = 64


class NameVectors:
    """Vectors of names and anchors in one space; reading is thread-safe.

    Nothing is embedded before it is asked for.
    """

    def __init__(self, names: Sequence[str], embedder: Embedder) -> None:
        self.names = names
        self._embedder = embedder
        self._vectors: NDArray[np.float32] | None = None
        self._anchors: dict[str, NDArray[np.float64]] = {}
        self._order: list[str] = []
        self._places: dict[str, int] = {}
        self._gaps: Recent[np.float64] = Recent(_KEPT_ANCHORS)

    @property
    def vectors(self) -> NDArray[np.float32]:
        """Unit vectors of the names, shape (n_names, n_dimensions); zero where undefined."""
        if self._vectors is None:
            self._vectors = self._embedder.vectors(self.names)
        return self._vectors

    @cached_property
    def lengths(self) -> NDArray[np.float64]:
        """Lengths of the vectors, shape (n_names,): 1, or 0 where undefined."""
        return np.concatenate([np.linalg.norm(block, axis=1) for block in self._blocks()])

    def prepare(
        self, anchors: Iterable[str], texts: Iterable[str] = (), progress: Progress | None = None
    ) -> None:
        """Embed the names, all anchors and all texts; later calls need no model.

        Args:
            anchors: in the order in which their gaps will be asked for: those of several
                neighbours are computed together.
            texts: others whose vectors will be asked for.
            progress: told (done, all) while vectors are computed.
        """
        if self._vectors is None:
            self._vectors = self._embedder.vectors(self.names, progress)
        anchors = list(anchors)
        for anchor in anchors:
            if anchor not in self._places:
                self._places[anchor] = len(self._order)
                self._order.append(anchor)
        new = sorted({*anchors, *texts} - self._anchors.keys())
        if new:
            found = self._embedder.vectors(new, progress).astype(np.float64)
            self._anchors.update(zip(new, found, strict=True))

    def vector(self, text: str) -> NDArray[np.float64]:
        """Return the unit vector of any text, shape (n_dimensions,); zero where undefined.

        A text that was not prepared is embedded now.
        """
        vector = self._anchors.get(text)
        if vector is None:
            vector = self._embedder.vectors([text], keep=False)[0].astype(np.float64)
        return vector

    def gap(self, anchor: str, text: str) -> float:
        """Return 1 - cos(anchor, text); nan where a vector is undefined."""
        one, other = self.vector(anchor), self.vector(text)
        lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
        return max(1 - float(one @ other) / lengths, 0.0) if lengths else math.nan

    def gaps(self, anchor: str) -> NDArray[np.float64]:
        """Return 1 - cos(anchor, name) for every name, shape (n_names,), read-only."""
        known = self._gaps.find(anchor)
        if known is not None:
            return known
        place = self._places.get(anchor)
        if place is None:
            together = [anchor]
        else:
            start = place - place % _TOGETHER
            together = self._order[start : start + _TOGETHER]
        found = self._cosine_gaps(together)
        gaps: dict[str, NDArray[np.float64]] = dict(zip(together, found, strict=True))
        for text, gap in gaps.items():
            self._gaps.keep(text, gap)
        return gaps[anchor]

    def _cosine_gaps(self, anchors: Sequence[str]) -> NDArray[np.float64]:
        """1 - cos of several anchors and every name, shape (n_anchors, n_names)."""
        vectors = np.stack([self.vector(anchor) for anchor in anchors])
        products = np.concatenate([vectors @ block.T for block in self._blocks()], axis=1)
        lengths = np.linalg.norm(vectors, axis=1)[:, None] * self.lengths[None, :]
        with np.errstate(divide="ignore", invalid="ignore"):
            gaps: NDArray[np.float64] = np.maximum(1 - products / lengths, 0)
        return gaps

    def _blocks(self) -> Iterator[NDArray[np.float64]]:
        """The vectors in pieces: the file is float32 and may outgrow memory in float64."""
        for start in range(0, len(self.names), _BLOCK):
            yield self.vectors[start : start + _BLOCK].astype(np.float64)
