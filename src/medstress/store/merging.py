"""Write the ledger of a merged run: what several shards hold, in the order of the plan."""

from __future__ import annotations

import json
import sqlite3
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from medstress.core.calls import FROM_CACHE
from medstress.store.chain import RUN_CHAIN, link
from medstress.store.merge_order import Order, plan_order
from medstress.store.shards import SHARDS, StoredShard
from medstress.store.views import make_schema

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
    "SELECT trial + ?, attempt, seq, role, purpose, query, call, {answer}, key, edits, flags, "
    "request, error FROM main.exchanges WHERE trial BETWEEN ? AND ? ORDER BY trial, attempt, seq"
)
_BODIES = "SELECT id, key, trial, body FROM main.answers ORDER BY id"
_ANSWERS = (
    "SELECT id, key, trial, body, seconds, tokens_in, tokens_out FROM main.answers ORDER BY id"
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


class MergedAnswers:
    """Where the answers of several shards stand in the merged run.

    All answers that were computed are kept, shard by shard, also where two shards bought the same
    call: each trial keeps the answer that it was judged by, and what was spent stays counted. An
    answer from the shared cache is left out where another shard computed it, or also took it from
    there. Memory grows only with the answers that are left out, not with those that are kept.
    """

    def __init__(self, shards: Sequence[StoredShard]) -> None:
        self._shards = shards
        taken = [_count(each, f"WHERE trial = {FROM_CACHE}") for each in shards]
        self._kept_elsewhere = _same_elsewhere(shards) if any(taken) else {}
        self._left_out: list[list[int]] = [[] for _ in shards]
        for source, row in sorted(self._kept_elsewhere):
            self._left_out[source].append(row)
        self._before: list[int] = []
        self.n = 0
        """How many rows there are."""
        for source, each in enumerate(shards):
            self._before.append(self.n)
            self.n += _count(each) - len(self._left_out[source])

    def row(self, source: int, row: int | None) -> int | None:
        """Return the row of a shard's answer in the merged run; None stays None."""
        if row is None:
            return None
        source, row = self._kept_elsewhere.get((source, row), (source, row))
        return self._before[source] + row - bisect_left(self._left_out[source], row)

    def shift(self, source: int) -> int | None:
        """Return what is added to every row of a shard; None if it is not the same for all."""
        return None if self._left_out[source] else self._before[source]

    def kept(self, trials: Sequence[Sequence[int]]) -> Iterator[tuple[object, ...]]:
        """Yield the rows of the merged table, in order, without their numbers.

        Args:
            trials: of every shard, row of a trial -> its row in the merged run.
        """
        for source, shard in enumerate(self._shards):
            left_out, own = set(self._left_out[source]), trials[source]
            for row, key, trial, *rest in shard.rows(_ANSWERS):
                if row not in left_out:
                    yield (key, own[trial], *rest)


def _count(shard: StoredShard, where: str = "") -> int:
    return int(next(shard.rows(f"SELECT COUNT(*) FROM main.answers {where}"))[0])


def _same_elsewhere(
    shards: Sequence[StoredShard],
) -> dict[tuple[int, int], tuple[int, int]]:
    """Return (shard, row) of answers from the cache -> where the same answer is kept."""
    keys = {
        key
        for each in shards
        for (key,) in each.rows(f"SELECT key FROM main.answers WHERE trial = {FROM_CACHE}")
    }
    bought: dict[tuple[bytes, str], tuple[int, int]] = {}
    taken: list[tuple[tuple[bytes, str], tuple[int, int]]] = []
    for source, each in enumerate(shards):
        for row, key, trial, body in each.rows(_BODIES):
            if key in keys:
                if trial == FROM_CACHE:
                    taken.append(((key, body), (source, row)))
                else:
                    bought.setdefault((key, body), (source, row))
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for call, place in taken:
        if (kept := bought.setdefault(call, place)) != place:
            found[place] = kept
    return found


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
        make_schema(db, file)
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
    db.executemany(f"INSERT INTO exchanges VALUES ({', '.join('?' * 13)})", exchanges())


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
