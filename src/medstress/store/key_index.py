"""Calls by their keys: an index of those that are answered, and the journal of those in flight.

The index from key to row is in memory: one on disk would dirty a page for every random key.

The newest keys are in a dict, all others in one sorted array of 8 bytes a key. It holds only
prefixes of keys; full keys are compared where they are stored.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

import numpy as np
import orjson
from numpy.typing import NDArray

from medstress.store.database import Database

KEY_BYTES = 16
NEWEST = 16_384
"""Keys that the dict holds at least before older ones move. Most consumed calls were answered that
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
        self._older = np.zeros(0, np.uint64)

    def __len__(self) -> int:
        return len(self._newest) + len(self._older)

    def add(self, pairs: Iterable[tuple[bytes, int]]) -> None:
        """Add new keys, each stored in its row already."""
        newest = self._newest
        newest.update(pairs)
        if len(newest) >= max(2 * NEWEST, len(self._older) // 16):
            keys = list(islice(newest, len(newest) - NEWEST))
            rows = np.array([newest.pop(key) for key in keys], np.uint64)
            parts = np.concatenate((self._older, _prefixes(keys) | rows))
            parts.sort(kind="stable")  # which merges what is sorted already
            self._older = parts

    def find(self, keys: Sequence[bytes]) -> dict[bytes, int]:
        """Return the rows of the keys that are in the index."""
        newest = self._newest
        rows_of = {key: newest[key] for key in keys if key in newest}
        if len(self._older) and len(rows_of) < len(keys):
            left = {key for key in keys if key not in rows_of}
            # Rows with equal prefixes, then the full keys of these rows.
            first = _prefixes(list(left))
            first.sort()  # neighbours are searched in the same part of the array
            ends = self._older.searchsorted(first | _ROW, side="right")
            starts = self._older.searchsorted(first)
            same = np.flatnonzero(ends > starts).tolist()
            rows = [r for i in same for r in (self._older[starts[i] : ends[i]] & _ROW).tolist()]
            if rows:
                stored = self._keys_of(rows).items()
                rows_of.update((key, row) for row, key in stored if key in left)
        return rows_of


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
        self._open: dict[bytes, int] = {}
        stored = db.run(lambda db: db.execute("SELECT calls FROM dispatched").fetchone())
        if stored is None:
            return  # nothing is written by opening a run that may be refused
        left = {bytes.fromhex(key): trial for key, trial in orjson.loads(stored[0])}
        answered = find(list(left))
        lost = sorted(call for call in left.items() if call[0] not in answered)

        def settle(db: sqlite3.Connection) -> None:
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
