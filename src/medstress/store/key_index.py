"""Which row each key has, in memory: an index on disk would dirty a page for every random key.

Dicts of the newest keys, and of all keys sorted arrays, merged like the runs of a log-structured
tree: 8 bytes a key, a constant number of searches a lookup. The arrays hold only the beginnings of
keys; whether a whole key fits is read where it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

KEY_BYTES = 16
NEWEST = 16_384
"""Keys that a dict holds before an array does: what is consumed was mostly answered that lately
(`EXCHANGES_HELD` rounds of a batch of some hundred)."""
_ROW = np.uint64(0xFFFF_FFFF)
_ROW_BITS = np.uint64(32)


class KeyIndex:
    """Key of up to 16 bytes -> row below 2^32; keys are added once and never removed."""

    def __init__(self, keys_of: Callable[[Sequence[int]], Mapping[int, bytes]]) -> None:
        """Begin with no keys.

        Args:
            keys_of: reads the keys stored in some rows.
        """
        self._keys_of = keys_of
        self._newest: dict[bytes, int] = {}
        self._before: dict[bytes, int] = {}
        self._runs: list[NDArray[np.uint64]] = []

    def __len__(self) -> int:
        return len(self._newest) + sum(map(len, self._runs))

    def add(self, pairs: Iterable[tuple[bytes, int]]) -> None:
        """Add keys that are not in it, each stored in its row already."""
        self._newest.update(pairs)
        if len(self._newest) >= NEWEST:
            self._settle()

    def find(self, keys: Sequence[bytes]) -> dict[bytes, int]:
        """The rows of those keys that have one."""
        newest, before = self._newest, self._before
        found = {key: newest[key] for key in keys if key in newest}
        if self._runs and len(found) < len(keys):
            found.update((key, before[key]) for key in keys if key in before)
            left = [key for key in keys if key not in found]
            if left:
                found.update(self._settled(left))
        return found

    def _settled(self, keys: Sequence[bytes]) -> dict[bytes, int]:
        """The same for keys in the arrays: first the rows whose keys begin alike."""
        first, rows = _beginnings(keys), list[int]()
        first.sort()  # neighbours are searched for in the same part of an array
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
        parts = [_beginnings(list(self._newest)) | rows]
        self._before, self._newest = self._newest, {}
        n = len(rows)
        while self._runs and len(self._runs[-1]) < 2 * n:
            parts.append(self._runs.pop())
            n += len(parts[-1])
        run = np.concatenate(parts)
        parts.clear()  # nothing is held twice while the rest is sorted
        run.sort()
        self._runs.append(run)


def _beginnings(keys: Sequence[bytes]) -> NDArray[np.uint64]:
    """The first 4 bytes of every key as the upper half of a number, shape (n_keys,)."""
    parts = np.array(keys, dtype=f"S{KEY_BYTES}").view(">u4")[:: KEY_BYTES // 4]
    return np.asarray(parts.astype(np.uint64) << _ROW_BITS)
