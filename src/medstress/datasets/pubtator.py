"""Annotated abstracts in PubTator format, split into tagged sentences.

A document is `ID|t|title`, `ID|a|abstract`, then for each entity `ID start end mention type
concept`, separated by tabs; offsets count title, one space and abstract. Empty lines separate
documents. Lines with relations (`ID CID chemical disease`) are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from medstress.core.errors import DataError
from medstress.core.sentences import TaggedText
from medstress.datasets.documents import Annotation, Document, Tally, tagged_sentences
from medstress.datasets.label_types import keep_types
from medstress.datasets.source import (
    DatasetOptions,
    LoadedTexts,
    check_keys,
    collect,
    hash_files,
    required_file,
)
from medstress.files.bounded import data_lines

_TEXT = re.compile(r"([^|\t]+)\|([ta])\|(.*)")


def load(options: DatasetOptions) -> LoadedTexts:
    """Read a PubTator file; `types` selects or renames the entities that become labels.

    Raises:
        UsageError: no path, a missing file, a type that no entity has, or a key that does not
            apply.
        DataError: an empty file, or a malformed line (names file and line).
    """
    check_keys("pubtator", options, "path", "types")
    return read_pubtator(required_file("pubtator", "path", options.path), options)


def read_pubtator(path: Path, options: DatasetOptions) -> LoadedTexts:
    """Read one file; see `load`."""
    tally = Tally()
    documents = list(read_documents(path))
    keep_types(documents, options.types, path)
    rows = (
        (f"document {document.id}", item)
        for document in documents
        for item in tagged_sentences(document, tally)
    )
    items, skipped = collect(path, rows, _same, options.on_bad_row)
    return LoadedTexts(
        items=items, skipped=skipped, source_hash=hash_files(path), notes=tally.notes(path)
    )


def _same(item: TaggedText) -> TaggedText:
    return item


def read_documents(path: Path) -> Iterator[Document]:
    """Yield the documents of a file with all their entities.

    Raises:
        DataError: a malformed line (names file and line).
    """
    document: Document | None = None
    for number, line in data_lines(path):
        where = f"{path}, line {number}"
        if not line.strip():
            if document is not None:
                yield document
            document = None
        elif found := _TEXT.fullmatch(line):
            identifier, part, text = found.groups()
            if part == "t":
                if document is not None:
                    yield document
                document = Document(id=identifier, text=text)
            elif document is None or document.id != identifier:
                raise DataError(
                    f"{where}: expected the title {identifier}|t|... before its abstract"
                )
            elif len(document.passages) > 1:
                raise DataError(
                    f"{where}: expected one abstract of document {identifier!r}, got a second; "
                    "join them"
                )
            else:
                document.passages = (0, len(document.text) + 1)
                document.text = f"{document.text} {text}"
        elif document is None:
            raise DataError(f"{where}: expected a title ID|t|TEXT, got {line[:60]!r}; fix the line")
        else:
            fields = line.split("\t")
            if "\t" in line and fields[0] != document.id:
                raise DataError(
                    f"{where}: expected an entity of document {document.id!r}, got one of "
                    f"{fields[0]!r}; move it below the title of its document"
                )
            if entity := _entity(document, fields, where):
                document.annotations.append(entity)
    if document is not None:
        yield document


def _entity(document: Document, fields: list[str], where: str) -> Annotation | None:
    """Return the entity of a line, or None for a relation."""
    if len(fields) == 4 and not fields[1].isdecimal():
        return None
    if len(fields) < 5 or not all(each.isdecimal() and len(each) < 10 for each in fields[1:3]):
        raise DataError(
            f"{where}: expected ID, start, end, mention and type separated by tabs, got "
            f"{' '.join(fields)[:60]!r}; fix the line"
        )
    start, end, mention, type_ = int(fields[1]), int(fields[2]), fields[3], fields[4].strip()
    if document.text[start:end] != mention:
        raise DataError(
            f"{where}: expected {mention!r} at [{start}, {end}), got "
            f"{document.text[start:end][:60]!r}; offsets count characters of title, one space and "
            "abstract"
        )
    if not mention.strip() or type_.split() != [type_]:
        raise DataError(f"{where}: expected a mention and a type of one word, got {type_!r}")
    return Annotation(start=start, end=end, type=type_)
