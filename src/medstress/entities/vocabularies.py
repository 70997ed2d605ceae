"""Names on disk: shipped tables, users' files, vocabularies, synonyms, and the lexicon of noise.

Synonyms are names of one concept, from tables, UMLS (MRCONSO.RRF) and OBO files.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from medstress.core.errors import DataError, UsageError, did_you_mean
from medstress.core.hashing import content_hash, file_hash
from medstress.core.resources import folded as comparable
from medstress.core.sentences import OUTSIDE
from medstress.core.tables import (
    ENDINGS,
    Row,
    Table,
    columns_of,
    cut_names,
    read_decoded,
    read_table,
)
from medstress.core.text import tokenise
from medstress.entities.names import first_form, normalise

SHIPPED = ("drugs", "diseases")
"""The shipped tables: columns concept, name, kind, candidate, case (how a text must write the name:
0 anyhow, 1 capitalised, 2 in capitals) and first (its first word as it is compared, where that is
another one); several rows per concept."""
DRUG_NAMES = "drug_names"
"""The shipped table of drug names: columns name, kind, source, ingredients (joined by a bar)."""


def _shipped_bytes(table: str) -> bytes:
    return (files("medstress.entities") / "data" / f"{table}.tsv.gz").read_bytes()


@cache
def shipped_hash(table: str) -> str:
    """Return the content hash of a shipped table."""
    return content_hash(_shipped_bytes(table).hex())


@cache
def shipped_lines(table: str) -> Sequence[str]:
    """Return the lines of a shipped table."""
    return gzip.decompress(_shipped_bytes(table)).decode("utf-8").split("\n")[1:-1]


def shipped_rows(table: str) -> Iterator[list[str]]:
    """Return the rows of a shipped table."""
    return (line.split("\t") for line in shipped_lines(table))


@cache
def places_by_first_word(table: str) -> Mapping[str, Sequence[int]]:
    """Return the lines of one of `SHIPPED` by the first word of their names, as it is compared.

    A text has few of these words, so most lines stay unread.
    """
    by_word = defaultdict[str, list[int]](list)
    for place, line in enumerate(shipped_lines(table)):
        _, name, _, _, _, first = line.split("\t")
        by_word[first or name.partition(" ")[0]].append(place)
    return by_word


def lines_of_word(table: str, first: str) -> Iterator[str]:
    """Yield the lines whose names begin with a word, as it is compared."""
    lines = shipped_lines(table)
    return (lines[place] for place in places_by_first_word(table).get(first, ()))


@cache
def _candidates(table: str) -> Vocabulary:
    rows = (line.split("\t", 4) for line in shipped_lines(table) if "\t1\t" in line)
    return vocabulary_of(table, [row[1] for row in rows if row[3] == "1"])


@cache
def name_rules() -> Mapping[str, Mapping[str, str]]:
    """Return the lists of `name_rules.tsv`: kind -> text -> value, empty where a kind has none."""
    rules: dict[str, dict[str, str]] = {}
    text = (files("medstress.entities") / "data" / "name_rules.tsv").read_text("utf-8")
    for line in text.splitlines()[1:]:
        kind, entry, value = line.split("\t")
        rules.setdefault(kind, {})[entry] = value
    return rules


def existing_file(path: Path, what: str, advice: str) -> None:
    """Refuse a path that is not a file.

    Raises:
        UsageError: the path is not a file; the message has `what`, the path and `advice`.
    """
    if not path.is_file():
        kind = "a folder, not a file" if path.is_dir() else "no such file"
        raise UsageError(f"{what}: {kind} at {path}; {advice}")


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    """Say what a file is for that holds no good data."""
    try:
        yield
    except DataError as error:
        raise UsageError(f"{what}: {error}") from error


def read_lines(path: Path, what: str) -> list[str]:
    """Return the lines of a text file.

    Raises:
        UsageError: it cannot be read as text; the message has `what`.
    """
    with _refusing(what):
        return read_decoded(path)[0].split("\n")


def read_columns(
    path: Path, what: str, names: Sequence[str], advice: str = "rename a column"
) -> list[tuple[str, ...]]:
    """Return the cells of named columns of a table, as texts; empty where there is none.

    Args:
        path: the file.
        what: the key and value that name it, for messages.
        names: of the columns, in lower case; the file may write them in any case.
        advice: what to do where one is missing.

    Raises:
        UsageError: the table cannot be read, or lacks a column.
    """
    with _refusing(what):
        table = read_table(path)
    places = {column.strip().casefold(): column for column in columns_of(table.good)}
    if missing := [name for name in names if name not in places and table.good]:
        got = cut_names(map(repr, places.values()))
        raise UsageError(f"{what}: expected a column {missing[0]!r}, got {got} in {path}; {advice}")
    return [
        tuple("" if row[places[name]] is None else str(row[places[name]]) for name in names)
        for row in _rows(table, what)
    ]


def _rows(table: Table, what: str) -> Iterator[Row]:
    """Yield the rows of a table; a bad one is refused."""
    for place, row in table.rows:
        if isinstance(row, DataError):
            raise UsageError(f"{what}: {table.path}, {place}: {row}")
        yield row


@dataclass(frozen=True, slots=True)
class NamePairs:
    """Pairs of names that a file lists."""

    rows: tuple[tuple[str, str], ...]
    """The pairs, as written."""

    @property
    def hash(self) -> str:
        """Content hash of the pairs."""
        return content_hash([list(row) for row in self.rows])


def read_name_pairs(path: Path, what: str, columns: tuple[str, str]) -> NamePairs:
    """Read two columns of a CSV or TSV file with a header.

    Args:
        path: the file.
        what: the key and value that name it, for messages.
        columns: the names of the two columns, in lower case.

    Raises:
        UsageError: there is no such file, it is no table, or it lacks a column, a name or rows.
    """
    advice = f"give a .csv or .tsv table with the columns {' and '.join(columns)}"
    existing_file(path, what, advice)
    rows = [(a.strip(), b.strip()) for a, b in read_columns(path, what, columns, advice)]
    for number, row in enumerate(rows, start=2):
        if not all(row):
            raise UsageError(f"{what}: row {number} of {path} lacks a name; {advice}")
    if not any(comparable(first) != comparable(second) for first, second in rows):
        raise UsageError(
            f"{what}: expected at least one pair of different names under the header of {path}"
        )
    return NamePairs(tuple(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """An ordered list of distinct names."""

    label: str
    """The user's name for it, a built-in name or a path, for tables and messages."""
    names: tuple[str, ...]
    """Stripped, not blank, distinct ignoring case; in the source's order."""
    hash: str
    """Content hash of `names`."""


