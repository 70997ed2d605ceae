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
from medstress.store import reviews

FORMAT = 3
"""The format of runs that is written."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schema:
    """The objects of one kind of file, in every format that can be read."""

    holds: str
    """What it holds, for messages."""
    format: int
    """The format that is written."""
    scripts: Mapping[int, tuple[str, ...]]
    """Readable format -> the SQL files that make it."""
    may_lack: Mapping[int, tuple[str, ...]]
    """Readable format -> objects that its first files lack."""
    marks: frozenset[str]
    """Tables by which a file of an unknown format is still known to be ours."""


RUN = Schema(
    holds="a run",
    format=FORMAT,
    scripts={
        1: ("plan.sql", "ledger_2.sql", "calls_1.sql"),
        2: ("plan.sql", "ledger_2.sql", "answers.sql", "exchanges_2.sql"),
        FORMAT: ("plan.sql", "answers.sql", "ledger.sql"),
    },
    may_lack={
        1: (reviews.TABLE, "CREATE INDEX taken ON answers (trial) WHERE trial = 0"),
        2: (reviews.TABLE,),
        FORMAT: (reviews.TABLE,),
    },
    marks=frozenset({"manifest", "trials"}),
)
REVIEWS = Schema(
    holds="reviews",
    format=2,
    scripts={1: ("reviews.sql",), 2: ("reviews.sql", "review_commits.sql")},
    may_lack={1: (), 2: ()},
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
    if known not in schema.scripts:
        if known == 0 or not schema.marks <= set(found):
            raise StoreError(
                f"{file} is a database that medstress did not make ({_some(found)}); it is not "
                "touched: give the folder of a run, or choose another with --out"
            )
        raise StoreError(
            f"{file.parent} holds {schema.holds} of format {known}, but this medstress reads up to "
            f"{schema.format}; use the medstress that wrote it, or choose another folder with "
            "--out"
        )
    if wrong := _difference(found, *_schemas_of(known, schema)):
        raise StoreError(
            f"{file} is not as medstress makes it: {wrong}; another program made or changed it, "
            "so it is not opened"
        )
    return known


@cache
def known_tables(format_: int, schema: Schema = RUN) -> Mapping[str, tuple[Column, ...]]:
    """Return the tables of a format with their columns, including tables that may be missing."""
    with closing(_database(format_, schema, is_whole=True)) as db:
        names = [name for name, one in _objects(db).items() if one.kind == "table"]
        return {
            name: tuple(
                Column(name=column, type=kind.lower(), is_null=not filled, is_key=bool(key))
                for _, column, kind, filled, _, key in db.execute(f"PRAGMA table_info({name})")
            )
            for name in names
        }


@cache
def _schemas_of(format_: int, schema: Schema) -> tuple[_Objects, _Objects]:
    """Return the objects that a file of a format must contain, and those that it may."""
    with (
        closing(_database(format_, schema)) as least,
        closing(_database(format_, schema, is_whole=True)) as most,
    ):
        return _objects(least), _objects(most)


def _database(format_: int, schema: Schema, *, is_whole: bool = False) -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None)
    for name in schema.scripts[format_]:
        db.executescript(sql_of(name))
    for extra in schema.may_lack[format_] if is_whole else ():
        db.execute(extra)
    return db


def _objects(db: sqlite3.Connection) -> _Objects:
    rows = db.execute("SELECT name, type, tbl_name, sql FROM sqlite_master")
    return {
        str(name): _Object(kind, table, "".join((sql or "").split()))
        for name, kind, table, sql in rows
    }


def _difference(found: _Objects, least: _Objects, most: _Objects) -> str | None:
    for name, one in found.items():
        known = most.get(name)
        if known is None:
            return f"it has an unknown {_kind(one)} {name!r}"
        if one.kind != known.kind:
            return f"{name!r} is a {_kind(one)}, expected a {known.kind}"
        if one != known:
            return f"the {_kind(one)} {name!r} has other columns or rules"
    return next(
        (f"the {one.kind} {name!r} is missing" for name, one in least.items() if name not in found),
        None,
    )


def _kind(one: _Object) -> str:
    if one.sql.upper().startswith("CREATEVIRTUAL"):
        return "virtual table"
    return one.kind if one.kind in ("table", "index", "view", "trigger") else "object"


def _some(found: _Objects) -> str:
    names = ", ".join(map(repr, sorted(found)[:3])) or "no tables"
    return f"{names}, ..." if len(found) > 3 else names
