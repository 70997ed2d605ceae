"""Tagged sentences in IOB or CoNLL files: a token and its label a line, an empty line between.

Columns are parted by a tab, or by spaces where a line has none; the first is the token, the last
the label, what stands between (parts of speech, chunks) is passed over. A line `-DOCSTART-` begins
a new document. Labels are IOB2: every entity begins with B-. Ids are the numbers of the sentences,
from 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from medstress.datasets.source import (
    DatasetOptions,
    LoadedTexts,
    collect,
    hash_files,
    refuse_keys,
    required_file,
)
from medstress.errors import DataError
from medstress.input_files import read_bytes
from medstress.sentences import OUTSIDE, TaggedText, label_complaint

DOCUMENT = "-DOCSTART-"
REPAIR_ADVICE = 'write B-, or set on_bad_labels = "repair" to read it as one'
"""What to do about an I- that continues nothing."""


def load(options: DatasetOptions) -> LoadedTexts:
    """Read a file in IOB or CoNLL layout.

    Raises:
        UsageError: no path, no such file, or a key that means nothing here.
        DataError: an empty file; a token without a label, a label that is not IOB, or an I- that
            continues nothing and is not to be repaired, where `on_bad_row` is ``error``.
    """
    refuse_keys("iob", options, "annotations", "split", "hub", "types", "columns", "scale")
    return read_iob(required_file("iob", "path", options.path), options)


def read_iob(path: Path, options: DatasetOptions) -> LoadedTexts:
    """Read one file; see `load`."""
    reader = _Reader(repair=options.on_bad_labels == "repair")
    items, skipped = collect(path, reader.rows(path), _item_of, options.on_bad_row)
    return LoadedTexts(
        items=items,
        skipped=skipped,
        source_hash=hash_files(path),
        notes=repair_notes(path, reader.repaired),
    )


def repair_notes(path: Path, repaired: list[int], place: str = "line") -> tuple[str, ...]:
    """Say how many labels were repaired, and in which line or row the first one stands."""
    if not repaired:
        return ()
    return (
        f"{path}: {len(repaired):,} labels I- that continued nothing were read as B-, the first "
        f"in {place} {repaired[0]}",
    )


@dataclass(slots=True)
class _Reader:
    repair: bool
    repaired: list[int] = field(default_factory=list)
    """Lines whose label was repaired."""

    def rows(self, path: Path) -> Iterator[tuple[str, TaggedText | DataError]]:
        """Yield the place and the sentence, or the line and what is wrong with it."""
        number, document = 0, 0
        for block in _blocks(path):
            first = block[0][1]
            if first.split(maxsplit=1)[0] == DOCUMENT:
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
        tokens: list[str] = []
        labels: list[str] = []
        before = OUTSIDE
        for number, line in block:
            token, label = _columns(line)
            complaint = _token_complaint(token, label) or label_complaint(label, before)
            if complaint and self.repair and label[:2] == "I-" and label[2:]:
                self.repaired.append(number)
                label = f"B-{label[2:]}"
                complaint = label_complaint(label, before)
            if complaint:
                return f"line {number}", DataError(f"{complaint}; {_advice(label, complaint)}")
            tokens.append(token)
            labels.append(label)
            before = label
        item = TaggedText(
            id=identifier, tokens=tuple(tokens), labels=tuple(labels), metadata=metadata
        )
        return f"line {block[0][0]}", item


def _columns(line: str) -> tuple[str, str]:
    """Token and label of a line; an empty label where there is one column."""
    fields = line.split("\t") if "\t" in line else line.split()
    return fields[0].strip(), fields[-1].strip() if len(fields) > 1 else ""


def _token_complaint(token: str, label: str) -> str | None:
    if not label:
        return f"expected a token, a tab and its label, got {token!r} alone"
    if token.split() != [token]:
        return f"expected a token without white space, got {token!r}"
    return None


def _advice(label: str, complaint: str) -> str:
    if not label:
        return "write O for tokens outside entities"
    if label[:2] == "I-" and "beginning of an entity" in complaint:
        return REPAIR_ADVICE
    return "mend the line"


def _item_of(read: TaggedText | DataError) -> TaggedText:
    if isinstance(read, DataError):
        raise read
    return read


def _blocks(path: Path) -> Iterator[list[tuple[int, str]]]:
    """The lines of each sentence with their numbers, without line ends."""
    block: list[tuple[int, str]] = []
    # Bytes 0x0A alone end lines: a token may be a character that str.splitlines splits at.
    lines = read_bytes(path).removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for number, raw in enumerate(lines, start=1):
        try:
            line = raw.decode("utf-8").rstrip("\r")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path}, line {number}: expected UTF-8 text, got the byte "
                f"0x{raw[error.start]:02x}; save the file as UTF-8"
            ) from error
        if "\r" in line:
            raise DataError(
                f"{path}, line {number}: expected lines that end in LF or CR LF, got a CR within "
                "one; save the file with such line ends"
            )
        if line.strip():
            block.append((number, line))
        elif block:
            yield block
            block = []
    if block:
        yield block
