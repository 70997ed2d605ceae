"""The shipped disease hierarchies as graphs: MONDO's diseases and MeSH's headings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from medstress.core.hashing import content_hash
from medstress.entities.names import normalise, word_set
from medstress.entities.vocabularies import shipped_bytes, shipped_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
            names: a name and the nodes it stands for; a name may be repeated.
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
        for name, found in names:
            normal, known = normalise(name), tuple(number[n] for n in found if n in number)
            if normal and known:
                self._places[normal] = tuple(sorted({*self._places.get(normal, ()), *known}))

    def places(self, name: str) -> tuple[int, ...]:
        """Return the nodes a name stands for; empty if the hierarchy lacks it.

        The name is looked up after `normalise`, then by its set of words, so that "Diabetes
        mellitus, type 2" is found as "type 2 diabetes mellitus".
        """
        found = self._places.get(normalise(name))
        return self._by_words.get(word_set(name), ()) if found is None else found

    def steps(self, sources: Sequence[int]) -> NDArray[np.float64]:
        """Return the number of edges from each node to the nearest source, shape (n_nodes,).

        The search is breadth-first from all sources at once; nan: no path.
        """
        found = np.full(self._graph.shape[0], np.nan)
        reached = np.zeros(len(found), dtype=np.float32)
        reached[list(sources)] = 1
        new = reached > 0
        step = 0
        while new.any():
            found[new] = step
            new = (self._graph @ new.astype(np.float32) > 0) & np.isnan(found)
            step += 1
        return found

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
    tables = [shipped_bytes(table).hex() for table in (name, "diseases")]
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
