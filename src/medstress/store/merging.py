"""Write the ledger of a merged run: what several shards hold, in the order of the plan."""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from medstress.core.calls import FROM_CACHE
from medstress.store.chain import RUN_CHAIN, link
from medstress.store.formats import bring_up_to_date
from medstress.store.merge_answers import MergedAnswers
from medstress.store.merge_order import Order, plan_order
from medstress.store.shards import SHARDS, StoredShard

_TRIALS = "SELECT trial_id, arm, item, repeat FROM main.trials WHERE id BETWEEN ? AND ? ORDER BY id"
_VERDICTS = (
    "SELECT trial + ?, verdict, result, exchanges, digest FROM main.verdicts "
    "WHERE trial BETWEEN ? AND ? ORDER BY trial, id"
)
_FINDINGS = (
    "SELECT trial + ?, name, value FROM main.findings WHERE trial BETWEEN ? AND ? "
    "ORDER BY trial, id"
)
_EXCHANGES = (
    "SELECT trial + ?, attempt, seq, role, purpose, query, call, {answer}, key, edits, request, "
    "error FROM main.exchanges WHERE trial BETWEEN ? AND ? ORDER BY trial, attempt, seq"
)
_PRAGMAS = ("journal_mode = OFF", "synchronous = OFF", "cache_size = -65536")
"""The file is new, and is no run before it is whole and renamed."""
_DOUBLED = f"""
SELECT key, COUNT(*) AS n FROM answers WHERE trial != {FROM_CACHE} GROUP BY key HAVING n > 1
"""
_OTHERWISE = f"""
SELECT COUNT(*) FROM (
    SELECT key FROM answers WHERE trial != {FROM_CACHE} AND key IN (SELECT key FROM temp.doubled)
    GROUP BY key HAVING COUNT(DISTINCT body) > 1)
"""


HELD = "held"
"""Key in the entry `SHARDS`: what each shard held when it was merged."""
LAST = "last_answer"
"""Key in the entry `SHARDS`: the last row of `answers`; the merged run bought those after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What a merged run holds."""

    n_answers: int
    """Answers, computed or taken from the shared cache."""
    bought_twice: int
    """Computed calls beyond the first of each: two shards bought the same."""
    answered_otherwise: int
    """Calls that two shards bought and that were answered differently, as near-ties of a local
    model are."""


def write_merged(file: Path, shards: Sequence[StoredShard], manifest: Mapping[str, Any]) -> Counts:
    """Write the database of a merged run.

    Args:
        file: a new, empty file.
        shards: of one plan, in order, each item in one of them.
        manifest: of the merged run; `SHARDS` is completed with the counts.

    Raises:
        sqlite3.Error: it cannot be written.
    """
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        for pragma in _PRAGMAS:
            db.execute(f"PRAGMA {pragma}")
        bring_up_to_date(db, file)
        db.execute("BEGIN")
        order, answers = plan_order(shards), MergedAnswers(shards)
        trials = [array("q", each) for each in order.trials]
        _write_plan(db, shards, order)
        db.executemany(
            "INSERT INTO answers (key, trial, body, seconds, tokens_in, tokens_out) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            answers.kept(trials),
        )
        _write_trials(db, shards, order, answers)
        db.executemany("INSERT INTO interrupted VALUES (?, ?)", list(_interrupted(shards, trials)))
        twice, otherwise = _bought_twice(db)
        counts = Counts(
            n_answers=answers.n,
            bought_twice=twice,
            answered_otherwise=otherwise,
        )
        told = {
            **manifest[SHARDS],
            "bought_twice": counts.bought_twice,
            "answered_otherwise": counts.answered_otherwise,
            "n_answers": counts.n_answers,
            HELD: {str(each.shard.number): each.held for each in shards},
            LAST: db.execute("SELECT COALESCE(MAX(id), 0) FROM main.answers").fetchone()[0],
        }
        db.executemany(
            "INSERT INTO main.manifest (key, value) VALUES (?, ?)",
            [
                (key, json.dumps(value, ensure_ascii=False))
                for key, value in {**manifest, SHARDS: told}.items()
            ],
        )
        link(db, RUN_CHAIN)
        db.execute("COMMIT")
    return counts


