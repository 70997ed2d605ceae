"""Synonyms: names of one concept, from tables, UMLS (MRCONSO.RRF) and OBO files."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from functools import cache, partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash, file_hash
from medstress.entities.names import normalise
from medstress.entities.vocabularies import (
    SHIPPED,
    existing_file,
    is_delimited,
    read_columns,
    shipped_hash,
    shipped_rows,
)

_MRCONSO_FIELDS = 18
_CUI, _LANGUAGE, _NAME, _SUPPRESS = 0, 1, 14, 16
_PREFERRED = ((2, "P"), (4, "PF"), (6, "Y"))
"""Fields and values (TS, STT, ISPREF) of the preferred name of a concept in its language."""

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"\s*([A-Z]+)?')
_MAX_LINE = 100_000
"""Most bytes of a line; the longest lines of published ontologies have a few thousand."""
_BLANKS = re.compile(r"[ \t]{2,}")
_MODIFIERS = re.compile(r"\s*(?<!\\)(\{[^{}]*\}\s*)?(?<!\\)(!.*)?$")
_ESCAPE = re.compile(r"\\(.)")


def mrconso_rows(path: Path, needed: Collection[str] | None = None) -> Iterator[tuple[str, str]]:
    """Yield (concept, name) for the English names of UMLS concepts, the preferred ones first.

    Names that UMLS marks as suppressed (obsolete, or ambiguous outside their source) are left
    out. With `needed`, the file of some gigabytes is read twice: for the concepts, then for their
    names.

    Args:
        path: MRCONSO.RRF, 18 fields per line, each ended by a bar.
        needed: only concepts with one of these names, after `normalise`; None: all.

    Raises:
        UsageError: a line is malformed; names file and line.
    """
    if needed is None:
        yield from _mrconso(path)
        return
    wanted = {normalise(name) for name in needed}
    concepts = {concept for concept, name in _mrconso(path) if normalise(name) in wanted}
    yield from ((concept, name) for concept, name in _mrconso(path) if concept in concepts)


def obo_rows(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (concept, name) for the names and exact synonyms of the terms of an OBO file.

    Synonyms of other scopes (broad, narrow, related) mean something else, and are left out, as are
    obsolete terms.

    Raises:
        UsageError: a line is malformed; names file and line.
    """
    term: dict[str, list[str]] | None = None
    for number, line in _lines(path):
        if line.startswith("["):
            yield from _named(term)
            term = {} if line == "[Term]" else None
        elif term is not None and line and not line.startswith("!"):
            tag, colon, value = line.partition(":")
            if not colon:
                raise _malformed(path, number, "a line 'tag: value'", line)
            if tag in ("id", "is_obsolete"):
                term.setdefault(tag, []).append(_plain(value))
            elif tag == "name":
                term.setdefault(tag, []).insert(0, _plain(value))
            elif tag in ("synonym", "exact_synonym"):
                found = _QUOTED.match(value.strip())
                if found is None:
                    raise _malformed(path, number, "a synonym in double quotes", line)
                if tag == "exact_synonym" or found[2] == "EXACT":
                    term.setdefault("name", []).append(_ESCAPE.sub(r"\1", found[1]))
    yield from _named(term)


def _mrconso(path: Path) -> Iterator[tuple[str, str]]:
    # The lines of a concept stand together.
    for concept, lines in groupby(_english(path), itemgetter(_CUI)):
        for fields in sorted(lines, key=lambda f: any(f[i] != value for i, value in _PREFERRED)):
            yield concept, fields[_NAME]


def _english(path: Path) -> Iterator[list[str]]:
    for number, line in _lines(path):
        fields = line.split("|")
        if len(fields) != _MRCONSO_FIELDS + 1 or not fields[_CUI]:
            raise _malformed(path, number, f"{_MRCONSO_FIELDS} fields, each ended by a bar", line)
        if fields[_LANGUAGE] == "ENG" and fields[_SUPPRESS] == "N":
            yield fields


def _named(term: dict[str, list[str]] | None) -> Iterator[tuple[str, str]]:
    if term and "id" in term and term.get("is_obsolete") != ["true"]:
        for name in term.get("name", ()):
            yield term["id"][0], name


