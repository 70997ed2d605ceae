"""Run folders with one thing wrong: schema, rows, values within rows, pages, files beside."""

import json
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

from .case import DONE, FILES, REFUSED, Case, questions
from .mutate import places

FILE = "run.sqlite"
READINGS: tuple[tuple[str, ...], ...] = (
    ("summary",),
    ("summary", "--json"),
    ("report", "--out", "report.html"),
    ("export", "--table", "items", "--to", "rows.jsonl"),
    ("export", "--table", "trials", "--to", "rows.csv"),
    ("export", "--table", "exchanges", "--to", "rows.jsonl"),
    ("review", "--export", "cases.html"),
    ("verify",),
    ("verify", "--json"),
)
"""Commands that read a folder; `figures`, which draws for seconds, is tried in the unit tests."""
TABLES = (
    *("manifest", "items", "arms", "trials", "verdicts", "findings", "renewals", "commits"),
    *("interrupted", "answers", "exchanges"),
)
_JSON = (
    ("manifest", "value"),
    ("items", "body"),
    ("arms", "spec"),
    ("verdicts", "result"),
    ("answers", "body"),
    ("exchanges", "edits"),
)
_ODD: tuple[Any, ...] = (
    None, True, -1, 0, 500_000_000, 10**40, 1.5, float("nan"), "", "x" * 5_000, [], {},
    [[[[]]]], {"a": None}, ["\x1b[31m", "\ud800"], "<script>alert(1)</script>",
)  # fmt: skip
_SCHEMA = (
    "DROP TABLE {table}",
    "ALTER TABLE {table} RENAME TO other",
    "ALTER TABLE {table} ADD COLUMN more TEXT",
    "CREATE TABLE more (a, b)",
    "CREATE VIEW more AS SELECT 1",
    "CREATE INDEX more ON trials (repeat)",
    "CREATE TRIGGER more AFTER INSERT ON {table} BEGIN SELECT 1; END",
    "DROP TABLE trials; CREATE VIEW trials AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "
    "SELECT i + 1 FROM n) SELECT i AS id, 'a' AS trial_id, 1 AS arm, 1 AS item, 0 AS repeat, "
    "'held' AS verdict, '{{}}' AS result FROM n",
    "PRAGMA user_version = 0",
    "PRAGMA user_version = 77",
    "PRAGMA user_version = 1",
    "DELETE FROM {table}",
)


def case(rng: Random) -> Case:
    """A folder with one thing wrong."""
    name, change = rng.choice((_schema, _value, _cell, _cell, _page, _outside))(rng)
    command, *more = rng.choice(READINGS)
    # Else the chain refuses nearly everything before it is interpreted.
    with_digests = not name.startswith("schema") and rng.random() < 0.7

    def write(folder: Path) -> Sequence[str]:
        shutil.copytree(good_folder(), folder / "run")
        change(folder / "run")
        if with_digests:
            _make_digests(folder / "run")
        given = [str(folder / word) if "." in word else word for word in more]
        return [command, str(folder / "run"), *given]

    return Case(name=f"{command}: {name}", write=write, codes=frozenset({DONE, REFUSED}))


@lru_cache(maxsize=1)
def good_folder() -> Path:
    """A small run with successes, made once in each process."""
    from medstress.api.run import run

    folder = Path(mkdtemp(prefix="medstress-good-"))
    for name, content in FILES.items():
        (folder / name).write_text(content, "utf-8")
    experiment = questions()
    experiment["dataset"][0]["path"] = str(folder / "items.jsonl")
    experiment["entities"][0]["vocabulary"] = str(folder / "names.csv")
    victim = {"name": "v", "backend": "python", "target": f"{folder}/victim.py:fooled"}
    experiment |= {"victim": [victim]}
    experiment["experiment"]["seeds"] = [0, 1, 2]
    run(experiment, folder / "run")
    return folder / "run"


def _make_digests(folder: Path) -> None:
    """Make all digests again, where that can be done."""
    from medstress.store.chain import ROOT, RUN_CHAIN, finish, keep_root, link

    with suppress(Exception), closing(sqlite3.connect(folder / FILE)) as db, db:
        ended = db.execute("SELECT trial, verdict, result FROM verdicts ORDER BY id").fetchall()
        db.execute("DELETE FROM verdicts")
        for trial, verdict, result in ended:
            finish(db, trial, 0, verdict, result)
        db.execute("DELETE FROM manifest WHERE key = ?", (ROOT,))
        db.execute("DELETE FROM commits")
        keep_root(db)
        link(db, RUN_CHAIN)