def vocabulary_of(label: str, names: Iterable[str]) -> Vocabulary:
    """Make a vocabulary: strip names, drop blanks, keep the first of those that differ in case.

    Raises:
        UsageError: no name is left.

    >>> vocabulary_of("mine", ["Aspirin ", "", "aspirin", "ibuprofen"]).names
    ('Aspirin', 'ibuprofen')
    """
    distinct: dict[str, str] = {}
    for name in names:
        if stripped := name.strip():
            distinct.setdefault(stripped.casefold(), stripped)
    kept = tuple(distinct.values())
    if not kept:
        raise UsageError(f"vocabulary {label!r} is empty; expected at least one name")
    return Vocabulary(label=label, names=kept, hash=content_hash(list(kept)))


def load_vocabulary(source: str, base: Path, column: int | None = None) -> Vocabulary:
    """Load a vocabulary.

    Args:
        source: a built-in name, ``drugs`` or ``diseases``, or a path: a table (.csv, .tsv,
            .parquet) with a column ``name``, or a text file with one name per line. Write
            ``./drugs`` for a file with the name of a built-in.
        base: folder that a relative path starts from.
        column: position, from 0, of the names in a .csv or .tsv table *without* a header.

    Raises:
        UsageError: the source is missing, empty, or not laid out as described.
    """
    if source in SHIPPED:
        if column is not None:
            raise UsageError(
                f"vocabulary {source!r}: key 'column' is for a .csv or .tsv table without a "
                "header, not for a built-in vocabulary; remove it"
            )
        return _candidates(source)
    what = f"vocabulary {source!r}"
    path = base / Path(source).expanduser()
    hint = did_you_mean(source, SHIPPED)
    existing_file(path, what, f"give a path or one of {', '.join(SHIPPED)}{hint}")
    if path.suffix.lower() not in ENDINGS:
        if column is not None:
            raise UsageError(
                f"{what}: key 'column' is for a .csv or .tsv table without a header, got {path}; "
                "remove it"
            )
        return vocabulary_of(source, read_lines(path, what))
    if column is None:
        advice = "rename a column or, without a header, give the place of the names: column = 0"
        return vocabulary_of(
            source, (name for (name,) in read_columns(path, what, ["name"], advice))
        )
    with _refusing(what):
        table = read_table(path, has_header=False)
    columns = columns_of(table.good)
    if not 0 <= column < len(columns):
        raise UsageError(
            f"{what}: expected column = 0 to {len(columns) - 1} (counted from 0), got {column} for "
            f"{path}"
        )
    return vocabulary_of(source, (str(row[columns[column]] or "") for row in _rows(table, what)))


ONE_IN = 2280
"""A word that is in no entity or vocabulary counts if at least one in this many sentences has it;
a share, so that the strength of noise does not depend on the size of the corpus. Fitted by
`data/build/fit_noise_lexicon.py`: two of the 4,560 sentences of the train split of BC5CDR-chemical,
where swap noise then changes the share of O tokens nearest to the published 31 %."""


