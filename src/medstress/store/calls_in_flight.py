"""The journal of calls handed to a back end: one row a batch, gone once all are answered."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence

import orjson


class CallsInFlight:
    """The table `dispatched`, and what of it this process has not had answered."""

    def __init__(
        self, db: sqlite3.Connection, find: Callable[[Sequence[bytes]], dict[bytes, int]]
    ) -> None:
        """Take over a journal: what is left in it was in flight when the last process died.

        Args:
            db: the run.
            find: the keys that have an answer: these came back all the same.
        """
        self._db = db
        self._batch_of: dict[bytes, int] = {}
        self._open: dict[int, dict[bytes, int]] = {}
        left = [
            (bytes.fromhex(key), trial)
            for (calls,) in db.execute("SELECT calls FROM dispatched ORDER BY id")
            for key, trial in orjson.loads(calls)
        ]
        known = find([key for key, _ in left])
        lost = sorted(call for call in left if call[0] not in known)
        db.execute("BEGIN")
        db.executemany("INSERT INTO interrupted VALUES (?, ?)", lost)
        db.execute("DELETE FROM dispatched")
        db.execute("COMMIT")

    def add(self, calls: Iterable[tuple[bytes, int]]) -> None:
        """Write down a batch of calls (key, trial)."""
        batch = {key: trial for key, trial in calls if key not in self._batch_of}
        if not batch:
            return
        row = self._db.execute("INSERT INTO dispatched (calls) VALUES (?)", (_told(batch),))
        number = int(row.lastrowid or 0)
        self._open[number] = batch
        self._batch_of.update(dict.fromkeys(batch, number))

    def remove(self, keys: Iterable[bytes]) -> None:
        """Strike out calls that came back."""
        touched: set[int] = set()
        for key in keys:
            number = self._batch_of.pop(key, None)
            if number is not None:
                del self._open[number][key]
                touched.add(number)
        for number in touched:
            left = self._open[number]
            if left:
                told = (_told(left), number)
                self._db.execute("UPDATE dispatched SET calls = ? WHERE id = ?", told)
            else:
                del self._open[number]
                self._db.execute("DELETE FROM dispatched WHERE id = ?", (number,))


def _told(calls: dict[bytes, int]) -> str:
    return orjson.dumps([[key.hex(), trial] for key, trial in calls.items()]).decode()
