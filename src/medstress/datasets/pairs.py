"""Pairs of texts with a gold similarity, in any table.

The columns are `text_a`, `text_b`, `score` and optionally `id` (default: numbers from 1), or
`sentence1` and `sentence2` for the texts, in any case; `columns = {text_a = "first"}` names others.
Scores lie within `scale`, by default 0 to 4. Further columns become metadata; pairs of one document
(`documents` names the column) are drawn together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
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
)
from medstress.datasets.tables import (
    Row,
    RowOrError,
    Table,
    columns_of,
    plain,
    plain_name,
    raise_error,
    read_table,
    wrong,
)
from medstress.datasets.tagged import document_in

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
    table = read_table(path, encoding=options.encoding, sheet=options.sheet)
    return read_pairs(table, options)


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
    return _collected(table, options, convert)


def read_pairs(table: Table, options: DatasetOptions) -> LoadedTexts:
    """Turn rows into pairs; see `load`."""
    columns = options.columns
    for field, own in columns.items():
        if field not in FIELDS or not isinstance(own, str):
            raise UsageError(
                f"columns: expected one name for each of {', '.join(FIELDS)}, got {field!r} = "
                f"{own!r}{did_you_mean(field, FIELDS)}"
            )
    low, high = map(float, SCALE if options.scale is None else options.scale)
    if not low < high:
        raise UsageError(f"scale: expected the lowest and the highest score, got {low:g}, {high:g}")
    by_name: dict[str, str] = {}
    for column in columns_of(table.good):
        by_name.setdefault(column, column)
        by_name.setdefault(plain_name(column), column)
    names: dict[str, str] = {}
    for field in FIELDS:
        usual = (field, plain_name(field), *USUAL.get(field, ()))
        given = str(columns[field]) if field in columns else ""
        names[field] = given or next((by_name[n] for n in usual if n in by_name), field)

    def lacks(field: str, expected: str, value: Any, mend: str = "fix the row") -> DataError:
        name = f'name the column with columns = {{{field} = "..."}}'
        return wrong(names[field], expected, value, name if value is None else mend)

    def convert(row: Row, number: str) -> SentencePair:
        identifier, first, second, value = (row.get(names[field]) for field in FIELDS)
        for field, text in (("text_a", first), ("text_b", second)):
            if not isinstance(text, str):
                raise lacks(field, "a text", text)
        try:
            score = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            score = math.nan
        if not low <= score <= high:
            mend = "fix the row, or give the scale with scale = [low, high]"
            raise lacks("score", f"a score from {low:g} to {high:g}", value, mend)
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

    loaded = _collected(table, options, convert)
    if columns or all(names[field] == field for field in FIELDS):
        return loaded
    texts = f"texts in {names['text_a']!r} and {names['text_b']!r}"
    understood = f"{table.path.name}: {len(loaded.items):,} sentence pairs; {texts}, scores in "
    return replace(loaded, understood=f"{understood}{names['score']!r}")


def _collected(
    table: Table, options: DatasetOptions, convert: Callable[[Row, str], Any]
) -> LoadedTexts:
    numbered = ((place, (str(n), row)) for n, (place, row) in enumerate(table.rows, start=1))

    def converted(one: tuple[str, RowOrError]) -> Any:
        return convert(raise_error(one[1]), one[0])

    items, skipped = collect(table.path, numbered, converted, options.on_bad_row)
    return LoadedTexts(items=items, skipped=skipped, source_hash=hash_files(table.path))