def noise_lexicon(
    sentences: Iterable[tuple[Sequence[str], Sequence[str]]], one_in: float = ONE_IN
) -> frozenset[str]:
    """Return the lexicon of a corpus, in lower case: medical words, which noise may perturb.

    The published lexicon holds the mentions that a scispaCy pipeline finds in the corpus (METHODS
    4.2). This one needs no model. It holds the words of gold entities, of the drug and disease
    vocabularies, and all words that occur in enough sentences, without a list of general words.

    Args:
        sentences: (tokens, IOB2 labels) of the whole corpus.
        one_in: a word of no entity or vocabulary must be in at least one of so many sentences.
    """
    counts: Counter[str] = Counter()
    gold: set[str] = set()
    n = 0
    for tokens, labels in sentences:
        n += 1
        lowered = [token.lower() for token in tokens]
        counts.update(set(lowered))
        gold.update(token for token, label in zip(lowered, labels, strict=True) if label != OUTSIDE)
    frequent = (word for word, count in counts.items() if count >= n / one_in)
    words = gold.union(_vocabulary_words(), frequent) - stop_words()
    return frozenset(word for word in words if any(map(str.isalpha, word)))


@cache
def stop_words() -> frozenset[str]:
    """Return general English words and the common words of scientific abstracts."""
    text = (files("medstress.entities") / "data" / "stop_words.txt").read_text("utf-8")
    return frozenset(text.split())


@cache
def _vocabulary_words() -> frozenset[str]:
    """Return the words of the names in the built-in vocabularies."""
    names = "\n".join(name for table in SHIPPED for name in load_vocabulary(table, Path()).names)
    return frozenset(token.lower() for token in set(tokenise(names)))


# -- synonyms --------------------------------------------------------------------------------------

_MRCONSO_FIELDS = 18
_CUI, _LANGUAGE, _NAME, _SUPPRESS = 0, 1, 14, 16
_PREFERRED = ((2, "P"), (4, "PF"), (6, "Y"))
"""Fields and values (TS, STT, ISPREF) of the preferred name of a concept in its language."""

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"\s*([A-Z]+)?')
_MAX_LINE = 100_000
"""Most bytes of a line; the longest of published ontologies and word vectors have thousands."""
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
                quoted = _QUOTED.match(value.strip())
                if quoted is None:
                    raise _malformed(path, number, "a synonym in double quotes", line)
                if tag == "exact_synonym" or quoted[2] == "EXACT":
                    term.setdefault("name", []).append(_ESCAPE.sub(r"\1", quoted[1]))
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


def packed_lines(path: Path, what: str) -> Iterator[tuple[int, bytes, float]]:
    """Yield number, content and share of the file read of each line with content; unpacks .gz.

    Raises:
        UsageError: the file cannot be read, or has no line with content.
    """
    number = 0
    try:
        size = max(path.stat().st_size, 1)
        with path.open("rb") as raw:
            stream = gzip.GzipFile(fileobj=raw) if path.suffix.lower() == ".gz" else raw
            for number, line in enumerate(iter(partial(stream.readline, _MAX_LINE), b""), start=1):
                if len(line) == _MAX_LINE:
                    raise OSError(f"line {number} is longer than {_MAX_LINE:,} bytes")
                if text := line.strip(b" \t\r\n"):
                    yield number, text, raw.tell() / size
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{what}: {path} cannot be read ({error}); give another file") from error
    if number == 0:
        raise UsageError(f"{what}: {path} is empty; give another file")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    for number, line, _ in packed_lines(path, "synonyms"):
        try:
            yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(
                f"synonyms: {path}:{number}: expected UTF-8 text, but it cannot be decoded "
                f"({error}); save it as UTF-8"
            ) from error


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
    return (
        shipped_synonyms()
        if source == "default"
        else SynonymGroups(*concept_rows(source, base, needed))
    )


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
        return "default", content_hash([*map(shipped_hash, SHIPPED)]), _shipped_concepts(needed)
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
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(f"{what}: cannot tell what kind of file {path} is; {advice}")
    cells = read_columns(path, what, ["concept", "name"])
    named = [(concept.strip(), name) for concept, name in cells if concept.strip()]
    return source, file_hash(path), named


def _shipped_concepts(needed: Collection[str] | None) -> Iterator[tuple[str, str]]:
    """Yield the rows of the shipped concepts, of all or of those with a needed name."""
    for table in SHIPPED:
        for line in shipped_lines(table) if needed is None else _lines_of_concepts(table, needed):
            concept, name, _ = line.split("\t", 2)
            yield f"{table}:{concept}", name


def _lines_of_concepts(table: str, needed: Collection[str]) -> Iterator[str]:
    """Yield the lines of the concepts with a needed name; those of a concept follow each other."""
    normal = set(map(normalise, needed))
    by_word, lines = places_by_first_word(table) if normal else {}, shipped_lines(table)
    # Names that are equal once normalised have the same first word.
    places = {place for word in map(first_form, normal) for place in by_word.get(word, ())}
    end = 0
    for place in sorted(places):
        concept, name, _ = lines[place].split("\t", 2)
        if place < end or normalise(name) not in normal:
            continue
        start, end = place, place + 1
        while start and lines[start - 1].startswith(f"{concept}\t"):
            start -= 1
        while end < len(lines) and lines[end].startswith(f"{concept}\t"):
            end += 1
        yield from lines[start:end]


@cache
def shipped_synonyms() -> SynonymGroups:
    """Return the synonyms of both shipped tables."""
    return SynonymGroups(*concept_rows("default", Path()))
