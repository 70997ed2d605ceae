"""Check that every stored value has the type that its column declares.

SQLite stores any value in any column. A file from elsewhere may hold text where a number belongs,
or a row that refers to a missing one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from medstress.core.errors import StoreError
from medstress.store.known_schema import Column

_REFERRING = {"trials", "verdicts", "findings", "renewals"}
"""Tables of a run whose references are checked; those of exchanges are many."""


def check_types(db: sqlite3.Connection, file: Path, tables: Mapping[str, Sequence[Column]]) -> None:
    """Check every value of a file whose schema is known.

    Args:
        db: a run, or its reviews.
        file: its name, for errors.
        tables: the known tables; missing ones are skipped.

    Raises:
        StoreError: a value has another type; the message names table, row and column.
    """
    present = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    for table in present & set(tables):
        for place, column, kind in _wrong(db, table, tables[table]):
            raise StoreError(
                f"{file}: table {table}, row {place}: expected {column.type} in "
                f"{column.name}, found {kind}; another program changed the file"
            )
    for checked in _REFERRING & present & set(tables) if "trials" in tables else ():
        for table, row, other, _ in db.execute(f"PRAGMA foreign_key_check({checked})"):
            raise StoreError(
                f"{file}: table {table}, row {row}: expected a row of {other} that it refers to, "
                "found none; another program changed the file"
            )


def _wrong(
    db: sqlite3.Connection, table: str, columns: Sequence[Column]
) -> Iterator[tuple[str, Column, str]]:
    """Yield (key of the row, column, stored type) for the first row with wrong values."""
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
    """Return SQL that is 1 for a value of the declared type."""
    name, test = column.name, f"typeof({column.name}) = '{column.type}'"
    if column.type == "real":
        test = f"({test} AND abs({name}) < 9e999)"
    return f"({test} OR {name} IS NULL)" if column.is_null else test


def _type(column: Column) -> str:
    return f"typeof({column.name})"
