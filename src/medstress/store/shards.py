"""What the folder of a shard says about itself, and the ledger of a merged run: SQL over one shard
after the other.

A trial knows its place in the whole plan, so two passes do: the first numbers all trials, and by
their first trials arms and items; the second copies. Memory does not grow with queries.

All answers are kept, also where two shards bought the same call: every trial keeps the answer that
it was judged by, and what was spent stays counted.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from heapq import heapreplace
from pathlib import Path
from typing import Any

import orjson

from medstress.core.calls import FROM_CACHE
from medstress.core.errors import StoreError, UsageError, setting
from medstress.store.chain import RUN_CHAIN, first_break, head, link, wrong_exchanges
from medstress.store.database import FILE
from medstress.store.opening import (
    WITHOUT_LOCKS,
    ChainError,
    Stamps,
    how_to_read,
    interpreting,
    make_schema,
    stamps,
)
from medstress.store.reader import opened

_WRITTEN = re.compile(r"(auto|[0-9]{1,9})/([0-9]{1,9})")
_ARRAY = "SLURM_ARRAY_TASK_"
MOST_SHARDS = 100_000
"""More is a slip of the hand."""
_TOGETHER = 8
"""Most items of one passage that stay together: then a shard has few more than another."""


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """One of the equal parts of a plan."""

    of: int
    """How many parts there are."""
    number: int
    """Which part this is, from 1."""

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def share(self, whole: int) -> int:
        """Return its part of a number; the parts of all shards sum to it.

        >>> [Shard(3, number).share(10) for number in (1, 2, 3)]
        [3, 3, 4]
        """
        return whole * self.number // self.of - whole * (self.number - 1) // self.of


def parse_shard(text: str, environment: Mapping[str, str]) -> Shard:
    """Read K/N, or auto/N, where K is the place of this process in an array of Slurm.

    Args:
        text: as given with --shard.
        environment: the variables of the process.

    Raises:
        UsageError: it is neither, or there is no array of N tasks.

    >>> parse_shard("3/64", {})
    Shard(of=64, number=3)
    >>> parse_shard("auto/4", {"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_MIN": "5"})
    Shard(of=4, number=3)
    """
    written = _WRITTEN.fullmatch(text.strip())
    if written is None:
        raise _refused(text, "expected K/N, such as 3/64, or auto/N in a job array of Slurm")
    of = int(written[2])
    if of < 1:
        raise _refused(text, "expected at least one shard")
    if of > MOST_SHARDS:
        raise _refused(text, f"expected at most {MOST_SHARDS:,} shards")
    number = _place(text, of, environment) if written[1] == "auto" else int(written[1])
    if not 1 <= number <= of:
        nearest = f"{min(max(number, 1), of)}/{of}"
        why = f"shards are numbered from 1 to {of}, got {number}"
        raise _refused(text, why).with_flag("--shard", nearest)
    return Shard(of, number)


def _place(text: str, of: int, environment: Mapping[str, str]) -> int:
    """Return the place of this task in its array, from 1."""
    here = _number(text, environment, "ID")
    if here is None:
        raise _refused(
            text,
            f"{_ARRAY}ID is not set, so this is no task of a job array of Slurm; give the number, "
            f"as in --shard 1/{of}",
        )
    step = _number(text, environment, "STEP") or 1
    first = _number(text, environment, "MIN")
    n_tasks = _number(text, environment, "COUNT")
    if n_tasks is not None and n_tasks != of:
        # Of an array that holds only some shards, such as 3,7, the places say nothing.
        raise _refused(
            text,
            f"the job array has {n_tasks} tasks and not {of}; give the number, as in "
            f"--shard ${_ARRAY}ID/{of}",
        )
    return (here - (1 if first is None else first)) // step + 1


def _number(text: str, environment: Mapping[str, str], name: str) -> int | None:
    value = environment.get(f"{_ARRAY}{name}", "").strip()
    if not value:
        return None
    if not value.isdecimal():
        raise _refused(text, f"expected a number in {_ARRAY}{name}, got {value!r}")
    return int(value)


def _refused(text: str, why: str) -> UsageError:
    return UsageError(f"{setting('shard', text)}: {why}")


def cut(datasets: Sequence[Sequence[Any]], n_shards: int) -> list[list[int]]:
    """Return the shard of every item, from 1, by data set.

    Items of equal content stay together, and so do items that share a passage, which their prompts
    share, eight at a time. In the plan's order each such group goes to the shard with the fewest
    items of the data set. What comes later decides nothing, so a plan that only grows at its end
    moves nothing.

    Args:
        datasets: the items of every data set, in the order of the plan.
        n_shards: how many shards there are.
    """
    shards_of: list[list[int]] = []
    of_content: dict[str, int] = {}
    of_passage: dict[str, tuple[int, int]] = {}  # its shard, and how many items it has there
    for number, items in enumerate(datasets):
        loads, shards = _Loads(n_shards, first=number), list[int]()
        for item in items:
            passage = getattr(item, "passage", "")
            shard, n = of_passage.get(passage, (0, 0)) if passage else (0, 0)
            if n >= _TOGETHER or not shard:
                shard, n = loads.least(), 0
            shard = of_content.setdefault(item.hash, shard)
            if passage:
                of_passage[passage] = (shard, n + 1)
            loads.add(shard)
            shards.append(shard)
        shards_of.append(shards)
    return shards_of


class _Loads:
    """How many items of one data set every shard has."""

    def __init__(self, n_shards: int, first: int) -> None:
        # The last shards are a little smaller; every data set begins with another one.
        self._order = [(first + i) % n_shards for i in range(n_shards)]
        self._n = [0] * n_shards
        # A heap of (number of items when last looked at, place in that order).
        self._least = [(0, place) for place in range(n_shards)]

    def least(self) -> int:
        """Return the shard with the fewest items, from 1."""
        while True:
            n, place = self._least[0]
            shard = self._order[place]
            if n == self._n[shard]:
                return shard + 1
            heapreplace(self._least, (self._n[shard], place))

    def add(self, shard: int) -> None:
        """Count an item."""
        self._n[shard - 1] += 1


KEY = "shard"
"""Manifest entry of a shard: `number`, `of` how many, `n_trials` of the whole plan, and the place
of the plan's `first` trial, which is not 0 in a plan that was extended."""
SHARDS = "shards"
"""Manifest entry of a merged run: how many shards it joins, and what they bought twice."""
STOPPED_BY = "stopped_by"
"""Manifest entry of a shard: the limits that ended its last process."""
_ENDED = """
SELECT COUNT(*), COALESCE(SUM(verdict = 'failed'), 0) FROM trials WHERE verdict IS NOT NULL
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredShard:
    """What the folder of a shard held when it was read."""

    folder: Path
    manifest: Mapping[str, Any]
    """Of the whole plan, but for what is the shard's own."""
    shard: Shard
    """Which part of the plan it is."""
    n_ended: int
    """Trials that ended."""
    n_failed: int
    """Of these, trials that failed."""
    head: str | None
    """The digest of its last commit."""
    stamps: Stamps
    """Of its files."""

    @property
    def n_planned(self) -> int:
        """Trials of the shard."""
        return int(self.manifest["n_planned"])

    @property
    def stopped_by(self) -> tuple[str, ...]:
        """Limits of the experiment that ended its last process."""
        return tuple(map(str, self.manifest.get(STOPPED_BY) or ()))

    @property
    def is_finished(self) -> bool:
        """Whether all its trials ended."""
        return self.n_ended == self.n_planned


