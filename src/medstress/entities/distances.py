"""Distances h(key, name) that perturbation sets use; samplers see their values only.

Reference: R. Patrick Xian et al., "Assessing biomedical knowledge robustness in large language
models by query-efficient sampling attacks", TMLR, 2025: the method requires only that h >= 0.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from medstress.core.errors import UsageError, did_you_mean
from medstress.core.hashing import content_hash
from medstress.entities.embeddings import NameVectors
from medstress.entities.encoders import Progress
from medstress.entities.groups import types_of
from medstress.entities.ontologies import TITLES, Ontology, load_ontology
from medstress.entities.vector_files import ArrayCache
from medstress.files.functions import describe_error, load_function, source_hashes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Indices = NDArray[np.int64]

NAMED = ("cosine", "euclidean", "mondo", "mesh")
"""Built-in distances; any other is a user's function."""

DUPLICATE = 1e-9
"""A name with a smaller distance to the key's text counts as the key itself."""

_CACHE_BYTES = 20 << 20
"""Memory for cached rows of distances."""


class Distance(ABC):
    """A distance from anchors to the names of a vocabulary; reading is thread-safe."""

    identity: str
    """Part of the perturbation set's hash; changes whenever a value could."""
    lack: str
    """Says what is wrong with a name without any distance, to follow "is" or "are"."""

    def prepare(  # noqa: B027 - most distances need nothing
        self, anchors: Iterable[str], texts: Iterable[str], progress: Progress | None
    ) -> None:
        """Prepare for these texts, and for these anchors in this order."""

    @abstractmethod
    def to_names(self, anchor: str) -> Floats:
        """h(anchor, name) for every name, shape (n_names,), >= 0, read-only; nan: undefined."""

    @abstractmethod
    def to_text(self, anchor: str, text: str) -> float:
        """h(anchor, text) for any text; nan if undefined."""

    @abstractmethod
    def undefined(self) -> Indices:
        """Indices, ascending, of the names known to have no distance from any anchor."""

    def duplicates(self, anchor: str) -> Indices:
        """Indices of the names with h < `DUPLICATE`."""
        with np.errstate(invalid="ignore"):
            return np.flatnonzero(self.to_names(anchor) < DUPLICATE)

    def undefined_from(self, anchor: str) -> Indices:
        """Indices of the names without a distance from this anchor."""
        return np.flatnonzero(np.isnan(self.to_names(anchor)))


class Cosine(Distance):
    """h = 1 - cos, Xian et al. (2025)."""

    identity = "cosine"
    lack = "without a vector"

    def __init__(self, vectors: NameVectors) -> None:
        self._vectors = vectors

    def prepare(
        self, anchors: Iterable[str], texts: Iterable[str], progress: Progress | None
    ) -> None:
        """Embed names, anchors and texts."""
        self._vectors.prepare(anchors, texts, progress)

    def to_names(self, anchor: str) -> Floats:
        """1 - cos(anchor, name)."""
        return self._vectors.distances(anchor)

    def to_text(self, anchor: str, text: str) -> float:
        """1 - cos(anchor, text)."""
        return self._vectors.distance(anchor, text)

    def duplicates(self, anchor: str) -> Indices:
        """Names with 1 - cos below `DUPLICATE`."""
        with np.errstate(invalid="ignore"):
            return np.flatnonzero(self._vectors.distances(anchor) < DUPLICATE)

    def undefined_from(self, anchor: str) -> Indices:
        """All names if the anchor's vector is zero, else `undefined`."""
        if self._vectors.is_defined(anchor):
            return self.undefined()
        return np.arange(len(self._vectors.names))

    def undefined(self) -> Indices:
        """Names whose vector is zero."""
        return np.flatnonzero(self._vectors.lengths == 0)


class Euclidean(Cosine):
    """h = |u - v| of the unit vectors, that is sqrt(2 (1 - cos)); ranks names as `Cosine` does."""

    identity = "euclidean"

    def to_names(self, anchor: str) -> Floats:
        """Distance between the vectors of anchor and name."""
        return np.sqrt(2 * super().to_names(anchor))

    def to_text(self, anchor: str, text: str) -> float:
        """Distance between the vectors of anchor and text."""
        return math.sqrt(2 * super().to_text(anchor, text))


class PathLength(Distance):
    """h = number of edges on the shortest path between the concepts of two names in a hierarchy.

    If a name stands for several concepts, the nearest pair counts. Names of one concept have h = 0:
    they are synonyms, count as duplicates, and are never drawn.

    References:
        R. Rada et al., "Development and application of a metric on semantic nets", IEEE Trans.
        Syst. Man Cybern. 19(1), 1989.
    """

    def __init__(self, ontology: Ontology, names: Sequence[str]) -> None:
        self._ontology = ontology
        self.identity = content_hash(["path length", ontology.hash])
        self.lack = f"outside {ontology.title}"
        places = [ontology.places(name) for name in names]
        self._n_names = len(names)
        self._inside = np.array([i for i, found in enumerate(places) if found], dtype=np.int64)
        sizes = [len(found) for found in places if found]
        self._starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        self._flat = np.array([node for found in places for node in found], dtype=np.int64)
        self._rows: ArrayCache[np.float64] = ArrayCache(_CACHE_BYTES)

    def to_names(self, anchor: str) -> Floats:
        """Edges between anchor and name."""
        known = self._rows.find(anchor)
        if known is None:
            known = np.full(self._n_names, np.nan)
            sources = self._ontology.places(anchor)
            if sources and len(self._inside):
                steps = self._ontology.steps(sources)[self._flat]
                known[self._inside] = np.fmin.reduceat(steps, self._starts)
            self._rows.keep(anchor, known)
        return known

    def to_text(self, anchor: str, text: str) -> float:
        """Edges between anchor and text."""
        sources, ends = self._ontology.places(anchor), self._ontology.places(text)
        if not sources or not ends:
            return math.nan
        return float(np.fmin.reduce(self._ontology.steps(sources)[list(ends)]))

    def undefined(self) -> Indices:
        """Names outside the hierarchy."""
        return np.setdiff1d(np.arange(self._n_names), self._inside)


