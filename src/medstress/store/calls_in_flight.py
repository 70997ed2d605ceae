"""The journal of calls handed to a back end: one row per batch, deleted once all are answered."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import orjson

from medstress.store.database import Database


class CallsInFlight:
    """The table `dispatched`: calls that this process made and that have no answer yet."""

    def __init__(self, db: Database, find: Callable[[Sequence[bytes]], dict[bytes, int]]) -> None:
        """Take over a journal: calls left in it were in flight when the last process died.

        Args:
            db: the run.
            find: returns the keys that have a stored answer; their calls were not interrupted.
        """
        self._db = db
        self._batch_of: dict[bytes, int] = {}
        self._open: dict[int, dict[bytes, int]] = {}
        self._last = 0
        stored = db.run(lambda db: db.execute("SELECT calls FROM dispatched").fetchall())
        if not stored:
            return  # nothing is written by opening a run that may be refused
        left = [
            (bytes.fromhex(key), trial) for (calls,) in stored for key, trial in orjson.loads(calls)
        ]
        known = find([key for key, _ in left])
        lost = sorted(call for call in left if call[0] not in known)

        def settle(db: sqlite3.Connection) -> None:
            db.executemany("INSERT INTO interrupted VALUES (?, ?)", lost)
            db.execute("DELETE FROM dispatched")

        db.commit(settle)

    def add(self, calls: Iterable[tuple[bytes, int]]) -> None:
        """Add a batch of calls (key, trial)."""
        batch = {key: trial for key, trial in calls if key not in self._batch_of}
        if not batch:
            return
        self._last = number = self._last + 1
        row = (number, _as_json(batch))
        self._db.submit(lambda db: db.execute("INSERT INTO dispatched VALUES (?, ?)", row))
        self._open[number] = batch
        self._batch_of.update(dict.fromkeys(batch, number))

    def remove(self, keys: Iterable[bytes]) -> None:
        """Remove calls that were answered."""
        touched: set[int] = set()
        for key in keys:
            number = self._batch_of.pop(key, None)
            if number is not None:
                del self._open[number][key]
                touched.add(number)
        updated, deleted = [], []
        for number in touched:
            if left := self._open[number]:
                updated.append((_as_json(left), number))
            else:
                del self._open[number]
                deleted.append((number,))
        if touched:
            self._db.submit(partial(_strike_out, updated=updated, deleted=deleted))


def _strike_out(
    db: sqlite3.Connection, updated: list[tuple[str, int]], deleted: list[tuple[int]]
) -> None:
    db.executemany("UPDATE dispatched SET calls = ? WHERE id = ?", updated)
    db.executemany("DELETE FROM dispatched WHERE id = ?", deleted)


def _as_json(calls: dict[bytes, int]) -> str:
    return orjson.dumps([[key.hex(), trial] for key, trial in calls.items()]).decode()
