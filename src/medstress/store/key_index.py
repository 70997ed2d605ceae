"""Which row each key has, in memory: an index on disk would dirty a page for every random key.

A dict of the newest keys and sorted arrays of the others, merged like the runs of a
log-structured tree: 24 bytes a key, a constant number of searches a lookup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

KEY_BYTES = 16
NEWEST = 32_768
"""Keys that the dict holds before it becomes an array."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Sorted keys and their rows."""

    keys: NDArray[np.bytes_]
    rows: NDArray[np.int64]


class KeyIndex:
    """Key of up to 16 bytes -> row; keys are added once and never removed."""

    def __init__(self) -> None:
        self._newest: dict[bytes, int] = {}
        self._runs: list[_Run] = []

    def __len__(self) -> int:
        return len(self._newest) + sum(len(run.keys) for run in self._runs)

    def add(self, pairs: Iterable[tuple[bytes, int]]) -> None:
        """Add keys that are not in it."""
        self._newest.update(pairs)
        if len(self._newest) >= NEWEST:
            self._settle()

    def find(self, keys: Sequence[bytes]) -> dict[bytes, int]:
        """The rows of those keys that have one."""
        newest = self._newest
        found = {key: newest[key] for key in keys if key in newest}
        left = [key for key in keys if key not in found] if self._runs else []
        if left:
            wanted = _array(left)
            for run in self._runs:
                places = np.minimum(run.keys.searchsorted(wanted), len(run.keys) - 1)
                for i in np.flatnonzero(run.keys[places] == wanted).tolist():
                    found[left[i]] = int(run.rows[places[i]])
        return found

    def _settle(self) -> None:
        """Turn the dict into an array, and merge arrays until each is twice the next."""
        rows = np.fromiter(self._newest.values(), np.int64, len(self._newest))
        parts = [_Run(_array(list(self._newest)), rows)]
        self._newest = {}
        n = len(rows)
        while self._runs and len(self._runs[-1].keys) < 2 * n:
            parts.append(self._runs.pop())
            n += len(parts[-1].keys)
        keys = np.concatenate([part.keys for part in reversed(parts)])
        rows = np.concatenate([part.rows for part in reversed(parts)])
        parts.clear()  # nothing is held twice while the rest is sorted
        # Stable: linear in what is sorted already.
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        self._runs.append(_Run(keys, rows[order]))


def _array(keys: Sequence[bytes]) -> NDArray[np.bytes_]:
    return np.array(keys, dtype=f"S{KEY_BYTES}")