def _plain(value: str) -> str:
    """Return a value without trailing modifiers (in braces) and comment."""
    return _ESCAPE.sub(r"\1", _MODIFIERS.sub("", _BLANKS.sub(" ", value.strip())))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    number = 0
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as stream:
            for number, line in enumerate(iter(partial(stream.readline, _MAX_LINE), b""), start=1):
                if len(line) == _MAX_LINE:
                    raise OSError(f"line {number} is longer than {_MAX_LINE:,} bytes")
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                if text:
                    yield number, text
    except UnicodeDecodeError as error:
        raise UsageError(
            f"synonyms: {path}:{number}: expected UTF-8 text, but it cannot be decoded ({error}); "
            "save it as UTF-8"
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"synonyms: {path} cannot be read ({error}); give another file") from error
    if number == 0:
        raise UsageError(
            f"synonyms: {path} is empty; expected lines of MRCONSO.RRF or of an OBO ontology: "
            "give another file"
        )


def _malformed(path: Path, number: int, expected: str, line: str) -> UsageError:
    return UsageError(
        f"synonyms: {path}:{number}: expected {expected}, got {line[:60]!r}; fix the line"
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
        needed: the names that will be looked up: only their concepts are loaded, from
            MRCONSO.RRF, which has millions, and for `concept_rows` from the shipped tables. None:
            all.

    Raises:
        UsageError: the file is missing, empty, malformed or lacks a column.
    """
    return _shipped() if source == "default" else SynonymGroups(*concept_rows(source, base, needed))


def concept_rows(
    source: str, base: Path, needed: Collection[str] | None = None
) -> tuple[str, str, Iterable[tuple[str, str]]]:
    """Return a synonym source's label, content hash and (concept, name) rows.

    Names are as written, and those of a concept keep the source's order; the first is its preferred
    one. Arguments and errors are those of `load_synonyms`.
    """
    if source == "none":
        return "none", content_hash("none"), ()
    if source == "default":
        rows: Iterable[tuple[str, str]] = (
            (f"{t}:{row[0]}", row[1]) for t in SHIPPED for row in shipped_rows(t)
        )
        if needed is not None:
            rows = _of_needed([*rows], {normalise(name) for name in needed})
        return "default", content_hash([*map(shipped_hash, SHIPPED)]), rows
    what = f"synonyms {source!r}"
    path = base / Path(source).expanduser()
    advice = (
        "give 'default', 'none', a .csv or .tsv table with the columns concept, name, "
        "UMLS' MRCONSO.RRF or an .obo file"
    )
    existing_file(path, what, advice)
    kind = path.name.lower().removesuffix(".gz")
    if kind.endswith(".rrf"):
        return source, file_hash(path), mrconso_rows(path, needed)
    if kind.endswith(".obo"):
        return source, file_hash(path), obo_rows(path)
    if not is_delimited(path):
        raise UsageError(f"{what}: cannot tell what kind of file {path} is; {advice}")
    return source, file_hash(path), _table_rows(path, what)


def _of_needed(rows: Sequence[tuple[str, str]], needed: Set[str]) -> Iterator[tuple[str, str]]:
    """Return the rows of the shipped concepts with one of some normalised names."""
    # Normalising all names would take most of the time: plain letters stay as they are.
    begins = {name[:3] for name in needed}
    concepts = {
        concept
        for concept, name in rows
        if (name[:3] in begins or not name[:3].isascii() or not name[:3].isalnum())
        and normalise(name) in needed
    }
    return ((concept, name) for concept, name in rows if concept in concepts)


def _table_rows(path: Path, what: str) -> list[tuple[str, str]]:
    rows = read_columns(path, what, ["concept", "name"])
    if not rows:
        raise UsageError(f"{what}: expected at least one row under the header, got none in {path}")
    return [(concept.strip(), name) for concept, name in rows if concept.strip()]


@cache
def _shipped() -> SynonymGroups:
    return SynonymGroups(*concept_rows("default", Path()))