def _bought_twice(db: sqlite3.Connection) -> tuple[int, int]:
    """Count the calls beyond the first of each, and those that were answered differently."""
    db.execute(f"CREATE TEMP TABLE doubled AS {_DOUBLED}")
    (twice,) = db.execute("SELECT COALESCE(SUM(n - 1), 0) FROM temp.doubled").fetchone()
    return twice, db.execute(_OTHERWISE).fetchone()[0] if twice else 0


def _write_plan(db: sqlite3.Connection, shards: Sequence[StoredShard], order: Order) -> None:
    db.executemany(
        "INSERT INTO arms (dataset, grp, victim, attack, spec, seed) VALUES (?, ?, ?, ?, ?, ?)",
        order.arms,
    )
    one = "SELECT dataset, item_id, hash, body FROM main.items WHERE id = ?"
    db.executemany(
        "INSERT INTO items (dataset, item_id, hash, body) VALUES (?, ?, ?, ?)",
        (next(shards[source].rows(one, (row,))) for source, row in order.items),
    )
    for source, shard in enumerate(shards):
        renewed = shard.rows("SELECT item, body FROM main.renewals ORDER BY id")
        db.executemany(
            "INSERT INTO renewals (item, body) VALUES (?, ?)",
            [(order.item_rows[source][item], body) for item, body in renewed],
        )


def _write_trials(
    db: sqlite3.Connection,
    shards: Sequence[StoredShard],
    order: Order,
    answers: MergedAnswers,
) -> None:
    """Write trials, how they ended and what they consumed, in the order of the plan."""

    def trials() -> Iterator[tuple[object, ...]]:
        for each in order.stretches:
            arms, items = order.arm_rows[each.source], order.item_rows[each.source]
            rows = shards[each.source].rows(_TRIALS, (each.first, each.last))
            for trial_id, arm, item, repeat in rows:
                yield trial_id, arms[arm], items[item], repeat

    def shifted(query: str) -> Iterator[tuple[object, ...]]:
        for each in order.stretches:
            values = (each.shift, each.first, each.last)
            yield from shards[each.source].rows(query, values)

    def exchanges() -> Iterator[tuple[object, ...]]:
        for each in order.stretches:
            shift, shard = answers.shift(each.source), shards[each.source]
            query = _EXCHANGES.format(answer="answer" if shift is None else f"answer + {shift}")
            rows = shard.rows(query, (each.shift, each.first, each.last))
            if shift is not None:
                yield from rows
                continue
            for row in rows:
                yield (*row[:7], answers.row(each.source, row[7]), *row[8:])

    db.executemany("INSERT INTO trials (trial_id, arm, item, repeat) VALUES (?, ?, ?, ?)", trials())
    db.executemany(
        "INSERT INTO verdicts (trial, verdict, result, exchanges, digest) VALUES (?, ?, ?, ?, ?)",
        shifted(_VERDICTS),
    )
    db.executemany("INSERT INTO findings (trial, name, value) VALUES (?, ?, ?)", shifted(_FINDINGS))
    db.executemany(f"INSERT INTO exchanges VALUES ({', '.join('?' * 12)})", exchanges())


def _interrupted(
    shards: Sequence[StoredShard], trials: Sequence[Sequence[int]]
) -> Iterator[tuple[bytes, int]]:
    """Yield the calls that were in flight when a process died, also those of the last one."""
    for shard, rows in zip(shards, trials, strict=True):
        for key, trial in shard.rows("SELECT key, trial FROM main.interrupted"):
            yield key, rows[trial]
        left = {
            bytes.fromhex(key): trial
            for (calls,) in shard.rows("SELECT calls FROM main.dispatched ORDER BY id")
            for key, trial in orjson.loads(calls)
        }
        if left:
            for (key,) in shard.rows("SELECT key FROM main.answers"):
                left.pop(key, None)
            yield from ((key, rows[trial]) for key, trial in sorted(left.items()))
