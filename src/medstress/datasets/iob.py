"""Tagged sentences in IOB or CoNLL files: one token and its label per line, empty lines between.

Tabs separate the columns, or spaces in a line without tabs. The first column is the token, the last
one the label; columns between (parts of speech, chunks) are ignored. A line `-DOCSTART-` begins a
new document; `documents` names a PubTator file to look documents up in instead. A line that begins
with `#` is a token if it has as many columns as the other lines and ends in a label, else a
comment. Labels are IOB2 (every entity begins with B-) unless `scheme` says otherwise, and are
converted to IOB2. Sentences are numbered from 1; the number is the id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

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
from medstress.files.reading import text_lines

DOCUMENT = "-DOCSTART-"
REPAIR_ADVICE = 'fix the label, or set on_bad_labels = "repair" to begin or end an entity there'
"""Advice for a label that continues or ends no entity."""
SCHEME_ADVICE = f"fix the line, or name the labelling scheme: scheme = {', '.join(SCHEMES)}"
"""Advice for a label of another scheme."""


def load(options: DatasetOptions) -> LoadedTexts:
    """Read a file in IOB or CoNLL layout.

    Raises:
        UsageError: no path, a missing file, or a key that does not apply.
        DataError: an empty file; if `on_bad_row` is ``error``, also a token without a label, a
            label that is not IOB, or an I- that continues nothing and is not to be repaired.
    """
    check_keys("iob", options, "path", "types", "scheme", "documents", "on_bad_labels")
    return read_iob(required_file("iob", "path", options.path), options)


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
    for number, line in text_lines(path):
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
