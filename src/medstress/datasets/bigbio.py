"""Rows of BigBIO and token-classification data sets of the Hugging Face hub.

There are three layouts, recognised by their fields:

- documents (BigBIO's `kb`): `passages` with `text` and `offsets`, `entities` with `type` and
  `offsets`;
- tokens: `tokens` with `labels`, `ner_tags` or `tags` (names, or positions in the file's list of
  names), and optionally `document_id` or `document`;
- pairs: `text_1` and `text_2` with `label`, or `text_a`, `text_b` and `score`.

Files are JSON (a list), JSONL or parquet.

Reference: Fries, Weber, Seelam et al. BigBIO: a framework for data-centric biomedical natural
language processing. NeurIPS Datasets and Benchmarks, 2022.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from medstress.core.errors import DataError, UsageError
from medstress.core.label_schemes import check_scheme, read_labels
from medstress.core.sentences import TaggedText
from medstress.datasets.documents import Annotation, Document, Tally, tagged_sentences
from medstress.datasets.iob import REPAIR_ADVICE, SCHEME_ADVICE, repair_notes
from medstress.datasets.label_types import keep_types, with_types
from medstress.datasets.pairs import read_pairs
from medstress.datasets.source import (
    DatasetOptions,
    LoadedTexts,
    check_keys,
    collect,
    hash_files,
    required_file,
)
from medstress.datasets.tables.columnar import is_saved
from medstress.datasets.tables.reading import read_table
from medstress.datasets.tables.table import Row, RowOrError, raise_error
from medstress.datasets.values import shown

_MAX_GAP = 100_000
"""Most characters between two passages; a larger gap must be a mistake in the offsets."""
ENDINGS = (".json", ".jsonl", ".parquet")
TAGS = ("labels", "ner_tags", "tags")
PAIRS = {"id": "id", "text_a": "text_1", "text_b": "text_2", "score": "label"}


def load(options: DatasetOptions) -> LoadedTexts:
    """Read a file in one of the layouts.

    Raises:
        UsageError: no path, a missing file, an unknown ending, or a key that does not apply.
        DataError: an empty file, rows of an unknown layout, or a bad row, if `on_bad_row` is
            ``error``.
    """
    check_keys("bigbio", options, "path", "types", "scheme", "columns", "scale", "on_bad_labels")
    return read_bigbio(required_file("bigbio", "path", options.path), options)


def read_bigbio(path: Path, options: DatasetOptions) -> LoadedTexts:
    """Read one file; see `load`."""
    if path.suffix.lower() not in ENDINGS and not is_saved(path):
        raise UsageError(f"expected a file {' or '.join(ENDINGS)}, got {path}; convert it")
    table = read_table(path)
    rows = table.rows
    first = next((row for _, row in rows if isinstance(row, dict)), None)
    if first is None:
        raise DataError(f"{path}, {rows[0][0]}: {rows[0][1]}")
    if "passages" in first:
        return _documents(path, rows, options)
    field = next((name for name in TAGS if name in first), None)
    if "tokens" in first and field is not None:
        return _tokens(path, rows, options, field, table.names.get(field, ()))
    if "text_1" in first:
        return read_pairs(path, iter(rows), _with_columns(options))
    if {"text_a", "text_b"} <= {*first, *options.columns}:
        return read_pairs(path, iter(rows), options)
    raise DataError(
        f"{path}, {rows[0][0]}: expected the fields passages and entities, tokens and ner_tags, or "
        f"text_1, text_2 and label, got {', '.join(first)}"
    )


def _with_columns(options: DatasetOptions) -> DatasetOptions:
    return replace(options, columns={**PAIRS, **options.columns})


def _documents(
    path: Path, rows: Sequence[tuple[str, RowOrError]], options: DatasetOptions
) -> LoadedTexts:
    documents, left_out = list[Document](), list[str]()
    tally = Tally()
    for place, row in rows:
        try:
            documents.append(_document(raise_error(row), tally))
        except DataError as error:
            sentence = f"{path}, {place}: {error}"
            if options.on_bad_row == "error" or len(left_out) == len(rows) - 1:
                raise DataError(sentence) from error
            left_out.append(sentence)
    keep_types(documents, options.types, path)
    sentences = (
        (f"document {document.id}", item)
        for document in documents
        for item in tagged_sentences(document, tally)
    )
    items, skipped = collect(path, sentences, lambda item: item, options.on_bad_row)
    return LoadedTexts(
        items=items,
        skipped=(*left_out, *skipped),
        source_hash=hash_files(path),
        notes=tally.notes(path),
    )


def _document(row: Row, tally: Tally) -> Document:
    text, begins = "", []
    for passage in _parts(row, "passages"):
        start = _offsets(passage, "passages")[0][0]
        if not 0 <= start - len(text) <= _MAX_GAP:
            raise DataError(
                f"field 'passages': expected each to begin after the one before (at {len(text)}), "
                f"got {shown(passage)}; fix the offsets"
            )
        # Offsets count from the beginning of the document, including gaps between passages.
        text = text.ljust(start) if start > len(text) else text
        begins.append(len(text))
        text += " ".join(_texts(passage))
    identifier = row.get("document_id") or row.get("id")
    if identifier is None or not text.strip():
        raise DataError(
            "expected a document_id and passages with text, but one is missing; fix the row"
        )
    document = Document(id=str(identifier), text=text, passages=tuple(begins))
    for entity in _parts(row, "entities") if row.get("entities") is not None else ():
        offsets = sorted(_offsets(entity, "entities"))
        start, end = offsets[0][0], max(last for _, last in offsets)
        tally.discontinuous += len(offsets) > 1
        if not 0 <= start < end <= len(text) or not str(entity.get("type") or "").strip():
            raise DataError(
                f"field 'entities': expected a type and offsets within {len(text)} characters, "
                f"got {shown(entity)}; fix the row"
            )
        type_ = "_".join(str(entity["type"]).split())
        document.annotations.append(Annotation(start=start, end=end, type=type_))
    return document


def _parts(row: Row, field: str) -> list[Mapping[str, Any]]:
    found = row.get(field)
    if not isinstance(found, list) or not all(isinstance(part, Mapping) for part in found):
        raise DataError(
            f"field {field!r}: expected a list of objects with offsets, got {shown(found)}; fix "
            "the row"
        )
    return found


def _texts(passage: Mapping[str, Any]) -> list[str]:
    text = passage.get("text")
    texts = [text] if isinstance(text, str) else text or []
    if not isinstance(texts, list):
        raise DataError(
            f"field 'passages': expected a text or a list of texts, got {shown(text)}; fix the row"
        )
    return list(map(str, texts))


def _offsets(part: Mapping[str, Any], field: str) -> list[tuple[int, int]]:
    try:
        found = [(int(start), int(end)) for start, end in part["offsets"]]
    except (KeyError, TypeError, ValueError, OverflowError):
        found = []
    if not found:
        raise DataError(
            f"field {field!r}: expected offsets [[start, end]], got {shown(part)}; fix the row"
        )
    return found


def _tokens(
    path: Path,
    rows: Sequence[tuple[str, RowOrError]],
    options: DatasetOptions,
    field: str,
    names: Sequence[str],
) -> LoadedTexts:
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
    for field in ("document_id", "document"):
        name = row.get(field)
        if isinstance(name, Mapping | list):
            raise DataError(
                f"field {field!r}: expected the name of a document, got {shown(name)}; fix the row"
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
