"""Vectors of a vocabulary and of keys, and the cosine distances between them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from medstress.core.seeding import rng_for
from medstress.entities.array_cache import ArrayCache
from medstress.entities.embeddings import Embedder
from medstress.entities.encoders import Progress
from medstress.entities.text_index import PreparedTexts
from medstress.entities.vector_files import VectorFile

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CACHE_BYTES = 8 << 20
"""Memory for distances: those of the keys whose trials draw next, and a few before."""
_BLOCK = 128
"""Names whose vectors are read at a time."""
_ANCHORS_AT_ONCE = 64
"""Anchors whose distances are computed together, fewer if they would not fit into the cache."""
_SLACK = 1.01
"""Widens a search range against rounding errors."""


class NameVectors:
    """Vectors of names and anchors in one space; reading is thread-safe.

    Texts are embedded on demand. Vectors stay on disk and are read as needed, so memory does not
    grow with the items, and hardly with the names.
    """

    def __init__(self, names: Sequence[str], embedder: Embedder) -> None:
        self.names = names
        self._embedder = embedder
        self._prepared: list[PreparedTexts] = []
        self._distances: ArrayCache[np.float64] = ArrayCache(_CACHE_BYTES)
        self._last_anchor: tuple[str, NDArray[np.float64]] | None = None

    @cached_property
    def _file(self) -> VectorFile:
        return self._embedder.vector_file(self.names)

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """Unit vectors of the names, shape (n_names, n_dimensions); zero where undefined."""
        return self._file.mapped()

    @cached_property
    def lengths(self) -> NDArray[np.float64]:
        """Lengths of the vectors, shape (n_names,): 1, or 0 where undefined."""
        return np.concatenate([np.linalg.norm(block, axis=1) for block in self._blocks()])

    def prepare(
        self, anchors: Iterable[str], texts: Iterable[str] = (), progress: Progress | None = None
    ) -> None:
        """Embed the names, all anchors and all texts; later calls need no model.

        Args:
            anchors: in the order in which their distances will be requested; neighbours in this
                order are computed together.
            texts: other texts whose vectors will be requested.
            progress: called with (done, all) while vectors are computed.
        """
        if "_file" not in self.__dict__:
            self._file = self._embedder.vector_file(self.names, progress)
        ordered = list(dict.fromkeys(anchors))
        new = sorted(text for text in {*ordered, *texts} if self._texts_with(text) is None)
        if new:
            file = self._embedder.vector_file(new, progress)
            self._prepared.append(PreparedTexts(new, file, ordered))

    def vector(self, text: str) -> NDArray[np.float64]:
        """Return the unit vector of any text, shape (n_dimensions,); zero where undefined.

        A text that was not prepared is embedded now.
        """
        for prepared in self._prepared:
            known = prepared.vector(text)
            if known is not None:
                return known
        (vector,) = self._embedder.vectors([text], keep=False).astype(np.float64)
        return np.asarray(vector)

    def _texts_with(self, text: str) -> PreparedTexts | None:
        return next((texts for texts in self._prepared if text in texts), None)

    def distance(self, anchor: str, text: str) -> float:
        """Return 1 - cos(anchor, text); nan if a vector is undefined."""
        one, other = self._anchor_vector(anchor), self.vector(text)
        lengths = math.sqrt(one @ one) * math.sqrt(other @ other)
        return max(1 - float(one @ other) / lengths, 0.0) if lengths else math.nan

    def _anchor_vector(self, anchor: str) -> NDArray[np.float64]:
        """Return the anchor's vector; the last one is kept, since requests for it come in a row."""
        last = self._last_anchor
        if last is None or last[0] != anchor:
            self._last_anchor = last = (anchor, self.vector(anchor))
        return last[1]

    def is_defined(self, anchor: str) -> bool:
        """True if a text has a vector other than zero."""
        return bool(self._anchor_vector(anchor).any())

    def nearer_than(self, limit: float, anchor: str) -> NDArray[np.int64]:
        """Return the names with 1 - cos(anchor, name) < limit, ascending, for a tiny `limit`.

        Nearly equal vectors have nearly equal projections on any direction. Exact distances are
        computed only for the few names whose two projections are near those of the anchor.
        """
        vector = self._anchor_vector(anchor)
        length = math.sqrt(vector @ vector)
        if not length:
            return np.array([], np.int64)
        # Unit vectors with 1 - cos < limit differ by less than sqrt(2 limit), and so do their
        # projections.
        radius = _SLACK * math.sqrt(2 * limit)
        names, projections = self._by_projection
        first, second = (vector @ self._directions / length).tolist()
        start, stop = projections[0].searchsorted((first - radius, first + radius)).tolist()
        near = names[start:stop][np.abs(projections[1, start:stop] - second) < radius]
        close = [i for i in near.tolist() if self._distance_to(i, vector, length) < limit]
        return np.array(sorted(close), np.int64)

    def _distance_to(self, i: int, vector: NDArray[np.float64], length: float) -> float:
        """Return 1 - cos of a vector and the vector of name i, which is not zero."""
        (name,) = self._file.rows(i, i + 1).astype(np.float64)
        return 1 - float(vector @ name) / (length * float(self.lengths[i]))

    @cached_property
    def _directions(self) -> NDArray[np.float64]:
        """Two random but fixed directions, shape (n_dimensions, 2)."""
        drawn = rng_for(0, "shadows", "", "").standard_normal((self._file.shape[1], 2))
        return np.asarray(drawn / np.linalg.norm(drawn, axis=0))

    @cached_property
    def _by_projection(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Names with a vector, sorted by the first projection of their unit vectors.

        Returns:
            Indices of the names, (n_defined,), and both their projections, (2, n_defined).
        """
        projections = np.concatenate([block @ self._directions for block in self._blocks()])
        defined = np.flatnonzero(self.lengths)
        projections = (projections[defined] / self.lengths[defined, None]).T
        order = np.argsort(projections[0])
        return defined[order], np.ascontiguousarray(projections[:, order])

    def distances(self, anchor: str) -> NDArray[np.float64]:
        """Return 1 - cos(anchor, name) for every name, shape (n_names,), read-only."""
        known = self._distances.find(anchor)
        if known is not None:
            return known
        prepared = self._texts_with(anchor)
        # At most half the cache, or the last rows would push out the first.
        limit = max(min(self._distances.n_bytes // (16 * len(self.names)), _ANCHORS_AT_ONCE), 1)
        anchors = [anchor] if prepared is None else prepared.neighbours(anchor, limit)
        # Copies, since a view of one row would keep the whole array alive.
        rows: dict[str, NDArray[np.float64]] = {
            text: row.copy()
            for text, row in zip(anchors, self._cosine_distances(anchors), strict=True)
        }
        for text, row in rows.items():
            self._distances.keep(text, row)
        return rows[anchor]

    def _cosine_distances(self, anchors: Sequence[str]) -> NDArray[np.float64]:
        """Return 1 - cos of each anchor and every name, shape (n_anchors, n_names)."""
        vectors = np.stack([self.vector(anchor) for anchor in anchors])
        lengths = np.linalg.norm(vectors, axis=1)[:, None]
        distances = np.empty((len(anchors), len(self.names)))
        for start, block in zip(range(0, len(self.names), _BLOCK), self._blocks(), strict=True):
            part = slice(start, start + len(block))
            with np.errstate(divide="ignore", invalid="ignore"):
                cosines = (vectors @ block.T) / (lengths * self.lengths[None, part])
            distances[:, part] = np.maximum(1 - cosines, 0)
        return distances

    def _blocks(self) -> Iterator[NDArray[np.float64]]:
        """Yield the vectors in blocks, since all of them in float64 may not fit into memory."""
        for start in range(0, len(self.names), _BLOCK):
            yield self._file.rows(start, start + _BLOCK).astype(np.float64)
