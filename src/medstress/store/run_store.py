"""Write one run folder, and read it while it is written."""

from __future__ import annotations

import errno
import json
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import index
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import orjson
from filelock import FileLock, SoftFileLock, Timeout

from medstress.core.calls import Answer, BegunTrial, Exchange, PlannedTrial
from medstress.core.errors import StoreError, setting
from medstress.core.hashing import canonical_json
from medstress.core.items import Item
from medstress.core.words import command
from medstress.core.writing import create_in_place, make_folder, refuse_link, refuse_occupied
from medstress.store.chain import RUN_CHAIN, SUPERSEDED_IDS, commits_after, finish, head, keep_root
from medstress.store.codec import decode_answer, encode_answer, encode_item
from medstress.store.counts import Spending, read_spending
from medstress.store.database import (
    FILE,
    LOCK,
    MAY_END_OTHERWISE,
    SIDES,
    SIMILARITY,
    SUMMARY,
    Database,
    insert_rows,
    make_views,
    take_over,
    translated,
)
from medstress.store.opening import check_file, interpreting, make_schema
from medstress.store.reviews import remove_reviews

_KEYS = (
    "CREATE TEMP TABLE keys (key BLOB PRIMARY KEY, answer INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT OR IGNORE INTO temp.keys SELECT key, id FROM main.answers ORDER BY key, id",
)
"""The index from key to row of an answer, in memory: on disk every random key would dirty a page.
It is made when a key is first looked for, and written in the transactions that write answers, so
what is undone leaves both."""
_ANSWERS = "SELECT k.key, k.answer FROM temp.keys k"
_AT_ONCE = 500
"""Keys in one statement; old SQLites accept 999 values."""
_COMPUTED = f"""
SELECT s.id, (SELECT role FROM main.exchanges WHERE trial = t.id AND answer = s.id), a.victim,
       s.key, s.body, s.tokens_in, s.tokens_out, s.seconds
FROM main.answers s JOIN main.trials t ON t.id = s.trial JOIN arms a ON a.id = t.arm
WHERE s.id < ? ORDER BY s.id DESC LIMIT {_AT_ONCE}
"""


def _of_keys(
    db: sqlite3.Connection, select: str, keys: Sequence[bytes]
) -> Iterator[tuple[Any, ...]]:
    """Yield rows of a query over `temp.keys k`, those with given keys."""
    if not db.execute("SELECT 1 FROM temp.sqlite_master WHERE name = 'keys'").fetchone():
        for statement in _KEYS:
            db.execute(statement)
    for start in range(0, len(keys), _AT_ONCE):
        part = keys[start : start + _AT_ONCE]
        yield from db.execute(f"{select} WHERE k.key IN ({', '.join('?' * len(part))})", part)


class CallsInFlight:
    """The table `dispatched`: calls that this process made and that have no answer yet."""

    def __init__(self, db: Database) -> None:
        """Take over a journal: calls left in it were in flight when the last process died."""
        self._db = db
        self._open: dict[bytes, int] = {}
        stored = db.run(lambda db: db.execute("SELECT calls FROM dispatched").fetchone())
        if stored is None:
            return  # nothing is written by opening a run that may be refused
        left = {bytes.fromhex(key): index(trial) for key, trial in orjson.loads(stored[0])}

        def settle(db: sqlite3.Connection) -> None:
            # Those that have an answer were not interrupted.
            answered = dict(_of_keys(db, _ANSWERS, list(left)))
            lost = sorted(call for call in left.items() if call[0] not in answered)
            db.executemany("INSERT INTO interrupted VALUES (?, ?)", lost)
            db.execute("DELETE FROM dispatched")

        db.commit(settle)

    def add(self, calls: Iterable[tuple[bytes, int]]) -> None:
        """Add calls (key, trial)."""
        self._change({key: trial for key, trial in calls if key not in self._open}, ())

    def remove(self, keys: Iterable[bytes]) -> None:
        """Remove calls that were answered."""
        self._change({}, [key for key in keys if key in self._open])

    def _change(self, new: Mapping[bytes, int], gone: Sequence[bytes]) -> None:
        if not (new or gone):
            return
        self._open |= new
        for key in gone:
            self._open.pop(key, None)
        calls = orjson.dumps([[key.hex(), trial] for key, trial in self._open.items()]).decode()
        write = "INSERT OR REPLACE INTO dispatched VALUES (1, :calls)"
        if not self._open:
            write = "DELETE FROM dispatched"
        self._db.submit(lambda db: db.execute(write, {"calls": calls}))


