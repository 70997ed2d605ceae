"""An index from key to row, in memory: one on disk would dirty a page for every random key.

The newest keys are in dicts, all others in sorted arrays that are merged like the runs of a
log-structured tree: 8 bytes per key, few searches per lookup. The arrays hold only prefixes of
keys; full keys are compared where they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

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
