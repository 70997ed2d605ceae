"""The vectors of a vocabulary beside those of keys, and the cosines between them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from medstress.entities.embeddings import Embedder
from medstress.entities.encoders import Progress
from medstress.entities.prepared_texts import PreparedTexts
from medstress.entities.recent import Recent
from medstress.entities.vector_files import VectorFile
from medstress.seeding import rng_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GAPS_BYTES = 8 << 20
"""Gaps that are kept: those of the keys whose trials draw next, and a few before."""
_BLOCK = 128
_TOGETHER = 64
"""Anchors whose gaps are computed together, fewer where they would not fit what is kept."""
_SLACK = 1.01
"""For rounding."""


class NameVectors:
    """Vectors of names and anchors in one space; reading is thread-safe.

    Nothing is embedded before it is asked for. Vectors stay on disk and are read as they are
    needed, so that memory does not grow with items, and hardly with names.
    """

    def __init__(self, names: Sequence[str], embedder: Embedder) -> None:
        self.names = names
        self._embedder = embedder
        self._prepared: list[PreparedTexts] = []
        self._gaps: Recent[np.float64] = Recent(_GAPS_BYTES)
        self._last: tuple[str, NDArray[np.float64]] | None = None

    @cached_property
    def _file(self) -> VectorFile:
        return self._embedder.kept(self.names)

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
            anchors: in the order in which their gaps will be asked for: those of several
                neighbours are computed together.
            texts: others whose vectors will be asked for.
            progress: told (done, all) while vectors are computed.
        """
        if "_file" not in self.__dict__:
            self._file = self._embedder.kept(self.names, progress)
        wanted = list(dict.fromkeys(anchors))
        new = sorted(text for text in {*wanted, *texts} if self._place(text) is None)
        if new:
            kept = self._embedder.kept(new, progress)
            self._prepared.append(PreparedTexts(new, kept, wanted))

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

    def _place(self, text: str) -> PreparedTexts | None:
        return next((each for each in self._prepared if text in each), None)

    def gap(self, anchor: str, text: str) -> float:
        """Return 1 - cos(anchor, text); nan where a vector is undefined."""
        one, other = self._last_anchor(anchor), self.vector(text)
        lengths = math.sqrt(one @ one) * math.sqrt(other @ other)
        return max(1 - float(one @ other) / lengths, 0.0) if lengths else math.nan

    def _last_anchor(self, anchor: str) -> NDArray[np.float64]:
        """Its vector: the spans of an item are asked for one after the other."""
        last = self._last
        if last is None or last[0] != anchor:
            self._last = last = (anchor, self.vector(anchor))
        return last[1]

    def is_defined(self, anchor: str) -> bool:
        """Whether a text has a vector other than zero."""
        return bool(self._last_anchor(anchor).any())

    def twins(self, anchor: str, most: float) -> NDArray[np.int64]:
        """Return the names with 1 - cos(anchor, name) < most, for a very small `most`; ascending.

        Vectors of one direction have shadows of one length in any other: of the names whose
        shadows fit the anchor's, next to none but the twins, the vectors are looked at.
        """
        vector = self._last_anchor(anchor)
        length = math.sqrt(vector @ vector)
        if not length:
            return np.array([], np.int64)
        # Unit vectors with 1 - cos < most are less than sqrt(2 most) apart, their shadows no more.
        apart = _SLACK * math.sqrt(2 * most)
        names, shadows = self._by_shadow
        first, second = (vector @ self._directions / length).tolist()
        start, stop = shadows[0].searchsorted((first - apart, first + apart)).tolist()
        near = names[start:stop][np.abs(shadows[1, start:stop] - second) < apart]
        close = [i for i in near.tolist() if self._gap_to(i, vector, length) < most]
        return np.array(sorted(close), np.int64)

    def _gap_to(self, i: int, vector: NDArray[np.float64], length: float) -> float:
        """1 - cos of a vector and the name i, which has one."""
        (name,) = self._file.rows(i, i + 1).astype(np.float64)
        return 1 - float(vector @ name) / (length * float(self.lengths[i]))

    @cached_property
    def _directions(self) -> NDArray[np.float64]:
        """Any two directions, always the same, shape (n_dimensions, 2)."""
        drawn = rng_for(0, "shadows", "", "").standard_normal((self._file.shape[1], 2))
        return np.asarray(drawn / np.linalg.norm(drawn, axis=0))

    @cached_property
    def _by_shadow(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The names that have a vector by their first shadow, (n_defined,), and the shadows of
        these: their unit vectors along both directions, (2, n_defined)."""
        shadows = np.concatenate([block @ self._directions for block in self._blocks()])
        defined = np.flatnonzero(self.lengths)
        shadows = (shadows[defined] / self.lengths[defined, None]).T
        order = np.argsort(shadows[0])
        return defined[order], np.ascontiguousarray(shadows[:, order])

    def gaps(self, anchor: str) -> NDArray[np.float64]:
        """Return 1 - cos(anchor, name) for every name, shape (n_names,), read-only."""
        known = self._gaps.find(anchor)
        if known is not None:
            return known
        place = self._place(anchor)
        # Not more than half of what is kept, or the last would push out the first.
        most = max(min(self._gaps.n_bytes // (16 * len(self.names)), _TOGETHER), 1)
        together = [anchor] if place is None else place.neighbours(anchor, most)
        # Copies: a row of the block would keep all of it.
        made: dict[str, NDArray[np.float64]] = {
            text: row.copy()
            for text, row in zip(together, self._cosine_gaps(together), strict=True)
        }
        for text, gaps in made.items():
            self._gaps.keep(text, gaps)
        return made[anchor]

    def _cosine_gaps(self, anchors: Sequence[str]) -> NDArray[np.float64]:
        """1 - cos of several anchors and every name, shape (n_anchors, n_names)."""
        vectors = np.stack([self.vector(anchor) for anchor in anchors])
        lengths = np.linalg.norm(vectors, axis=1)[:, None]
        gaps = np.empty((len(anchors), len(self.names)))
        for start, block in zip(range(0, len(self.names), _BLOCK), self._blocks(), strict=True):
            part = slice(start, start + len(block))
            with np.errstate(divide="ignore", invalid="ignore"):
                cosines = (vectors @ block.T) / (lengths * self.lengths[None, part])
            gaps[:, part] = np.maximum(1 - cosines, 0)
        return gaps

    def _blocks(self) -> Iterator[NDArray[np.float64]]:
        """The vectors in pieces: in float64 all of them may outgrow memory."""
        for start in range(0, len(self.names), _BLOCK):
            yield self._file.rows(start, start + _BLOCK).astype(np.float64)