def shard_of(manifest: Mapping[str, Any]) -> Shard | None:
    """Return which shard a folder holds; None for a whole run."""
    entry = manifest.get(KEY)
    return None if entry is None else Shard(int(entry["of"]), int(entry["number"]))


def read_shard(folder: Path, *, whole: bool = False) -> StoredShard:
    """Read what a shard says of itself, with all checks that a reader makes.

    Args:
        folder: of the shard.
        whole: also check the digests of answers and exchanges, as `medstress verify` does: a merge
            gives them a new chain, where a change would pass for what was answered.

    Raises:
        StoreError: it holds no run, no shard, or does not agree with its chain.
    """
    path = folder / FILE
    with opened(folder) as reader:
        db, manifest = reader.db, reader.manifest
        shard = shard_of(manifest)
        if shard is None:
            raise StoreError(
                f"{folder} holds a whole run and no shard; give the folders that "
                "`medstress run --shard` wrote"
            )
        broken = None
        if whole:
            broken = first_break(db, RUN_CHAIN, whole=True) or next(wrong_exchanges(db), None)
        if broken is not None:
            raise ChainError(
                f"{path} is not as medstress wrote it: {broken}; `medstress verify {folder}` "
                "says more, and a copy or the same shard run again is merged"
            )
        n_ended, n_failed = db.execute(_ENDED).fetchone()
        return StoredShard(
            folder=folder,
            manifest=manifest,
            shard=shard,
            n_ended=n_ended,
            n_failed=n_failed,
            head=head(db),
            stamps=stamps(path),
        )


