"""Calls by their keys: an index of those that are answered, and the journal of those in flight.

The index from key to row is in memory: one on disk would dirty a page for every random key.

The newest keys are in dicts, all others in sorted arrays that are merged like the runs of a
log-structured tree: 8 bytes per key, few searches per lookup. The arrays hold only prefixes of
keys; full keys are compared where they are stored.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import orjson
from numpy.typing import NDArray

from medstress.store.database import Database

KEY_BYTES = 16
NEWEST = 16_384
"""Keys that a dict holds before they move to an array. Most consumed calls were answered that
recently (`EXCHANGES_HELD` rounds of a batch of about a hundred)."""
_ROW = np.uint64(0xFFFF_FFFF)
_ROW_BITS = np.uint64(32)


class KeyIndex:
    """Key of up to 16 bytes -> row below 2^32; keys are added once and never removed."""

    def __init__(self, keys_of: Callable[[Sequence[int]], Mapping[int, bytes]]) -> None:
        """Start without keys.

        Args:
            keys_of: reads the keys stored in the given rows.
        """
        self._keys_of = keys_of
        self._newest: dict[bytes, int] = {}
        self._before: dict[bytes, int] = {}
        self._runs: list[NDArray[np.uint64]] = []

    def __len__(self) -> int:
        return len(self._newest) + sum(map(len, self._runs))

    def add(self, pairs: Iterable[tuple[bytes, int]]) -> None:
        """Add new keys, each stored in its row already."""
        self._newest.update(pairs)
        if len(self._newest) >= NEWEST:
            self._settle()

    def find(self, keys: Sequence[bytes]) -> dict[bytes, int]:
        """Return the rows of the keys that are in the index."""
        newest, before = self._newest, self._before
        found = {key: newest[key] for key in keys if key in newest}
        if self._runs and len(found) < len(keys):
            found.update((key, before[key]) for key in keys if key in before)
            left = [key for key in keys if key not in found]
            if left:
                found.update(self._settled(left))
        return found

    def _settled(self, keys: Sequence[bytes]) -> dict[bytes, int]:
        """Find keys in the arrays: look up the rows with equal prefixes, then compare full keys."""
        first, rows = _prefixes(keys), list[int]()
        first.sort()  # neighbours are searched in the same part of an array
        last = first | _ROW
        for run in self._runs:
            starts = run.searchsorted(first)
            for i in np.flatnonzero(run.take(starts, mode="clip") - first <= _ROW).tolist():
                end = run.searchsorted(last[i], side="right")
                rows += (run[starts[i] : end] & _ROW).tolist()
        if not rows:
            return {}
        wanted = set(keys)
        return {key: row for row, key in self._keys_of(rows).items() if key in wanted}

    def _settle(self) -> None:
        """Turn the dict into an array, and merge arrays until each is twice the next."""
        rows = np.fromiter(self._newest.values(), np.uint64, len(self._newest))
        parts = [_prefixes(list(self._newest)) | rows]
        self._before, self._newest = self._newest, {}
        n = len(rows)
        while self._runs and len(self._runs[-1]) < 2 * n:
            parts.append(self._runs.pop())
            n += len(parts[-1])
        run = np.concatenate(parts)
        parts.clear()  # free the parts before sorting
        run.sort()
        self._runs.append(run)


def _prefixes(keys: Sequence[bytes]) -> NDArray[np.uint64]:
    """Return the first 4 bytes of every key as the upper half of a number, shape (n_keys,)."""
    parts = np.array(keys, dtype=f"S{KEY_BYTES}").view(">u4")[:: KEY_BYTES // 4]
    return np.asarray(parts.astype(np.uint64) << _ROW_BITS)


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
