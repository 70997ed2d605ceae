"""Check that a database contains exactly the tables that medstress makes.

The known tables are created in memory from the same SQL as real ones and compared with those of the
file by their text, which reveals a view in place of a table, a trigger or another column.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

from medstress.core.errors import StoreError

FORMAT = 4
"""The format of runs that is written."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schema:
    """The objects of one kind of file."""

    holds: str
    """What it holds, for messages."""
    format: int
    """The format that is written and read."""
    scripts: tuple[str, ...]
    """The SQL files that make it."""
    marks: frozenset[str]
    """Tables by which a file of an unknown format is still known to be ours."""


RUN = Schema(
    holds="a run",
    format=FORMAT,
    scripts=("plan.sql", "answers.sql", "ledger.sql"),
    marks=frozenset({"manifest", "trials"}),
)
REVIEWS = Schema(
    holds="reviews",
    format=2,
    scripts=("reviews.sql", "review_commits.sql"),
    marks=frozenset({"rooms", "verdicts"}),
)


@dataclass(frozen=True, slots=True)
class _Object:
    """One entry of `sqlite_master`."""

    kind: str
    table: str
    sql: str
    """SQL without white space, which `ALTER TABLE` and editors may change."""


_Objects: TypeAlias = dict[str, _Object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a known table."""

    name: str
    """As declared."""
    type: str
    """Declared type in lower case: text, integer, real or blob."""
    is_null: bool
    """Whether it may be null."""
    is_key: bool
    """Whether it belongs to the primary key."""


def sql_of(name: str) -> str:
    """Return the text of an SQL file beside this module."""
    return (files("medstress.store") / name).read_text("utf-8")


def check_schema(db: sqlite3.Connection, file: Path, schema: Schema = RUN) -> int:
    """Compare the objects of a database with those that medstress makes.

    Args:
        db: the database; only its list of objects is read.
        file: its name, for errors.
        schema: what the file should hold.

    Returns:
        Its format; 0 for an empty database.

    Raises:
        StoreError: an object is unknown, changed or missing.
    """
    found = _objects(db)
    known = int(db.execute("PRAGMA user_version").fetchone()[0])
    if known == 0 and not found:
        return 0
    if known != schema.format:
        if known == 0 or not schema.marks <= set(found):
            raise StoreError(
                f"{file} is a database that medstress did not make ({_some(found)}); it is not "
                "touched: give the folder of a run, or choose another with --out"
            )
        raise StoreError(
            f"{file.parent} holds {schema.holds} of format {known}, but this medstress reads "
            f"format {schema.format}; use the medstress that wrote it, or choose another folder "
            "with --out"
        )
    if wrong := _difference(found, _made(schema)):
        raise StoreError(
            f"{file} is not as medstress makes it: {wrong}; another program made or changed it, "
            "so it is not opened"
        )
    return known


@cache
def known_tables(schema: Schema = RUN) -> Mapping[str, tuple[Column, ...]]:
    """Return the tables of a kind of file with their columns."""
    with closing(_database(schema)) as db:
        names = [name for name, one in _objects(db).items() if one.kind == "table"]
        return {
            name: tuple(
                Column(name=column, type=kind.lower(), is_null=not filled, is_key=bool(key))
                for _, column, kind, filled, _, key in db.execute(f"PRAGMA table_info({name})")
            )
            for name in names
        }


@cache
def _made(schema: Schema) -> _Objects:
    with closing(_database(schema)) as db:
        return _objects(db)


def _database(schema: Schema) -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None)
    for name in schema.scripts:
        db.executescript(sql_of(name))
    return db


def _objects(db: sqlite3.Connection) -> _Objects:
    rows = db.execute("SELECT name, type, tbl_name, sql FROM sqlite_master")
    return {
        str(name): _Object(kind, table, "".join((sql or "").split()))
        for name, kind, table, sql in rows
    }


def _difference(found: _Objects, expected: _Objects) -> str | None:
    for name, one in found.items():
        known = expected.get(name)
        if known is None:
            return f"it has an unknown {_kind(one)} {name!r}"
        if one.kind != known.kind:
            return f"{name!r} is a {_kind(one)}, expected a {known.kind}"
        if one != known:
            return f"the {_kind(one)} {name!r} has other columns or rules"
    missing = next((name for name in expected if name not in found), None)
    return None if missing is None else f"the {expected[missing].kind} {missing!r} is missing"


def _kind(one: _Object) -> str:
    if one.sql.upper().startswith("CREATEVIRTUAL"):
        return "virtual table"
    return one.kind if one.kind in ("table", "index", "view", "trigger") else "object"


def _some(found: _Objects) -> str:
    names = ", ".join(map(repr, sorted(found)[:3])) or "no tables"
    return f"{names}, ..." if len(found) > 3 else names
