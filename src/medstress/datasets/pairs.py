"""Pairs of texts with a gold similarity: TSV with a header, JSONL, or another table.

The columns are `text_a`, `text_b`, `score` and optionally `id` (default: numbers from 1);
`columns = {text_a = "sentence1"}` renames them. TSV has no quoting. Scores lie within `scale`, by
default 0 to 4. Further columns become metadata.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
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
from medstress.datasets.tables.reading import ENDINGS, read_table
from medstress.datasets.tables.table import Row, RowOrError, raise_error
from medstress.datasets.values import plain, shown
from medstress.files.bounded import data_lines

FIELDS = ("id", "text_a", "text_b", "score")
SCALE = (0.0, 4.0)


def load(options: DatasetOptions) -> LoadedTexts:
    """Read pairs from a file of rows.

    Raises:
        UsageError: no path, a missing file, an unknown ending, an unknown key of `columns`, a
            scale that does not rise, or a key that does not apply.
        DataError: an empty file, a missing column, or a bad row, if `on_bad_row` is ``error``.
    """
    check_keys("pairs", options, "path", "columns", "scale", "encoding", "sheet")
    path = required_file("pairs", "path", options.path)
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(
            f"dataset 'pairs': expected a file {' or '.join(ENDINGS)}, got {path}; rename or "
            "convert it"
        )
    if path.suffix.lower() == ".tsv" and options.encoding is None:
        return read_pairs(path, tsv_rows(path), options)  # a quotation mark is part of the text
    table = read_table(path, encoding=options.encoding, sheet=options.sheet)
    return read_pairs(path, iter(table.rows), options)


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
    numbered = ((place, (str(n), row)) for n, (place, row) in enumerate(table.rows, start=1))

    def converted(given: tuple[str, RowOrError]) -> Any:
        return convert(raise_error(given[1]), given[0])

    items, skipped = collect(path, numbered, converted, options.on_bad_row)
    return LoadedTexts(items=items, skipped=skipped, source_hash=hash_files(path))


def read_pairs(
    path: Path,
    rows: Iterator[tuple[str, RowOrError]],
    options: DatasetOptions,
    *,
    is_fixed: bool = False,
) -> LoadedTexts:
    """Turn rows into pairs; see `load`. With `is_fixed` messages advise no `columns` or `scale`."""
    names = column_names(single_columns(options.columns))
    low, high = checked_scale(options.scale)
    numbered = ((place, (n, row)) for n, (place, row) in enumerate(rows, start=1))

    def convert(given: tuple[int, RowOrError]) -> SentencePair:
        number, row = given
        return pair_from_row(raise_error(row), names, str(number), low, high, is_fixed=is_fixed)

    items, skipped = collect(path, numbered, convert, options.on_bad_row)
    return LoadedTexts(items=items, skipped=skipped, source_hash=hash_files(path))


def column_names(columns: Mapping[str, str]) -> dict[str, str]:
    """Return the column name of each field.

    Raises:
        UsageError: a key of `columns` is not a field.
    """
    for field in columns:
        if field not in FIELDS:
            raise UsageError(
                f"columns: expected {', '.join(FIELDS)}, got {field!r}{did_you_mean(field, FIELDS)}"
            )
    return {field: columns.get(field, field) for field in FIELDS}


def checked_scale(scale: tuple[float, float] | None) -> tuple[float, float]:
    """Return the lowest and the highest score; None: `SCALE`.

    Raises:
        UsageError: the lowest is not below the highest.
    """
    low, high = SCALE if scale is None else scale
    if not low < high:
        raise UsageError(f"scale: expected the lowest and the highest score, got {low:g}, {high:g}")
    return float(low), float(high)


def pair_from_row(
    row: Mapping[str, Any],
    names: Mapping[str, str],
    default_id: str,
    low: float,
    high: float,
    *,
    is_fixed: bool = False,
) -> SentencePair:
    """Turn one row into a pair.

    Raises:
        DataError: naming the field, what was expected and what came, but not the file or line.

    >>> names = {field: field for field in FIELDS}
    >>> row = {"text_a": "It fell.", "text_b": "It rose.", "score": "0.5", "year": 2020}
    >>> pair = pair_from_row(row, names, "1", 0, 4)
    >>> pair.id, pair.score, pair.metadata
    ('1', 0.5, {'year': 2020})
    """
    texts = []
    for field in ("text_a", "text_b"):
        value = row.get(names[field])
        if not isinstance(value, str):
            known = [column for column in row if isinstance(row[column], str)]
            raise DataError(
                f"field {names[field]!r}: expected a text, got {shown(value)}"
                f"{did_you_mean(names[field], known) if value is None else ''}; "
                + (
                    "rename the column"
                    if is_fixed
                    else f'name the column with columns = {{{field} = "..."}}'
                )
            )
        texts.append(value)
    score = _score(row.get(names["score"]), names["score"], low, high, is_fixed=is_fixed)
    identifier = row.get(names["id"])
    return SentencePair(
        id=default_id if identifier is None else str(identifier),
        text_a=texts[0],
        text_b=texts[1],
        score=score,
        low=low,
        high=high,
        metadata={k: plain(v) for k, v in row.items() if k not in names.values()},
    )


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


def _score(value: Any, name: str, low: float, high: float, *, is_fixed: bool) -> float:
    expected = f"field {name!r}: expected a score from {low:g} to {high:g}, got"
    try:
        if isinstance(value, bool):
            raise ValueError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{expected} {shown(value)}; write a number such as 3.5") from None
    if not math.isfinite(number) or not low <= number <= high:
        raise DataError(
            f"{expected} {number:g}; fix the row"
            + ("" if is_fixed else ", or give the scale with scale = [low, high]")
        )
    return number