A_MOMENT = 0.2
"""Seconds to wait for a lock that a reader may try."""
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL)
_DERIVED = "main.exchanges (trial, attempt, seq, role, purpose, query, call, answer, edits)"

_CHOSEN = "(SELECT value FROM json_each(?))"
_LOST = f"""
SELECT id FROM trials WHERE {MAY_END_OTHERWISE} AND trial_id NOT IN ({SUPERSEDED_IDS})
AND (verdict != 'unanswered'
     OR json_extract(result, '$.purpose') IN (SELECT value FROM json_each(:purposes)))
ORDER BY id
"""
_JOURNAL = """
SELECT e.seq, COALESCE(a.key, e.key), e.error FROM exchanges e
LEFT JOIN answers a ON a.id = e.answer WHERE e.trial = ?
"""
_CHILDREN_FIRST = (
    *("exchanges", "dispatched", "interrupted", "findings", "verdicts", "trials", "arms"),
    *("renewals", "items", "manifest", "commits"),
)
"""All tables of a run but the answers."""

R = TypeVar("R")


def lock_folder(
    folder: Path,
    *,
    others: Iterable[str] = (),
    wait: float = A_MOMENT,
) -> FileLock:
    """Make the folder if need be and lock it for this process; release the lock when done.

    Args:
        folder: the run folder.
        others: names of further files that will be written in it.
        wait: seconds to wait for a process that holds it.

    Raises:
        StoreError: another process works in it, it cannot be written, a file to be written is a
            link, or its disk has no locks.
    """
    with translated(folder):
        make_folder(folder)
        for name in (*(f"{FILE}{side}" for side in SIDES), LOCK):
            refuse_occupied(folder / name)
        for name in others:
            refuse_link(folder / name)
        create_in_place(folder / LOCK)
        lock = FileLock(folder / LOCK, mode=(folder / LOCK).stat().st_mode & 0o777)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that a file takes the place of the lock
                lock.acquire(timeout=wait)
        except Timeout:
            if isinstance(lock, SoftFileLock):
                raise _unlockable(folder) from None
            raise StoreError(
                f"another medstress process is working in {folder}; wait for it, stop it, "
                f"or choose another folder with {setting('out')}"
            ).with_command(command("view", folder)) from None
        except (NotImplementedError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in _NO_LOCKS:
                raise
            raise _unlockable(folder) from error
        if isinstance(lock, SoftFileLock):  # which a killed process would leave behind
            lock.release()
            raise _unlockable(folder)
    return lock


def throw_away(folder: Path) -> None:
    """Delete the run that a folder holds, and what was made of it.

    Raises:
        OSError: a file cannot be removed, or is a link.
    """
    paths = [*folder.glob(f"{FILE}*"), folder / SUMMARY]
    for path in paths:
        refuse_link(path)
    for path in paths:
        path.unlink(missing_ok=True)
    remove_reviews(folder)


def _unlockable(folder: Path) -> StoreError:
    return StoreError(
        f"the disk of {folder} has no file locks, without which two processes could write one run; "
        f"choose a folder on another disk with {setting('out')}"
    )


class RunStore:
    """One run folder, opened for writing by one process at a time.

    SQLite in WAL mode with synchronous=NORMAL: a killed process loses nothing that was
    committed; a power cut may lose the last commits, never the file. Answers are appended, and an
    index in memory (`temp.keys`) knows their rows. Writes are submitted to the `Database` without
    waiting; an error in one is raised by the next commit or read.
    """

    def __init__(
        self,
        folder: Path,
        *,
        lock: FileLock | None = None,
        fresh: bool = False,
        alone: bool = False,
    ) -> None:
        """Open the folder's run, or create one.

        Args:
            folder: the run folder.
            lock: the folder's lock if the caller holds it already (`lock_folder`).
            fresh: delete the run that the folder holds, whatever its state.
            alone: no one reads the run before it is closed, and another process may believe that it
                holds the lock: for shards, whose disk many machines share.
        """
        self.folder = folder
        self._lock = lock or lock_folder(folder)
        self._is_empty = False
        self._learned: Callable[[], dict[str, Any]] = dict
        self._learned_before: dict[str, Any] = {}
        try:
            if fresh:
                with translated(folder):
                    throw_away(folder)
            if alone:
                take_over(folder / FILE, check_file)
            else:
                check_file(folder / FILE)
            self._is_empty = not (folder / FILE).exists()
            self._db = Database(folder / FILE, self._prepare, chained=RUN_CHAIN, alone=alone)
            try:
                self._attempts = self._read_attempts()
                with interpreting(folder / FILE):  # no digest covers what was in flight
                    self._in_flight = CallsInFlight(self._db)
            except BaseException:
                self._abandon()
                raise
        except BaseException:
            self._remove_if_empty()
            self._lock.release()
            raise

    def _prepare(self, db: sqlite3.Connection) -> None:
        make_schema(db, self.folder / FILE)
        db.execute("PRAGMA temp_store = MEMORY")
        make_views(db)

    def __enter__(self) -> RunStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None or not self._is_empty:
            self.close()
            return
        self._abandon()
        self._remove_if_empty()
        self._lock.release()

    def _abandon(self) -> None:
        self._is_empty = self._is_empty and not self._db.is_taken_over()
        self._db.abandon()

    def _remove_if_empty(self) -> None:
        """Remove a new run that never reached a commit, for example because the disk is full."""
        if self._is_empty:
            for side in SIDES:
                (self.folder / f"{FILE}{side}").unlink(missing_ok=True)

    def close(self) -> None:
        """Commit and release the folder."""
        try:
            self._db.close()
        finally:
            self._lock.release()

    def keep_learned(self, learned: Callable[[], dict[str, Any]]) -> None:
        """Commit the manifest entries that answers change together with these answers.

        So a resumed run knows what the killed process had learned when it took an answer.
        """
        self._learned, self._learned_before = learned, learned()

    def commit(self) -> None:
        """Commit everything written so far, so that it survives the process."""
        if (learned := self._learned()) != self._learned_before:
            self.write_manifest(learned)
            self._learned_before = learned
        self._db.commit()
        self._is_empty = False

    def _fetch(self, query: str, *values: Any) -> list[Any]:
        return self._db.run(lambda db: db.execute(query, values).fetchall())

    # -- manifest and arms -------------------------------------------------------------------
    def manifest(self) -> dict[str, Any]:
        """Return the stored manifest; empty for a new folder."""
        return {key: json.loads(value) for key, value in self._fetch("SELECT * FROM manifest")}

    def write_manifest(self, values: dict[str, Any]) -> None:
        """Append the manifest entries that are new or changed; the latest of a key counts."""
        rows = [(key, json.dumps(value, ensure_ascii=False)) for key, value in values.items()]
        self._append("manifest", ("key",), rows)

    def _append(self, table: str, key: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        """Append rows (key, value) to a table where the value is new or changed."""
        own = " AND ".join(f"{name} = ?" for name in key)
        latest = f"SELECT value FROM main.{table} WHERE {own} ORDER BY id DESC LIMIT 1"
        into = f"{table} ({', '.join(key)}, value)"

        def write(db: sqlite3.Connection) -> None:
            insert_rows(
                db,
                f"main.{into}",
                [r for r in rows if db.execute(latest, r[:-1]).fetchone() != r[-1:]],
            )

        self._db.submit(write)

    def arm_id(
        self, dataset: str, group: str, victim: str, attack: str, spec: Any, seed: int | None
    ) -> int:
        """Return the row of one (data set, group, victim, attack, seed); it is added if new."""
        arm = {"dataset": dataset, "grp": group, "victim": victim, "attack": attack, "seed": seed}
        return self._db.run(
            lambda db: _row(db, "arms", arm, lambda: {"spec": canonical_json(spec)})
        )

    def renew_items(self, dataset: str, items: Iterable[Item]) -> None:
        """Append the metadata of stored items, such as documents, that their data set changed."""
        new = {(item.id, item.hash): encode_item(item) for item in items}

        def write(db: sqlite3.Connection) -> None:
            stored = db.execute(
                "SELECT id, item_id, hash, body FROM items WHERE dataset = ?", (dataset,)
            ).fetchall()
            changed = [
                (row, new[item_id, item_hash])
                for row, item_id, item_hash, body in stored
                if new.get((item_id, item_hash), body) != body
            ]
            db.executemany("INSERT INTO renewals (item, body) VALUES (?, ?)", changed)

        self._db.submit(write)

    # -- trials ------------------------------------------------------------------------------
    def begin_trials(self, planned: Sequence[PlannedTrial]) -> list[BegunTrial]:
        """Register trials and their items, in the order of the plan."""

        def begin(db: sqlite3.Connection, one: PlannedTrial) -> BegunTrial:
            trial_id, arm, dataset, item, repeat, place = one
            begun = db.execute("SELECT id, verdict FROM trials WHERE trial_id = ?", (trial_id,))
            for row, verdict in begun:
                is_open = verdict is None
                journal = db.execute(_JOURNAL, (row,)).fetchall() if is_open else ()
                return BegunTrial(row, not is_open, {seq: (key, why) for seq, key, why in journal})
            own = {"dataset": dataset, "item_id": item.id}
            of = _row(db, "items", own, lambda: {"hash": item.hash, "body": encode_item(item)})
            rest = {"arm": arm, "item": of, "repeat": repeat, "place": place}
            return BegunTrial(_row(db, "trials", {"trial_id": trial_id}, lambda: rest), False, {})

        return self._db.run(lambda db: [begin(db, one) for one in planned])

    def finish_trial(self, trial: int, verdict: str, result: dict[str, Any]) -> None:
        """Append a trial's verdict and result, with their digests."""
        with translated(self.folder):
            text = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
        attempt = self._attempts.get(trial, 0)
        self._db.submit(lambda db: finish(db, trial, attempt, verdict, text))

    def _read_attempts(self) -> dict[int, int]:
        """Return trial -> how often it began again, of the trials that did."""
        query = "SELECT trial, COUNT(*) FROM verdicts WHERE verdict IS NULL GROUP BY trial"
        return dict(self._fetch(query))

    def forget_failed(self, purposes: Iterable[str] = ()) -> int:
        """Begin trials that failed or were cut short again; what they asked and got is kept.

        Args:
            purposes: of the follow-ups that may begin again as well.

        Returns:
            How many trials begin again.
        """
        again = self._lost(purposes)
        self._begin_again(again)
        return len(again)

    def _begin_again(self, trials: Sequence[tuple[int]]) -> None:
        def begin(db: sqlite3.Connection) -> None:
            db.executemany("INSERT INTO verdicts (trial) VALUES (?)", trials)
            make_views(db)

        self._db.run(begin)
        self._attempts = self._read_attempts()

    def ask_again(self, ids: Iterable[str]) -> None:
        """Begin those of some follow-ups again that could not finish; their answers are kept."""
        listed = json.dumps(sorted(ids))
        again = "SELECT id FROM trials WHERE verdict = 'unanswered' AND trial_id IN {} ORDER BY id"
        self._begin_again(self._fetch(again.format(_CHOSEN), listed))

    def n_lost(self, purposes: Iterable[str] = ()) -> int:
        """Return how many trials `forget_failed` would begin again."""
        return len(self._lost(purposes))

    def _lost(self, purposes: Iterable[str]) -> list[tuple[int]]:
        values = {"manifest": 2**62, "purposes": json.dumps(sorted(purposes))}
        return self._db.run(lambda db: db.execute(_LOST, values).fetchall())

    def open_ids(self) -> set[str]:
        """Return the ids of the trials and follow-ups that have begun and not ended."""
        rows = self._fetch("SELECT trial_id FROM trials WHERE verdict IS NULL")
        return {own for (own,) in rows}

    def is_unanswered(self) -> bool:
        """Return whether the run holds no answer of any model."""
        return not self._fetch("SELECT 1 FROM answers LIMIT 1")

    def begin_anew(self) -> None:
        """Delete everything that a run without answers holds; its chain begins again."""

        def delete(db: sqlite3.Connection) -> None:
            for table in _CHILDREN_FIRST:
                db.execute(f"DELETE FROM main.{table}")

        self._db.run(delete)

    def item_hashes(self) -> list[tuple[str, str, str]]:
        """Return data set, id and hash of every item whose trials have begun."""
        return self._fetch("SELECT dataset, item_id, hash FROM main.items ORDER BY id")

    def write_similarities(self, embedder: str, values: Iterable[tuple[int, float]]) -> None:
        """Append the prompt similarity of first successes (row, cosine), and the encoder's hash,
        where it is new or changed."""
        # The last digits depend on which texts are embedded together, and the root covers them.
        rounded = ((trial, [embedder, round(cosine, 9)]) for trial, cosine in values)
        rows = [(trial, SIMILARITY, json.dumps(one)) for trial, one in rounded]
        self._append("findings", ("trial", "name"), rows)

    def head(self) -> str:
        """Return the last link of the chain."""
        return self._db.run(head) or ""

    def commits_after(self, digest: str) -> int | None:
        """Return how many links the chain has after one; None if it has no such link."""
        return self._db.run(lambda db: commits_after(db, digest))

    def keep_root(self) -> str:
        """Append the root of a run that is complete, commit, and return it."""
        root = self._db.run(keep_root)
        self.commit()
        return root

    # -- calls -------------------------------------------------------------------------------
    def lookup(self, keys: Sequence[bytes]) -> dict[bytes, Answer]:
        """Return the stored answers to these keys."""
        query = (
            "SELECT a.key, a.body, a.tokens_in, a.tokens_out FROM temp.keys k "
            "JOIN main.answers a ON a.id = k.answer"
        )
        rows = self._db.run(lambda db: list(_of_keys(db, query, keys))) if keys else ()
        return {key: decode_answer(body, t_in, t_out) for key, body, t_in, t_out in rows}

    def computed_totals(self) -> tuple[int, int]:
        """Return the numbers of computed calls and their tokens so far."""
        totals = "COUNT(*), COALESCE(SUM(tokens_in + tokens_out), 0)"
        ((n_calls, n_tokens),) = self._fetch(f"SELECT {totals} FROM main.answers WHERE trial > 0")
        return n_calls, n_tokens

    def computed(self) -> Iterator[list[tuple[str | None, str, bytes, Answer, float]]]:
        """Yield pages of (role, victim, key, answer, seconds) of computed answers, newest first.

        The role is None where no trial has used the answer yet.
        """
        last = 2**62
        while rows := self._fetch(_COMPUTED, last):
            last = rows[-1][0]
            yield [
                (role, victim, key, decode_answer(body, t_in, t_out), seconds)
                for _, role, victim, key, body, t_in, t_out, seconds in rows
            ]

    def spending(self) -> list[Spending]:
        """Return computed calls and tokens so far, by victim and role."""
        return self._db.run(read_spending)

    def dispatching(self, calls: Iterable[tuple[bytes, int]]) -> None:
        """Journal calls (key, trial) that are about to be handed to a back end, and commit."""
        self._in_flight.add(calls)
        self.commit()

    def answered(self, answers: Iterable[tuple[bytes, int, Answer | None, float]]) -> None:
        """Store answers (key, trial, answer, seconds) and clear their journal entries.

        An answer of None is a failure: it only leaves the journal. Of two answers to one call
        the first is kept.
        """
        keys: list[bytes] = []
        rows: dict[bytes, tuple[Any, ...]] = {}
        for key, trial, answer, seconds in answers:
            keys.append(key)
            if answer is not None and key not in rows:
                tokens = (answer.tokens_in, answer.tokens_out)
                rows[key] = (key, trial, encode_answer(answer), seconds, *tokens)

        def write(db: sqlite3.Connection) -> None:
            stored = dict(_of_keys(db, _ANSWERS, list(rows)))
            (last,) = db.execute("SELECT COALESCE(MAX(id), 0) FROM main.answers").fetchone()
            fresh = (row for key, row in rows.items() if key not in stored)
            new = [(number, *row) for number, row in enumerate(fresh, last + 1)]
            insert_rows(db, "main.answers", new)
            insert_rows(db, "temp.keys", [(key, number) for number, key, *_ in new])

        if rows:
            self._db.submit(write)
        self._in_flight.remove(keys)

    def consumed(self, rows: Iterable[Exchange]) -> None:
        """Store exchanges."""
        batch, attempts = list(rows), self._attempts

        def write(db: sqlite3.Connection) -> None:
            answers = dict(_of_keys(db, _ANSWERS, [row[6] for row in batch]))
            derived, others = [], []
            for trial, seq, role, purpose, query, call, key, edits, flags, request, error in batch:
                answer = answers.get(key) if error is None else None
                place = (trial, attempts.get(trial, 0), seq, role, purpose, query, call)
                if answer is not None and request is None and flags is None:
                    derived.append((*place, answer, edits))
                else:
                    kept = key if answer is None else None
                    others.append((*place, answer, kept, edits, flags, request, error))
            # Rows without null columns go separately, because nulls are slow to bind.
            insert_rows(db, _DERIVED, derived, or_else="OR IGNORE")
            insert_rows(db, "main.exchanges", others, or_else="OR IGNORE")

        self._db.submit(write)


def _row(
    db: sqlite3.Connection, table: str, key: dict[str, Any], rest: Callable[[], dict[str, Any]]
) -> int:
    """Return the row with a key; it is added, with other values, if new."""
    own = " AND ".join(f"{name} IS ?" for name in key)
    for (row,) in db.execute(f"SELECT id FROM main.{table} WHERE {own}", [*key.values()]):
        return int(row)
    values = key | rest()
    marks = ", ".join("?" * len(values))
    new = f"INSERT INTO main.{table} ({', '.join(values)}) VALUES ({marks})"
    return int(db.execute(new, [*values.values()]).lastrowid or 0)