_PRAGMAS = (
    "journal_mode = OFF",  # the file is no run before it is whole and renamed
    "synchronous = OFF",
    "cache_size = -65536",
    "trusted_schema = OFF",
)
_BEGUN = """
CREATE TEMP TABLE begun (source INTEGER, trial INTEGER, place INTEGER, arm INTEGER, item INTEGER);
CREATE TEMP TABLE arms_of (
    source INTEGER, arm INTEGER, dataset TEXT, grp TEXT, victim TEXT, attack TEXT, seed INTEGER);
CREATE TEMP TABLE in_flight (key BLOB, trial INTEGER);
"""
_COLLECT = (
    "INSERT INTO temp.begun SELECT :source, id, place, arm, item FROM s.trials",
    "INSERT INTO temp.arms_of SELECT :source, id, dataset, grp, victim, attack, seed FROM s.arms",
)
_NUMBER = """
CREATE TEMP TABLE trial_rows (
    source INTEGER, trial INTEGER, id INTEGER, arm INTEGER, item INTEGER,
    PRIMARY KEY (source, trial)) WITHOUT ROWID;
INSERT INTO trial_rows
SELECT source, trial, ROW_NUMBER() OVER (ORDER BY place, source, trial), arm, item FROM begun;
DROP TABLE begun;
CREATE TEMP TABLE item_rows AS
SELECT source, item, ROW_NUMBER() OVER (ORDER BY MIN(id)) AS id FROM trial_rows
GROUP BY source, item;
CREATE UNIQUE INDEX temp.items_of ON item_rows (source, item);
CREATE TEMP TABLE arm_rows AS
SELECT source, arm, DENSE_RANK() OVER (ORDER BY first) AS id FROM (
    SELECT a.source, a.arm, MIN(t.first) OVER (
        PARTITION BY a.dataset, a.grp, a.victim, a.attack, a.seed) AS first
    FROM arms_of a JOIN (
        SELECT source, arm, MIN(id) AS first FROM trial_rows GROUP BY source, arm) t
    ON t.source = a.source AND t.arm = a.arm);
CREATE UNIQUE INDEX temp.arms_at ON arm_rows (source, arm);
"""
"""Rows of a shard -> rows of the merged run."""
_TRIAL = "JOIN temp.trial_rows r ON r.source = :source AND r.trial ="
_ITEM = "JOIN temp.item_rows i ON i.source = :source AND i.item ="
_COPY = (
    "INSERT OR IGNORE INTO main.arms (id, dataset, grp, victim, attack, spec, seed) "
    "SELECT b.id, a.dataset, a.grp, a.victim, a.attack, a.spec, a.seed FROM s.arms a "
    "JOIN temp.arm_rows b ON b.source = :source AND b.arm = a.id",
    "INSERT INTO main.items (id, dataset, item_id, hash, body) "
    f"SELECT i.id, o.dataset, o.item_id, o.hash, o.body FROM s.items o {_ITEM} o.id",
    "INSERT INTO main.renewals (item, body) "
    f"SELECT i.id, o.body FROM s.renewals o {_ITEM} o.item ORDER BY o.id",
    "INSERT INTO main.trials (id, trial_id, arm, item, repeat, place) "
    f"SELECT r.id, o.trial_id, b.id, i.id, o.repeat, o.place FROM s.trials o {_TRIAL} o.id "
    f"{_ITEM} o.item JOIN temp.arm_rows b ON b.source = :source AND b.arm = o.arm",
    "INSERT INTO main.answers (id, key, trial, body, seconds, tokens_in, tokens_out) "
    f"SELECT o.id + :answers, o.key, COALESCE(r.id, {FROM_CACHE}), o.body, o.seconds, o.tokens_in, "
    f"o.tokens_out FROM s.answers o LEFT {_TRIAL} o.trial ORDER BY o.id",
    "INSERT INTO main.exchanges SELECT r.id, attempt, seq, role, purpose, query, call, "
    f"answer + :answers, key, edits, flags, request, error FROM s.exchanges o {_TRIAL} o.trial "
    "ORDER BY o.trial, o.attempt, o.seq",
    "INSERT INTO main.verdicts (trial, verdict, result, exchanges, digest) "
    f"SELECT r.id, o.verdict, o.result, o.exchanges, o.digest FROM s.verdicts o {_TRIAL} o.trial "
    "ORDER BY o.id",
    "INSERT INTO main.findings (trial, name, value) "
    f"SELECT r.id, o.name, o.value FROM s.findings o {_TRIAL} o.trial ORDER BY o.id",
    f"INSERT INTO main.interrupted SELECT o.key, r.id FROM s.interrupted o {_TRIAL} o.trial",
    # What a dead process had in flight, unless it was answered after all.
    "INSERT INTO main.interrupted "
    f"SELECT o.key, r.id FROM temp.in_flight o {_TRIAL} o.trial "
    "WHERE o.key NOT IN (SELECT key FROM s.answers) ORDER BY o.key",
)
_DOUBLED = f"""
CREATE TEMP TABLE doubled AS SELECT COUNT(*) - 1 AS n, COUNT(DISTINCT body) > 1 AS differs
FROM main.answers WHERE trial != {FROM_CACHE} GROUP BY key HAVING n > 0
"""


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
        shards: of one plan, each item in one of them.
        manifest: of the merged run; `SHARDS` is completed with the counts.

    Raises:
        StoreError: a shard was run since it was read, or two hold one item.
        sqlite3.Error: it cannot be written.
    """
    db = sqlite3.connect(file.resolve().as_uri(), uri=True, isolation_level=None)
    with closing(db):
        for pragma in _PRAGMAS:
            db.execute(f"PRAGMA {pragma}")
        make_schema(db, file)
        db.executescript(_BEGUN)
        for source, shard in enumerate(shards):
            with _attached(db, shard):
                for statement in _COLLECT:
                    db.execute(statement, {"source": source})
        db.executescript(_NUMBER)
        for source, shard in enumerate(shards):
            with _attached(db, shard):
                _copy(db, source, shard)
        counts = _counts(db)
        entry = {
            **manifest[SHARDS],
            "bought_twice": counts.bought_twice,
            "answered_otherwise": counts.answered_otherwise,
        }
        db.execute("BEGIN")
        db.executemany(
            "INSERT INTO main.manifest (key, value) VALUES (?, ?)",
            [
                (key, json.dumps(value, ensure_ascii=False))
                for key, value in {**manifest, SHARDS: entry}.items()
            ],
        )
        link(db, RUN_CHAIN)
        db.execute("COMMIT")
    return counts


@contextmanager
def _attached(db: sqlite3.Connection, shard: StoredShard) -> Iterator[None]:
    """Attach a shard as `s` for one transaction, in the state in which it was checked."""
    path = shard.folder / FILE
    again = f"{shard.folder} was run while it was merged; merge once it has ended"
    with interpreting(path):
        how, _ = how_to_read(path)
        # Of what is attached from now on.
        db.execute(f"PRAGMA locking_mode = {'EXCLUSIVE' if WITHOUT_LOCKS in how else 'NORMAL'}")
        db.execute("ATTACH ? AS s", (f"{path.resolve().as_uri()}?{how}",))
        db.execute("BEGIN")
        if head(db, "s") != shard.head:
            raise StoreError(again)
    yield
    if stamps(path) != shard.stamps:
        raise StoreError(again)
    db.execute("COMMIT")
    db.execute("DETACH s")


def _copy(db: sqlite3.Connection, source: int, shard: StoredShard) -> None:
    db.execute("DELETE FROM temp.in_flight")
    with interpreting(shard.folder / FILE):
        for (calls,) in db.execute("SELECT calls FROM s.dispatched ORDER BY id").fetchall():
            left = [(bytes.fromhex(key), trial) for key, trial in orjson.loads(calls)]
            db.executemany("INSERT INTO temp.in_flight VALUES (?, ?)", left)
    (n_answers,) = db.execute("SELECT COALESCE(MAX(id), 0) FROM main.answers").fetchone()
    values = {"source": source, "answers": n_answers}
    try:
        for statement in _COPY:
            db.execute(statement, values)
    except sqlite3.IntegrityError as error:
        raise StoreError(
            f"{shard.folder} and another shard hold the same items: another version of medstress "
            "cut the plan of one of them; run all again with one version"
        ) from error


def _counts(db: sqlite3.Connection) -> Counts:
    db.execute(_DOUBLED)
    twice, otherwise = db.execute(
        "SELECT COALESCE(SUM(n), 0), COALESCE(SUM(differs), 0) FROM temp.doubled"
    ).fetchone()
    (n_answers,) = db.execute("SELECT COUNT(*) FROM main.answers").fetchone()
    return Counts(n_answers=n_answers, bought_twice=twice, answered_otherwise=otherwise)