class FunctionDistance(Distance):
    """h by a user's function: (anchor, names) -> one number >= 0 per name; nan: undefined.

    The function is called by one thread at a time and must be deterministic.
    """

    lack = "without a distance"

    def __init__(
        self,
        function: Callable[[str, list[str]], Any],
        target: str,
        hashes: Sequence[str],
        names: Sequence[str],
    ) -> None:
        self._function = function
        self._target = target
        self._names = list(names)
        self._lock = threading.Lock()
        self._rows: ArrayCache[np.float64] = ArrayCache(_CACHE_BYTES)
        # Without the path: moving an experiment to another folder does not change it.
        self.identity = content_hash(["function", target.rpartition(":")[2], *hashes])

    def prepare(
        self, anchors: Iterable[str], texts: Iterable[str], progress: Progress | None
    ) -> None:
        """Call the function for the first anchor, so that a mistake shows before the run."""
        for anchor in anchors:
            self.to_names(anchor)
            break

    def to_names(self, anchor: str) -> Floats:
        """Result of the function for anchor and all names."""
        known = self._rows.find(anchor)
        if known is None:
            known = self._call(anchor, self._names)
            self._rows.keep(anchor, known)
        return known

    def to_text(self, anchor: str, text: str) -> float:
        """Result of the function for anchor and text."""
        return float(self._call(anchor, [text])[0])

    def undefined(self) -> Indices:
        """Empty, since it may depend on the anchor."""
        return np.array([], dtype=np.int64)

    def _call(self, anchor: str, names: list[str]) -> Floats:
        try:
            with self._lock:
                answer = self._function(anchor, list(names))
            values = np.array(answer, dtype=np.float64)
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            self._refuse(f"raised {describe_error(error)}", anchor)
        if values.shape != (len(names),):
            self._refuse(
                f"returned an array of shape {values.shape}; expected one number per name, shape "
                f"({len(names)},)",
                anchor,
            )
        wrong = np.flatnonzero((values < 0) | np.isinf(values))
        if wrong.size:
            self._refuse(
                f"returned {values[wrong[0]]:g} for {names[wrong[0]]!r}; expected a finite number "
                ">= 0, or nan if the distance is undefined",
                anchor,
            )
        return values

    def _refuse(self, what: str, anchor: str) -> NoReturn:
        raise UsageError(f"distance {self._target!r} {what} (anchor {anchor!r})")


def wrong_distance(distance: str) -> str | None:
    """Return why `distance` is neither one of `NAMED` nor ``module:function``; None if it is."""
    if distance in NAMED or all(distance.rpartition(":")[::2]):
        return None
    return (
        f'expected one of {", ".join(NAMED)}, "module:function" or "file.py:function", got '
        f"{distance!r}{did_you_mean(distance, NAMED)}"
    )


def check_types(distance: str, types: Collection[str]) -> None:
    """Refuse a path length between diseases for a group with other types.

    Raises:
        UsageError: some types are not diseases; names them.
    """
    others = sorted(set(types) - types_of("diseases"))
    if distance in TITLES and others:
        listed = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
        raise UsageError(
            f"entities, key 'distance': {distance!r} is a path length between diseases, so the "
            f"group's type must be diseases or some of its types, got {listed}; use 'cosine', or "
            'a function of your own as "file.py:function"'
        )


def open_distance(
    distance: str, names: Sequence[str], vectors: NameVectors, base: Path
) -> Distance:
    """Return a distance over `names`.

    Args:
        distance: one of `NAMED`, ``module:function`` or ``file.py:function``.
        names: the vocabulary.
        vectors: the names' vectors, for the distances that need them.
        base: folder that a relative file starts from.

    Raises:
        UsageError: the distance, file or function does not exist.
    """
    if reason := wrong_distance(distance):
        raise UsageError(f"entities, key 'distance': {reason}")
    if distance == "cosine":
        return Cosine(vectors)
    if distance == "euclidean":
        return Euclidean(vectors)
    if distance == "mondo" or distance == "mesh":
        return PathLength(load_ontology(distance), names)
    function, loaded = load_function(distance, base, "distance")
    hashes = source_hashes(function, loaded)
    if not hashes:
        raise UsageError(
            f"distance {distance!r} has no source file to hash; define the function in a .py file"
        )
    return FunctionDistance(function, distance, hashes, names)
