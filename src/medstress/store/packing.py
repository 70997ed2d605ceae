"""Move the exchanges of a merged run from its ledger to Parquet files, one per shard."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from medstress.core.calls import FROM_CACHE, PACKED
from medstress.core.errors import StoreError
from medstress.files.writing import Access, atomic_path, make_folder
from medstress.store.merge_order import Order
from medstress.store.packed import GROUP, SCHEMA, file_digest
from medstress.store.spending import VICTIM
from medstress.store.views import make_views

# What is known only over all calls. The marks are those of the queries in
# `medstress.store.reader` and `medstress.store.spending`.
_MARKS = f"""
CREATE TEMP TABLE marks (
    trial INTEGER, attempt INTEGER, seq INTEGER, is_first INTEGER, pays INTEGER, stands INTEGER,
    PRIMARY KEY (trial, attempt, seq)) WITHOUT ROWID;
INSERT INTO marks
SELECT trial, attempt, seq,
    ROW_NUMBER() OVER (PARTITION BY key ORDER BY error IS NOT NULL, trial, seq) = 1,
    role = '{VICTIM}' AND error IS NULL AND ROW_NUMBER() OVER (
        PARTITION BY key, role = '{VICTIM}' ORDER BY error IS NOT NULL, trial, seq) = 1
        AND key NOT IN (SELECT key FROM answers WHERE trial = {FROM_CACHE}),
    error IS NULL AND answer IS NOT NULL
        AND ROW_NUMBER() OVER (PARTITION BY answer ORDER BY error IS NOT NULL, trial, seq) = 1
FROM (
    SELECT e.trial, e.attempt, e.seq, e.role, e.error, e.answer, COALESCE(s.key, e.key) AS key
    FROM main.exchanges e LEFT JOIN answers s ON s.id = e.answer WHERE e.attempt = (
        SELECT COUNT(*) FROM main.verdicts v WHERE v.trial = e.trial AND v.verdict IS NULL))
ORDER BY trial, attempt, seq;
CREATE TEMP TABLE other_roles AS
    SELECT key, MIN(role) AS role FROM calls WHERE role != '{VICTIM}' GROUP BY key;
CREATE UNIQUE INDEX temp.role_of_key ON other_roles (key);
"""
_CACHE = -8192
"""KiB that each sorter takes before it goes to a file; the marks take three at once."""
_ROWS = f"""
SELECT e.trial, e.attempt, e.seq, e.role, e.purpose, e.query, e.call, COALESCE(s.key, e.key),
       e.edits, e.request, e.error, s.trial, s.body, s.seconds, s.tokens_in, s.tokens_out,
       m.trial IS NOT NULL, COALESCE(m.is_first, 0), COALESCE(m.pays, 0), COALESCE(m.stands, 0),
       COALESCE((SELECT role FROM temp.other_roles o WHERE o.key = s.key), '{VICTIM}')
FROM main.exchanges e LEFT JOIN answers s ON s.id = e.answer LEFT JOIN temp.marks m
    ON m.trial = e.trial AND m.attempt = e.attempt AND m.seq = e.seq
WHERE e.trial BETWEEN ? AND ? ORDER BY e.trial, e.attempt, e.seq
"""
# What stays in the ledger: answers that no call stands for, as of calls ahead. If their key is
# packed all the same, for two shards bought it, a second row says so.
_LEFT = f"""
CREATE TEMP TABLE kept AS
SELECT key, trial, body, seconds, tokens_in, tokens_out FROM main.answers WHERE id NOT IN (
    SELECT e.answer FROM main.exchanges e JOIN temp.marks m
    ON m.trial = e.trial AND m.attempt = e.attempt AND m.seq = e.seq WHERE m.stands)
ORDER BY id;
INSERT INTO kept
SELECT key, {PACKED}, body, seconds, tokens_in, tokens_out FROM kept
WHERE key IN (SELECT key FROM calls WHERE error IS NULL);
DELETE FROM main.exchanges;
DELETE FROM main.answers;
INSERT INTO main.answers (key, trial, body, seconds, tokens_in, tokens_out)
    SELECT key, trial, body, seconds, tokens_in, tokens_out FROM kept;
DROP TABLE temp.kept;
DROP TABLE temp.marks;
DROP TABLE temp.other_roles;
"""


def pack(
    db: sqlite3.Connection, order: Order, numbers: list[int], to: Path, access: Access
) -> list[dict[str, Any]]:
    """Write the exchanges of each shard to a file of its own, and take them from the ledger.

    Args:
        db: the merged run, whole but for its manifest; all its trials have ended for good.
        order: of its trials.
        numbers: of the shards, which name the files.
        to: the folder for the files.
        access: who may read them.

    Returns:
        What the manifest says of the files.
    """
    make_views(db)
    db.execute(f"PRAGMA cache_size = {_CACHE}")
    _script(db, _MARKS)
    make_folder(to, access)
    files = []
    for source, number in enumerate(numbers):
        path = to / f"{number}.parquet"
        spans = [
            (each.first + each.shift, each.last + each.shift)
            for each in order.stretches
            if each.source == source
        ]
        n = _write(db, spans, path, access)
        told = {"file": path.name, "rows": n, "bytes": path.stat().st_size}
        files.append({**told, "digest": file_digest(path)})
    _script(db, _LEFT)
    return files


def _write(db: sqlite3.Connection, spans: list[tuple[int, int]], path: Path, access: Access) -> int:
    n, failure = 0, list[BaseException]()

    def parts(*_: object) -> Iterator[pl.DataFrame]:
        nonlocal n
        try:
            for part in _parts(db, spans):
                n += len(part)
                yield part
        except BaseException as error:  # polars would hide what it was
            failure.append(error)
            raise

    with atomic_path(path, access) as part:
        try:
            source = register_io_source(parts, schema=SCHEMA, is_pure=True)
            source.sink_parquet(part, row_group_size=GROUP, compression="zstd")
        except pl.exceptions.PolarsError as error:
            raise (failure[0] if failure else StoreError(f"cannot write {path}: {error}")) from None
    return n


def _parts(db: sqlite3.Connection, spans: list[tuple[int, int]]) -> Iterator[pl.DataFrame]:
    """Yield the rows of some trials, `GROUP` at a time."""
    kept: list[tuple[Any, ...]] = []
    for span in spans:
        cursor = db.execute(_ROWS, span)
        while more := cursor.fetchmany(GROUP - len(kept)):
            kept += more
            if len(kept) == GROUP:
                yield _frame(kept)
                kept = []
    if kept:
        yield _frame(kept)


def _frame(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    columns = zip(SCHEMA.items(), zip(*rows, strict=True), strict=True)
    return pl.DataFrame(
        [
            pl.Series(name, map(bool, values) if kind == pl.Boolean else values, kind)
            for (name, kind), values in columns
        ]
    )


def _script(db: sqlite3.Connection, script: str) -> None:
    """Run statements inside the open transaction, which `executescript` would commit."""
    for statement in filter(None, map(str.strip, script.split(";"))):
        db.execute(statement)
