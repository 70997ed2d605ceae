"""Distances h(key, name) that perturbation sets use, with the shipped disease hierarchies.

Samplers see their values only.

Reference: R. Patrick Xian et al., "Assessing biomedical knowledge robustness in large language
models by query-efficient sampling attacks", TMLR, 2025: the method requires only that h >= 0.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np

from medstress.core.errors import UsageError, did_you_mean
from medstress.core.functions import describe_error, load_function, source_hashes
from medstress.core.hashing import content_hash
from medstress.entities.groups import types_of
from medstress.entities.names import normalise, word_set
from medstress.entities.vocabularies import shipped_hash, shipped_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from medstress.entities.embeddings import NameVectors
    from medstress.entities.encoders import Progress

    Floats = NDArray[np.float64]
    Indices = NDArray[np.int64]

NAMED = ("cosine", "euclidean", "mondo", "mesh")
"""Built-in distances; any other is a user's function."""

DUPLICATE = 1e-9
"""A name with a smaller distance to the key's text counts as the key itself."""

_CACHE_BYTES = 20 << 20
"""Memory for cached rows of distances."""


def cached_rows(compute: Callable[[str], Floats], n_names: int) -> Callable[[str], Floats]:
    """Return a function of an anchor that keeps its last rows, read-only and of bounded size."""

    @lru_cache(maxsize=max(_CACHE_BYTES // (8 * n_names), 1))
    def row(anchor: str) -> Floats:
        distances = compute(anchor)
        distances.setflags(write=False)
        return distances

    return row


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


class VectorDistance(Distance):
    """h = 1 - cos, Xian et al. (2025); or h = |u - v| of the unit vectors, sqrt(2 (1 - cos)).

    Both rank names alike.
    """

    lack = "without a vector"

    def __init__(self, vectors: NameVectors, identity: str) -> None:
        """Take `cosine` or `euclidean`."""
        self._vectors, self.identity = vectors, identity
        self._is_euclidean = identity == "euclidean"

    def prepare(
        self, anchors: Iterable[str], texts: Iterable[str], progress: Progress | None
    ) -> None:
        """Embed names, anchors and texts."""
        self._vectors.prepare(anchors, texts, progress)

    def to_names(self, anchor: str) -> Floats:
        """By the vectors of anchor and names."""
        distances = self._vectors.distances(anchor)
        return np.sqrt(2 * distances) if self._is_euclidean else distances

    def to_text(self, anchor: str, text: str) -> float:
        """By the vectors of anchor and text."""
        distance = self._vectors.distance(anchor, text)
        return math.sqrt(2 * distance) if self._is_euclidean else distance

    def duplicates(self, anchor: str) -> Indices:
        """Names with 1 - cos below `DUPLICATE`."""
        with np.errstate(invalid="ignore"):
            return np.flatnonzero(self._vectors.distances(anchor) < DUPLICATE)

    def undefined(self) -> Indices:
        """Names whose vector is zero."""
        return np.flatnonzero(self._vectors.lengths == 0)


# -- path lengths in the shipped disease hierarchies ----------------------------------------------
OntologyName = Literal["mondo", "mesh"]
TITLES: dict[OntologyName, str] = {"mondo": "MONDO", "mesh": "MeSH"}

_ROOT = "0700096"
"""MONDO's class of human diseases; serves as the root above all trees of MeSH too."""


class Ontology:
    """A hierarchy of diseases as an undirected graph, with the names of its nodes.

    Immutable once built, so threads may share it.
    """

    def __init__(
        self,
        title: str,
        hash: str,  # noqa: A002
        parents: Mapping[str, Iterable[str]],
        names: Iterable[tuple[str, Sequence[str]]],
    ) -> None:
        """Build the graph.

        Args:
            title: its name in messages.
            hash: content hash of its source.
            parents: the parent nodes of each node.
            names: a name and the nodes it means; a name may be repeated.
        """
        from scipy.sparse import csr_array

        self.title = title
        self.hash = hash
        nodes = sorted({*parents, *(p for above in parents.values() for p in above)})
        number = {node: i for i, node in enumerate(nodes)}
        pairs = [(number[node], number[p]) for node, above in parents.items() for p in above]
        ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        both = (np.concatenate([ends[:, 0], ends[:, 1]]), np.concatenate([ends[:, 1], ends[:, 0]]))
        ones = np.ones(len(both[0]), dtype=np.float32)
        self._graph = csr_array((ones, both), shape=(len(nodes), len(nodes)))
        self._places: dict[str, tuple[int, ...]] = {}
        for name, of_name in names:
            normal, own = normalise(name), tuple(number[n] for n in of_name if n in number)
            if normal and own:
                self._places[normal] = tuple(sorted({*self._places.get(normal, ()), *own}))

    def places(self, name: str) -> tuple[int, ...]:
        """Return the nodes a name means; empty if the hierarchy lacks it.

        The name is looked up after `normalise`, then by its set of words, so that "Diabetes
        mellitus, type 2" is found as "type 2 diabetes mellitus".
        """
        nodes = self._places.get(normalise(name))
        return self._by_words.get(word_set(name), ()) if nodes is None else nodes

    def steps(self, sources: Sequence[int]) -> NDArray[np.float64]:
        """Return the number of edges from each node to the nearest source, shape (n_nodes,).

        The search is breadth-first from all sources at once; nan: no path.
        """
        distance = np.full(self._graph.shape[0], np.nan)
        reached = np.zeros(len(distance), dtype=np.float32)
        reached[list(sources)] = 1
        new = reached > 0
        step = 0
        while new.any():
            distance[new] = step
            new = (self._graph @ new.astype(np.float32) > 0) & np.isnan(distance)
            step += 1
        return distance

    @cached_property
    def _by_words(self) -> dict[frozenset[str], tuple[int, ...]]:
        index: dict[frozenset[str], tuple[int, ...]] = {}
        for name, places in self._places.items():
            if key := word_set(name):
                index[key] = tuple(sorted({*index.get(key, ()), *places}))
        return index


@cache
def load_ontology(name: OntologyName) -> Ontology:
    """Return a shipped hierarchy.

    `mondo`: the human diseases of the MONDO release named in PROVENANCE.md, with edges to direct
    parents (is_a, and the few part_of). `mesh`: headings with tree numbers below C (diseases) and
    F03 (mental disorders), see `parent_headings`. Names come from the shipped disease table.

    References:
        R. Rada et al., "Development and application of a metric on semantic nets", IEEE Trans.
        Syst. Man Cybern. 19(1), 1989: distance as the shortest path of is-a links, there in MeSH.

    >>> mesh = load_ontology("mesh")
    >>> steps = mesh.steps(mesh.places("asthma"))
    >>> [float(min(steps[list(mesh.places(name))])) for name in ("Asthma", "status asthmaticus")]
    [0.0, 1.0]
    """
    rows = list(shipped_rows(name))
    tables = [shipped_hash(table) for table in (name, "diseases")]
    if name == "mondo":
        parents: dict[str, set[str]] = {row[0]: set(row[1].split()) for row in rows}
        nodes = {f"MONDO:{row[0]}" if row[2] == "=" else row[2]: [row[0]] for row in rows}
    else:
        # A graph of tree numbers, made of the same table, would give other distances.
        tables.append("headings")
        parents = parent_headings(rows)
        nodes = {heading: [heading] for heading, _ in rows}
    names = ((row[1], nodes[row[0]]) for row in shipped_rows("diseases") if row[0] in nodes)
    return Ontology(TITLES[name], content_hash(tables), parents, names)


def parent_headings(rows: Iterable[Sequence[str]]) -> dict[str, set[str]]:
    """Return the parents of each MeSH heading, by any of its tree numbers.

    A heading is one node whatever its tree numbers, so a path may enter by one and leave by
    another. The trees share one root. A prefix that belongs to no heading is a node too.

    Args:
        rows: a heading and its tree numbers, separated by spaces.

    >>> above = parent_headings([("a", "C01"), ("b", "C02"), ("x", "C01.1 C02.5")])
    >>> sorted(above["x"])
    ['a', 'b']
    """
    heading = {tree: key for key, trees in rows for tree in trees.split()}
    above: dict[str, set[str]] = {}
    waiting = list(heading)
    while waiting:
        tree = waiting.pop()
        prefix = tree.rpartition(".")[0]
        above.setdefault(heading.get(tree, tree), set()).add(heading.get(prefix, prefix) or _ROOT)
        if prefix and prefix not in heading:
            waiting.append(prefix)
    return above


class PathLength(Distance):
    """h = number of edges on the shortest path between the concepts of two names in a hierarchy.

    If a name means several concepts, the nearest pair counts. Names of one concept have h = 0:
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
        self._inside = np.array([i for i, nodes in enumerate(places) if nodes], dtype=np.int64)
        sizes = [len(nodes) for nodes in places if nodes]
        self._starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        self._flat = np.array([node for nodes in places for node in nodes], dtype=np.int64)
        self._row = cached_rows(self._edges, len(names))

    def to_names(self, anchor: str) -> Floats:
        """Edges between anchor and name."""
        return self._row(anchor)

    def _edges(self, anchor: str) -> Floats:
        edges, sources = np.full(self._n_names, np.nan), self._ontology.places(anchor)
        if sources and len(self._inside):
            steps = self._ontology.steps(sources)[self._flat]
            edges[self._inside] = np.fmin.reduceat(steps, self._starts)
        return edges

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
        self._row = cached_rows(lambda anchor: self._call(anchor, self._names), len(names))
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
        return self._row(anchor)

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
    if distance in ("cosine", "euclidean"):
        return VectorDistance(vectors, distance)
    if distance == "mondo" or distance == "mesh":
        return PathLength(load_ontology(distance), names)
    function, loaded = load_function(distance, base, "distance")
    hashes = source_hashes(function, loaded)
    if not hashes:
        raise UsageError(
            f"distance {distance!r} has no source file to hash; define the function in a .py file"
        )
    return FunctionDistance(function, distance, hashes, names)
