"""Write questions with typed mentions and group labels, as rows that medstress reads back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medstress.core.errors import UsageError
from medstress.core.items import LETTERS, Question
from medstress.datasets.writing import row_from_question
from medstress.entities.grouping import typed_options
from medstress.files.frames import refuse_inputs, write_frame
from medstress.files.writing import atomic_stream

OTHERWISE = "write .jsonl, or leave the field out"

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Counts of what was written."""

    n_rows: int
    """Questions."""
    n_mentions: int
    """Mentions in them."""


def check_target(to: Path, read: Path) -> None:
    """Check the name of the file before anything is read.

    Args:
        to: the file to write.
        read: the file or folder with the data; none is there if they are named otherwise.

    Raises:
        UsageError: another ending than .jsonl or .parquet, or a file with the data.
    """
    if to.suffix not in WRITERS:
        raise UsageError(f"--to {to}: the name must end in .jsonl or .parquet")
    refuse_inputs(to, [read])


def write_typed(
    questions: Sequence[Question], groups: Mapping[str, frozenset[str]], to: Path
) -> Written:
    """Write questions with their mentions and group labels.

    Args:
        questions: with the mentions that were found in them.
        groups: label -> types.
        to: FILE.jsonl or FILE.parquet.

    Raises:
        UsageError: the file cannot be written, or parquet cannot hold the rows.
    """
    rows = [_row(item, groups) for item in questions]
    try:
        WRITERS[to.suffix](rows, to, list(groups))
    except OSError as error:
        raise UsageError(f"cannot write {to}: {error.strerror}; give another --to") from error
    return Written(n_rows=len(rows), n_mentions=sum(len(row["mentions"]) for row in rows))


def _row(item: Question, groups: Mapping[str, frozenset[str]]) -> Row:
    """Return one question as a row of the format that medstress reads.

    `groups` lists the groups of the question; `group_options` lists, for every group, the wrong
    options that mention an entity of its types. Metadata is added unchanged.
    """
    options = {label: list(typed_options(item, types)) for label, types in groups.items()}
    return {
        **row_from_question(item),
        **item.metadata,
        "groups": [label for label, letters in options.items() if letters],
        "group_options": options,
    }


def _write_jsonl(rows: Sequence[Row], to: Path, _: Sequence[str]) -> None:
    with atomic_stream(to) as stream:
        for row in rows:
            stream.write((json.dumps(row, ensure_ascii=False) + "\n").encode())


def _write_parquet(rows: Sequence[Row], to: Path, groups: Sequence[str]) -> None:
    import polars

    letters = max(len(row["options"]) for row in rows)
    span = {"field": polars.String, "start": polars.Int64, "end": polars.Int64}
    # polars cannot infer types from columns of empty lists.
    schema = {
        "options": polars.Struct(dict.fromkeys(LETTERS[:letters], polars.String)),
        "mentions": polars.List(polars.Struct({**span, "type": polars.String})),
        "groups": polars.List(polars.String),
        "group_options": polars.Struct(dict.fromkeys(groups, polars.List(polars.String))),
    }
    try:
        frame = polars.DataFrame(rows, schema_overrides=schema, infer_schema_length=None)
        _check_kept(rows, frame.to_dicts(), to)
        write_frame(frame, to)
    except polars.exceptions.PolarsError as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(
            f"--to {to}: parquet cannot hold these rows ({reason}); {OTHERWISE}"
        ) from error


def _check_kept(rows: Sequence[Row], written: Sequence[Row], to: Path) -> None:
    # polars silently drops values that do not fit the type of their column.
    for row, read in zip(rows, written, strict=True):
        for field, value in row.items():
            if not _survives(value, read[field]):
                raise UsageError(
                    f"--to {to}: a parquet column holds values of one type, so the field "
                    f"{field!r} of item {row['id']!r} would be lost; {OTHERWISE}"
                )


def _survives(value: Any, read: Any) -> bool:
    """True if a value was written unchanged; a struct may have gained empty fields."""
    if isinstance(value, dict):
        return isinstance(read, dict) and all(_survives(v, read.get(k)) for k, v in value.items())
    if isinstance(value, list):
        return (
            isinstance(read, list) and len(value) == len(read) and all(map(_survives, value, read))
        )
    if value is None:
        return read is None or (isinstance(read, dict) and not any(read.values()))
    return bool(value == read) and isinstance(value, bool) is isinstance(read, bool)


WRITERS: dict[str, Callable[[Sequence[Row], Path, Sequence[str]], None]] = {
    ".jsonl": _write_jsonl,
    ".parquet": _write_parquet,
}
"""Writer by file extension."""
