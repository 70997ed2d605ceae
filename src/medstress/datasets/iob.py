"""Tagged sentences in IOB or CoNLL files: one token and its label per line, empty lines between.

Or rows of a table (.jsonl, .json, .parquet): `tokens` with `labels`, `ner_tags` or `tags` (names,
or positions in the list of names that the file declares), optionally `id`, and `document_id` or
`document`.

Tabs separate the columns, or spaces in a line without tabs. The first column is the token, the last
one the label; columns between (parts of speech, chunks) are ignored. A line `-DOCSTART-` begins a
new document; `documents` names a PubTator file to look documents up in instead. A line that begins
with `#` is a token if it has as many columns as the other lines and ends in a label, else a
comment. Labels are IOB2 (every entity begins with B-) unless `scheme` says otherwise, and are
converted to IOB2. Sentences are numbered from 1; the number is the id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medstress.core.errors import DataError
from medstress.core.label_schemes import SCHEMES, Scheme, check_scheme, read_labels, type_of
from medstress.core.sentences import OUTSIDE, TaggedText
from medstress.datasets.known_documents import with_documents
from medstress.datasets.label_types import with_types
from medstress.datasets.source import (
    DatasetOptions,
    LoadedTexts,
    check_keys,
    collect,
    hash_files,
    required_file,
)
from medstress.datasets.tables.reading import read_table
from medstress.datasets.tables.table import Row, RowOrError, Table, raise_error
from medstress.datasets.values import shown
from medstress.files.bounded import data_lines

TABLES = (".jsonl", ".json", ".parquet")
"""Endings of files with rows of tokens."""
TAGS = ("labels", "ner_tags", "tags")
DOCUMENT = "-DOCSTART-"
REPAIR_ADVICE = 'fix the label, or set on_bad_labels = "repair" to begin or end an entity there'
"""Advice for a label that continues or ends no entity."""
SCHEME_ADVICE = f"fix the line, or name the labelling scheme: scheme = {', '.join(SCHEMES)}"
"""Advice for a label of another scheme."""


def load(options: DatasetOptions) -> LoadedTexts:
    """Read a file in IOB or CoNLL layout, or rows of tokens.

    Raises:
        UsageError: no path, a missing file, or a key that does not apply.
        DataError: an empty file; if `on_bad_row` is ``error``, also a token without a label, a
            label that is not IOB, or an I- that continues nothing and is not to be repaired.
    """
    check_keys("iob", options, "path", "types", "scheme", "documents", "on_bad_labels")
    path = required_file("iob", "path", options.path)
    if path.suffix.lower() not in TABLES:
        return read_iob(path, options)
    check_keys("iob", options, "path", "types", "scheme", "on_bad_labels")
    return read_token_rows(path, read_table(path), options)


def read_iob(path: Path, options: DatasetOptions) -> LoadedTexts:
    """Read one file; see `load`."""
    reader = _Reader(scheme=options.scheme or "iob2", repair=options.on_bad_labels == "repair")
    items, skipped = collect(path, reader.rows(path), _item_of, options.on_bad_row)
    items = with_types(items, options.types, path)
    notes, sources = repair_notes(path, reader.repaired), [path]
    if options.documents is not None:
        documents = required_file("iob", "documents", options.documents)
        placed = with_documents(items, path, documents)
        items, notes = placed.items, (*notes, *placed.notes)
        sources.append(documents)
    return LoadedTexts(items=items, skipped=skipped, source_hash=hash_files(*sources), notes=notes)


def read_token_rows(path: Path, table: Table, options: DatasetOptions) -> LoadedTexts:
    """Read the rows of a table as tagged sentences.

    Raises:
        DataError: rows without tokens and labels, or a bad row, if `on_bad_row` is ``error``.
    """
    rows = table.rows
    first = next((row for _, row in rows if isinstance(row, dict)), None)
    if first is None:
        raise DataError(f"{path}, {rows[0][0]}: {rows[0][1]}")
    field = next((name for name in TAGS if name in first), None)
    if "tokens" not in first or field is None:
        raise DataError(
            f"{path}, {rows[0][0]}: expected the fields tokens and {' or '.join(TAGS)}, got "
            f"{', '.join(first)}"
        )
    names = table.names.get(field, ())
    repaired: list[int] = []
    repair = options.on_bad_labels == "repair"
    check_scheme(_names_of(rows, field, names), options.scheme or "iob2", path)
    numbered = ((place, (n, row)) for n, (place, row) in enumerate(rows, start=1))

    def convert(given: tuple[int, RowOrError]) -> TaggedText:
        number, row = given[0], raise_error(given[1])
        tags = row.get(field)
        tokens = row.get("tokens")
        if not isinstance(tags, list) or not isinstance(tokens, list):
            raise DataError(
                f"expected lists 'tokens' and {field!r}, got {shown(tokens)} and {shown(tags)}; "
                "fix the row"
            )
        if None in tokens:
            raise DataError("field 'tokens': expected texts, got a null; fix the row")
        labels = [_label(tag, names, field) for tag in tags]
        read = read_labels(labels, options.scheme or "iob2", repair=repair)
        if read.complaint:
            advice = REPAIR_ADVICE if read.can_repair else SCHEME_ADVICE
            raise DataError(f"token {read.place + 1}: {read.complaint}; {advice}")
        repaired.extend(number for _ in read.repaired)
        identifier = row.get("id")
        return TaggedText(
            id=str(number if identifier is None else identifier),
            tokens=tuple(map(str, tokens)),
            labels=read.labels,
            metadata=_document_of(row),
        )

    items, skipped = collect(path, numbered, convert, options.on_bad_row)
    return LoadedTexts(
        items=with_types(items, options.types, path),
        skipped=skipped,
        source_hash=hash_files(path),
        notes=repair_notes(path, repaired, "row"),
    )


def _document_of(row: Row) -> dict[str, str]:
    """Return the metadata of a row of tokens: its document, if it names one."""
    for column in ("document_id", "document"):
        name = row.get(column)
        if isinstance(name, Mapping | list):
            raise DataError(
                f"field {column!r}: expected the name of a document, got {shown(name)}; fix the row"
            )
        if name not in (None, ""):
            return {"document": str(name)}
    return {}


def _label(tag: Any, names: Sequence[str], field: str) -> str:
    if isinstance(tag, str):
        return tag
    if isinstance(tag, int) and 0 <= tag < len(names):
        return names[tag]
    raise DataError(
        f"field {field!r}: expected label names, or positions in the list of names that the file "
        f"declares ({len(names)} names), got {shown(tag)}"
    )


def _names_of(rows: Iterable[tuple[str, RowOrError]], field: str, names: Sequence[str]) -> set[str]:
    """Return the label names in all rows; values that are no labels are ignored."""
    tags = (tag for _, row in rows if isinstance(row, dict) for tag in _list(row.get(field)))
    known = dict(enumerate(names))
    return {
        tag if isinstance(tag, str) else known[tag]
        for tag in tags
        if isinstance(tag, str) or (isinstance(tag, int) and tag in known)
    }


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def repair_notes(path: Path, repaired: list[int], place: str = "line") -> tuple[str, ...]:
    """Return a sentence with the number of repaired labels and the place of the first one."""
    if not repaired:
        return ()
    return (
        f"{path}: repaired {len(repaired):,} labels that continued or ended no entity (an I- "
        f"becomes B-), the first in {place} {repaired[0]}",
    )


@dataclass(slots=True)
class _Reader:
    scheme: Scheme
    repair: bool
    repaired: list[int] = field(default_factory=list)
    """Numbers of the lines whose label was repaired."""

    def rows(self, path: Path) -> Iterator[tuple[str, TaggedText | DataError]]:
        """Yield (place, sentence) pairs; an error takes the place of a bad sentence."""
        number, document = 0, 0
        blocks = list(_blocks(path))
        others = [line for block in blocks for _, line in block if line[0] != "#"]
        tokens = [line for line in others if not _begins_document(line)]
        check_scheme({_columns(line)[1] for line in tokens} - {""}, self.scheme, path)
        layout = _Layout.of(tokens, self.scheme)
        for block in blocks:
            block = layout.without_comments(block)
            if block and _begins_document(block[0][1]):
                document += 1
                block = block[1:]
            if not block:
                continue
            number += 1
            metadata = {"document": str(document)} if document else {}
            yield self._sentence(str(number), block, metadata)

    def _sentence(
        self, identifier: str, block: list[tuple[int, str]], metadata: dict[str, str]
    ) -> tuple[str, TaggedText | DataError]:
        columns = [_columns(line) for _, line in block]
        for (number, _), (token, label) in zip(block, columns, strict=True):
            if complaint := _token_complaint(token, label):
                advice = "fix the line" if label else "write O for tokens outside entities"
                return f"line {number}", DataError(f"{complaint}; {advice}")
        read = read_labels([label for _, label in columns], self.scheme, repair=self.repair)
        if read.complaint:
            advice = REPAIR_ADVICE if read.can_repair else SCHEME_ADVICE
            return f"line {block[read.place][0]}", DataError(f"{read.complaint}; {advice}")
        self.repaired += [block[place][0] for place in read.repaired]
        item = TaggedText(
            id=identifier,
            tokens=tuple(token for token, _ in columns),
            labels=read.labels,
            metadata=metadata,
        )
        return f"line {block[0][0]}", item


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """Columns and types of the lines without `#`, to tell tokens such as `#` from comments."""

    scheme: Scheme
    tabbed: frozenset[int]
    """Numbers of columns that a line with tabs may have."""
    spaced: frozenset[int]
    """Numbers of columns that a line without tabs may have."""
    types: frozenset[str]
    """Entity types; the empty one stands for O."""

    @classmethod
    def of(cls, lines: Sequence[str], scheme: Scheme) -> _Layout:
        """Return the layout of these lines; without lines, two columns."""
        spaced = frozenset(len(line.split()) for line in lines if "\t" not in line)
        tabbed = frozenset(line.count("\t") + 1 for line in lines if "\t" in line)
        labels = {_columns(line)[1] for line in lines} | {OUTSIDE}
        types = frozenset(
            type_ for label in labels if (type_ := type_of(label, scheme)) is not None
        )
        return cls(
            scheme=scheme, tabbed=tabbed | spaced or frozenset({2}), spaced=spaced, types=types
        )

    def without_comments(self, block: list[tuple[int, str]]) -> list[tuple[int, str]]:
        """Return the lines of a block that are tokens or begin a document."""
        kept: list[tuple[int, str]] = []
        for at, line in block:
            # Inside a sentence, a line with the usual columns is a token even if its label is bad.
            if line[0] != "#" or (self._has_columns(line) and (kept or self._has_label(line))):
                kept.append((at, line))
        return kept

    def _has_columns(self, line: str) -> bool:
        if "\t" not in line:
            return len(line.split()) in self.spaced and self._has_label(line)
        token, _ = _columns(line)
        return line.count("\t") + 1 in self.tabbed and token.split() == [token]

    def _has_label(self, line: str) -> bool:
        """True if the line ends in a label; words may look like labels, so the type must occur."""
        type_ = type_of(_columns(line)[1], self.scheme)
        is_sure = "\t" in line and self.scheme != "io"
        return type_ is not None if is_sure else type_ in self.types


def _begins_document(line: str) -> bool:
    return line.split(maxsplit=1)[0] == DOCUMENT


def _columns(line: str) -> tuple[str, str]:
    """Return the token and the label of a line; the label is empty if there is one column."""
    fields = line.split("\t") if "\t" in line else line.split()
    return fields[0].strip(), fields[-1].strip() if len(fields) > 1 else ""


def _token_complaint(token: str, label: str) -> str | None:
    if not label:
        return f"expected a token, a tab and a label, got {token!r} alone"
    if token.split() != [token]:
        return f"expected a token without white space, got {token!r}"
    return None


def _item_of(read: TaggedText | DataError) -> TaggedText:
    if isinstance(read, DataError):
        raise read
    return read


def _blocks(path: Path) -> Iterator[list[tuple[int, str]]]:
    """Yield the numbered lines of each sentence, without line ends."""
    block: list[tuple[int, str]] = []
    for number, line in data_lines(path):
        if "\r" in line:
            raise DataError(
                f"{path}, line {number}: expected lines that end in LF or CR LF, found a CR inside "
                "a line; save the file with such line ends"
            )
        if line.strip():
            block.append((number, line))
        elif block:
            yield block
            block = []
    if block:
        yield block
