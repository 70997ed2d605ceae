"""Pairs of texts with a gold similarity: TSV with a header, JSONL, or another table.

The columns are `text_a`, `text_b`, `score` and optionally `id` (default: numbers from 1), or
`sentence1` and `sentence2` for the texts, in any case; `columns = {text_a = "first"}` names others.
TSV has no quoting. Scores lie within `scale`, by default 0 to 4. Further columns become metadata;
pairs of one document (`documents` names the column) are drawn together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from medstress.core.errors import DataError, UsageError, did_you_mean
from medstress.core.sentences import SentencePair
from medstress.datasets.source import (
    DatasetOptions,
    LoadedTexts,
    check_keys,
    collect,
    hash_files,
    required_file,
    single_columns,
)
from medstress.datasets.tables import (
    ENDINGS,
    Row,
    RowOrError,
    columns_of,
    plain,
    plain_name,
    raise_error,
    read_table,
    shown,
)
from medstress.datasets.tagged import document_in
from medstress.files.bounded import data_lines

FIELDS = ("id", "text_a", "text_b", "score")
SCALE = (0.0, 4.0)
USUAL = {"text_a": ("text1", "sentence1"), "text_b": ("text2", "sentence2")}
"""Other names that files of pairs give the two texts. Case and punctuation of names do not matter,
unless `columns` gives them."""


def load(options: DatasetOptions) -> LoadedTexts:
    """Read pairs from a file of rows.

    Raises:
        UsageError: no path, a missing file, an unknown ending, an unknown key of `columns`, a
            scale that does not rise, or a key that does not apply.
        DataError: an empty file, a missing column, or a bad row, if `on_bad_row` is ``error``.
    """
    check_keys("pairs", options, "path", "columns", "scale", "documents", "encoding", "sheet")
    path = required_file("pairs", "path", options.path)
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(
            f"dataset 'pairs': expected a file {' or '.join(ENDINGS)}, got {path}; rename or "
            "convert it"
        )
    if path.suffix.lower() == ".tsv" and options.encoding is None:
        return read_pairs(path, tsv_rows(path), options)  # a quotation mark is part of the text
    return read_pairs(
        path, read_table(path, encoding=options.encoding, sheet=options.sheet).rows, options
    )


def read_rows(
    source: str, options: DatasetOptions, convert: Callable[[Row, str], Any]
) -> LoadedTexts:
    """Read any table row by row, for a source of one's own.

    Args:
        source: the data set's name, for messages.
        options: its keys; `columns` is left to `convert`.
        convert: (row, its number from 1) -> an item; raises `DataError` about the row.

    Raises:
        UsageError: no path, a missing file, an unknown ending, or a key that does not apply.
        DataError: an empty file, or a bad row, if `on_bad_row` is ``error``.
    """
    check_keys(source, options, "path", "columns", "encoding", "sheet")
    path = required_file(source, "path", options.path)
    table = read_table(path, encoding=options.encoding, sheet=options.sheet)
    return _collected(path, table.rows, options, convert)


def read_pairs(
    path: Path, rows: Iterable[tuple[str, RowOrError]], options: DatasetOptions
) -> LoadedTexts:
    """Turn rows into pairs; see `load`."""
    rows, columns = list(rows), single_columns(options.columns)
    for field in columns:
        if field not in FIELDS:
            raise UsageError(
                f"columns: expected {', '.join(FIELDS)}, got {field!r}{did_you_mean(field, FIELDS)}"
            )
    low, high = map(float, SCALE if options.scale is None else options.scale)
    if not low < high:
        raise UsageError(f"scale: expected the lowest and the highest score, got {low:g}, {high:g}")
    by_name: dict[str, str] = {}
    for column in columns_of(row for _, row in rows if isinstance(row, dict)):
        by_name.setdefault(column, column)
        by_name.setdefault(plain_name(column), column)
    names = {}
    for field in FIELDS:
        usual = (field, plain_name(field), *USUAL.get(field, ()))
        names[field] = columns.get(field) or next(
            (by_name[n] for n in usual if n in by_name), field
        )

    def lacks(field: str, expected: str, value: Any, mend: str) -> DataError:
        name = f'name the column with columns = {{{field} = "..."}}' if value is None else mend
        return DataError(f"field {names[field]!r}: expected {expected}, got {shown(value)}; {name}")

    def convert(row: Row, number: str) -> SentencePair:
        identifier, first, second, value = (row.get(names[field]) for field in FIELDS)
        for field, text in (("text_a", first), ("text_b", second)):
            if not isinstance(text, str):
                raise lacks(field, "a text", text, "fix the row")
        expected = f"a score from {low:g} to {high:g}"
        try:
            score = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            score = math.nan
        if not low <= score <= high:
            mend = "fix the row, or give the scale with scale = [low, high]"
            raise lacks("score", expected, value, mend)
        metadata = {k: plain(v) for k, v in row.items() if k not in names.values()}
        if options.documents is not None:
            metadata["document"] = document_in(row, options.documents)
        return SentencePair(
            id=number if identifier is None else str(identifier),
            text_a=str(first),
            text_b=str(second),
            score=score,
            low=low,
            high=high,
            metadata=metadata,
        )

    loaded = _collected(path, rows, options, convert)
    if columns or all(names[field] == field for field in FIELDS):
        return loaded
    texts = f"texts in {names['text_a']!r} and {names['text_b']!r}"
    understood = f"{path.name}: {len(loaded.items):,} sentence pairs; {texts}, scores in "
    return replace(loaded, understood=f"{understood}{names['score']!r}")


def _collected(
    path: Path,
    rows: Iterable[tuple[str, RowOrError]],
    options: DatasetOptions,
    convert: Callable[[Row, str], Any],
) -> LoadedTexts:
    numbered = ((place, (str(n), row)) for n, (place, row) in enumerate(rows, start=1))

    def converted(one: tuple[str, RowOrError]) -> Any:
        return convert(raise_error(one[1]), one[0])

    items, skipped = collect(path, numbered, converted, options.on_bad_row)
    return LoadedTexts(items=items, skipped=skipped, source_hash=hash_files(path))


def tsv_rows(path: Path) -> Iterator[tuple[str, RowOrError]]:
    """Yield (place, row) for every line under the header; an error takes the place of a bad row.

    Raises:
        DataError: the file is not UTF-8, or its header repeats a column; names file and line.
    """
    header: list[str] = []
    for number, line in data_lines(path):
        fields = line.split("\t")
        if fields == [""]:
            continue
        if not header:
            header = [field.strip() for field in fields]
            if len(set(header)) < len(header):
                raise DataError(
                    f"{path}, line {number}: expected each column once, got {', '.join(header)}; "
                    "rename one"
                )
        elif len(fields) != len(header):
            yield (
                f"line {number}",
                DataError(
                    f"expected {len(header)} fields as in the header, got {len(fields)}; texts "
                    "must not contain tabs"
                ),
            )
        else:
            yield f"line {number}", dict(zip(header, fields, strict=True))
