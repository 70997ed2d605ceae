"""Vocabularies: names that may replace an entity."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from medstress.core.errors import UsageError, did_you_mean
from medstress.core.hashing import content_hash
from medstress.entities.tables import (
    SHIPPED,
    column_of,
    existing_file,
    is_delimited,
    read_rows,
    read_text,
    shipped_rows,
)


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
        rows = shipped_rows(source)
        return vocabulary_of(source, [name for _, name, _, mark in rows if mark == "1"])
    what = f"vocabulary {source!r}"
    path = base / Path(source).expanduser()
    hint = did_you_mean(source, SHIPPED)
    existing_file(path, what, f"give a path or one of {', '.join(SHIPPED)}{hint}")
    return vocabulary_of(source, _names(path, what, column))


def _names(path: Path, what: str, column: int | None) -> Iterable[str]:
    if is_delimited(path):
        return _with_header(path, what) if column is None else _column(path, what, column)
    if column is not None:
        raise UsageError(
            f"{what}: key 'column' is for a .csv or .tsv table without a header, got {path}; "
            "remove it"
        )
    if path.suffix.lower() == ".parquet":
        return _parquet(path, what)
    return read_text(path, what).split("\n")


def _with_header(path: Path, what: str) -> list[str]:
    rows = [row for _, row in read_rows(path, what)]
    header = rows[0] if rows else ["name"]
    position = column_of(header, "name")
    if position is None:
        raise UsageError(
            f"{what}: expected a column 'name', got {_listed(header)} in the first line of "
            f"{path}; rename a column or, if the table has no header, give the position of the "
            "names (from 0) with column = 0"
        )
    return [row[position] for row in rows[1:]]


def _column(path: Path, what: str, column: int) -> list[str]:
    rows = [row for _, row in read_rows(path, what)]
    width = len(rows[0]) if rows else column + 1
    if not 0 <= column < width:
        raise UsageError(
            f"{what}: expected column = 0 to {width - 1} (counted from 0), got {column} for {path}"
        )
    return [row[column] for row in rows]


def _parquet(path: Path, what: str) -> list[str]:
    import polars as pl

    try:
        header = list(pl.read_parquet_schema(path))
        position = column_of(header, "name")
        column = None if position is None else pl.read_parquet(path, columns=[position])
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UsageError(
            f"{what}: expected a parquet file at {path}, but it cannot be read ({error})"
        ) from error
    if column is None:
        raise UsageError(
            f"{what}: expected a column 'name', got {_listed(header)} in {path}; rename a column"
        )
    values = column.to_series()
    if values.dtype not in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        raise UsageError(
            f"{what}: expected text in column 'name' of {path}, got {values.dtype}; "
            "save the names as text"
        )
    return [str(name) for name in values.drop_nulls()]


def _listed(header: Iterable[str]) -> str:
    return ", ".join(repr(field) for field in header)