Way = tuple[str, Callable[[Path], None]]


def _schema(rng: Random) -> Way:
    script = rng.choice(_SCHEMA).format(table=rng.choice(TABLES))

    def change(folder: Path) -> None:
        with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as db:
            db.executescript(script)

    return f"schema: {script[:60]}", change


def _value(rng: Random) -> Way:
    """One value somewhere within the JSON of one row."""
    table, column = rng.choice(_JSON)
    odd, place = rng.choice(_ODD), rng.random()
    deep = rng.random() < 0.1

    def change(folder: Path) -> None:
        with closing(sqlite3.connect(folder / FILE)) as db:
            key = _key(db, table)
            rows = db.execute(
                f"SELECT {key}, {column} FROM {table} WHERE {column} IS NOT NULL"
            ).fetchall()
            if not rows:
                return
            *at, text = rows[int(place * len(rows))]
            told = "[" * 50_000 + "]" * 50_000 if deep else _changed(text, odd, place)
            where = " AND ".join(f"{name.strip()} = ?" for name in key.split(","))
            db.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (told, *at))
            db.commit()

    return f"value: {table}.{column}: {'nested deep' if deep else repr(odd)[:40]}", change


def _changed(text: str, odd: Any, place: float) -> str:
    """JSON with one part of it exchanged."""
    value = json.loads(text)
    paths = list(places(value))
    if not paths:
        return json.dumps(odd)
    holder, path = value, paths[int(place * 7_919) % len(paths)]
    for key in path[:-1]:
        holder = holder[key]
    if place > 0.8:
        del holder[path[-1]]
    else:
        holder[path[-1]] = odd
    return json.dumps(value)


def _cell(rng: Random) -> Way:
    """One cell of one row, of another type or far too large."""
    table = rng.choice(TABLES)
    odd = rng.choice((None, -1, 2**62, 1e308, "text", b"\x00\xff", "x" * 100_000, b"y" * 100_000))
    place, in_text = rng.random(), rng.random() < 0.5

    def change(folder: Path) -> None:
        with closing(sqlite3.connect(folder / FILE)) as db:
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            column = columns[int(place * len(columns))]
            every = "" if in_text else " WHERE rowid = (SELECT MIN(rowid) FROM items)"
            try:
                db.execute(f"UPDATE {table} SET {column} = ?{every}", (odd,))
            except sqlite3.Error:
                return  # the schema forbids it, and the folder stays good
            db.commit()

    return f"cell: {table}: {odd!r}"[:60], change


def _page(rng: Random) -> Way:
    """Bytes within the file, or its end."""
    place, data, is_cut = rng.random(), rng.randbytes(rng.choice((1, 16, 512))), rng.random() < 0.3

    def change(folder: Path) -> None:
        path = folder / FILE
        content = bytearray(path.read_bytes())
        at = int(place * len(content))
        if is_cut:
            content = content[:at]
        else:
            content[at : at + len(data)] = data
        path.write_bytes(content)

    return f"page: {'cut' if is_cut else f'{len(data)} bytes'} at {place:.2f}", change


def _outside(rng: Random) -> Way:
    """Other files of the folder, or the database gone."""
    ending = rng.choice(("-wal", "-shm", "-journal"))
    what = rng.choice(("bytes", "link", "folder", "gone", "empty", "text"))
    data = rng.randbytes(4_096)

    def change(folder: Path) -> None:
        beside = folder / f"{FILE}{ending}"
        match what:
            case "bytes":
                beside.write_bytes(data)
            case "link":
                beside.symlink_to("/etc/hostname")
            case "folder":
                beside.mkdir()
            case "gone":
                (folder / FILE).unlink()
            case "empty":
                (folder / FILE).write_bytes(b"")
            case _:
                (folder / FILE).write_text("not a database\n" * 400)

    return f"beside: {ending} {what}", change


def _key(db: sqlite3.Connection, table: str) -> str:
    names = [row[1] for row in db.execute(f"PRAGMA table_info({table})") if row[5]]
    return ", ".join(names) if names else "rowid"
