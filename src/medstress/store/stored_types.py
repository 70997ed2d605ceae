"""Whether every stored value has the type that its column declares.

SQLite stores any value in any column; a file from elsewhere may hold a text where a number
belongs, or a row that points at no other.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from medstress.errors import StoreError
from medstress.store.known_schema import Column


def check_types(db: sqlite3.Connection, file: Path, tables: Mapping[str, Sequence[Column]]) -> None:
    """Check every value of a run whose schema is known.

    Args:
        db: the run.
        file: its name, for errors.
        tables: the known tables; those that are missing are left out.

    Raises:
        StoreError: naming table, row and column.
    """
    there = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    for table in there & set(tables):
        for place, column, kind in _wrong(db, table, tables[table]):
            raise StoreError(
                f"{file}: table {table}, row {place}: expected {column.type} in "
                f"{column.name}, found {kind}; the file was changed by another programme"
            )
    for table, row, other, _ in db.execute("PRAGMA foreign_key_check(trials)"):
        raise StoreError(
            f"{file}: table {table}, row {row} names a row of {other} that is not there; the file "
            "was changed by another programme"
        )


def _wrong(
    db: sqlite3.Connection, table: str, columns: Sequence[Column]
) -> Iterator[tuple[str, Column, str]]:
    """The first row with a wrong value, if any: its place, the column, and what is there."""
    tests = [_is_right(column) for column in columns]
    keys = [column.name for column in columns if column.is_key] or ["rowid"]
    found = db.execute(
        f"SELECT {', '.join([*keys, *tests])}, {', '.join(map(_type, columns))} FROM {table} "
        f"WHERE NOT ({' AND '.join(tests)}) LIMIT 1"
    ).fetchone()
    if found is not None:
        n = len(keys)
        kinds = found[n + len(tests) :]
        for column, is_right, kind in zip(columns, found[n:], kinds, strict=False):
            if not is_right:
                yield ", ".join(repr(key)[:40] for key in found[:n]), column, kind


def _is_right(column: Column) -> str:
    """SQL that is 1 for a value of the declared type."""
    name, test = column.name, f"typeof({column.name}) = '{column.type}'"
    if column.type == "real":
        test = f"({test} AND abs({name}) < 9e999)"
    return f"({test} OR {name} IS NULL)" if column.is_null else test


def _type(column: Column) -> str:
    return f"typeof({column.name})"
