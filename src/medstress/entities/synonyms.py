"""Synonyms: names of one concept, such as a generic drug and its brands."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash, file_hash
from medstress.entities.names import normalise
from medstress.entities.synonym_files import is_mrconso, is_obo, mrconso_rows, obo_rows
from medstress.entities.tables import (
    SHIPPED,
    column_of,
    existing_file,
    is_delimited,
    read_rows,
    shipped_bytes,
    shipped_rows,
)


class SynonymGroups:
    """Tells which names share a concept; immutable once built.

    Attributes:
        label: the user's name for the source.
        hash: content hash of the source.
    """

    def __init__(self, label: str, hash: str, rows: Iterable[tuple[str, str]]) -> None:  # noqa: A002
        """Group names by concept; `rows` yields (concept, name)."""
        self.label = label
        self.hash = hash
        self._names: dict[str, list[str]] = {}
        # Nearly every name has one concept, and making a set for each of 100,000 names would take
        # most of the loading time.
        self._concept: dict[str, str] = {}
        self._further: dict[str, set[str]] = {}
        for concept, name in rows:
            normal = normalise(name)
            if not normal:
                continue
            self._names.setdefault(concept, []).append(normal)
            if self._concept.setdefault(normal, concept) != concept:
                self._further.setdefault(normal, set()).add(concept)

    def synonyms_of(self, name: str) -> frozenset[str]:
        """Return the other names of all concepts that `name` belongs to, normalised.

        >>> rows = [("1", "Paracetamol"), ("1", "Acetaminophen"), ("2", "Aspirin")]
        >>> sorted(SynonymGroups("mine", "", rows).synonyms_of("paracetamol"))
        ['acetaminophen']
        """
        normal = normalise(name)
        concepts = self.concepts_of(name)
        return frozenset().union(*(self._names[concept] for concept in concepts)) - {normal}

    def concepts_of(self, name: str) -> frozenset[str]:
        """Return the concepts that a name belongs to; empty if it is not listed."""
        normal = normalise(name)
        if normal not in self._concept:
            return frozenset()
        return frozenset({self._concept[normal], *self._further.get(normal, ())})


def load_synonyms(source: str, base: Path, needed: Collection[str] | None = None) -> SynonymGroups:
    """Load synonym groups.

    Args:
        source: ``default`` (the shipped drug and disease tables; names of one UNII or one
            disease heading are synonyms), ``none``, or a path: a .csv or .tsv table with the
            columns ``concept`` and ``name``, UMLS' MRCONSO.RRF, or an OBO file.
        base: folder that a relative path starts from.
        needed: the names that will be looked up; from MRCONSO.RRF, which has millions, only their
            concepts are loaded. None: all.

    Raises:
        UsageError: the file is missing, empty, malformed or lacks a column.
    """
    label, hash_, rows = concept_rows(source, base, needed)
    return _shipped() if label == "default" else SynonymGroups(label, hash_, rows)


def concept_rows(
    source: str, base: Path, needed: Collection[str] | None = None
) -> tuple[str, str, Iterable[tuple[str, str]]]:
    """Return a synonym source's label, content hash and (concept, name) rows.

    Names are as written, and those of a concept keep the source's order. Arguments and errors are
    those of `load_synonyms`.
    """
    if source == "none":
        return "none", content_hash("none"), ()
    if source == "default":
        tables = [shipped_bytes(table).hex() for table in SHIPPED]
        return "default", content_hash(tables), _shipped_rows()
    what = f"synonyms {source!r}"
    path = base / Path(source).expanduser()
    advice = (
        "give 'default', 'none', a .csv or .tsv table with the columns concept, name, "
        "UMLS' MRCONSO.RRF or an .obo file"
    )
    existing_file(path, what, advice)
    if is_mrconso(path):
        return source, file_hash(path), mrconso_rows(path, needed)
    if is_obo(path):
        return source, file_hash(path), obo_rows(path)
    if not is_delimited(path):
        raise UsageError(f"{what}: cannot tell what kind of file {path} is; {advice}")
    return source, file_hash(path), _table_rows(path, what)


def _table_rows(path: Path, what: str) -> list[tuple[str, str]]:
    rows = [row for _, row in read_rows(path, what)]
    if len(rows) < 2:
        raise UsageError(f"{what}: expected at least one row under the header, got none in {path}")
    concept, name = column_of(rows[0], "concept"), column_of(rows[0], "name")
    if concept is None or name is None:
        columns = ", ".join(repr(field) for field in rows[0])
        raise UsageError(
            f"{what}: expected the columns 'concept' and 'name', got {columns} in the first line "
            f"of {path}; rename the columns"
        )
    return [(row[concept].strip(), row[name]) for row in rows[1:] if row[concept].strip()]


def _shipped_rows() -> Iterable[tuple[str, str]]:
    return (
        (f"{table}:{concept}", name)
        for table in SHIPPED
        for concept, name, _, _ in shipped_rows(table)
    )


@cache
def _shipped() -> SynonymGroups:
    return SynonymGroups(*concept_rows("default", Path()))
