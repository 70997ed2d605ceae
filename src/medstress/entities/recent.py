"""The last arrays that were asked for, within a bound of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Kind = TypeVar("Kind", np.float64, np.int64, np.int32)


class Recent(Generic[Kind]):
    """The last arrays by key, shared between threads and therefore read-only.

    The bound is one of bytes, so that a large vocabulary takes no more memory than a small one;
    the last array is kept whatever its size.
    """

    def __init__(self, n_bytes: int, entry_bytes: int = 0) -> None:
        """Begin with none.

        Args:
            n_bytes: the bound.
            entry_bytes: counted for every array besides its data; where arrays are so small that
                what holds them takes more.
        """
        self.n_bytes = n_bytes
        self._entry_bytes = entry_bytes
        self._held = 0
        self._kept: OrderedDict[str, NDArray[Kind]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: str) -> NDArray[Kind] | None:
        """Return the array of `key`, or None where it is not kept."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def keep(self, key: str, made: NDArray[Kind]) -> None:
        """Keep an array that owns its data; two threads may have made the same one."""
        made.setflags(write=False)
        with self._lock:
            if (same := self._kept.pop(key, None)) is not None:
                self._held -= same.nbytes + self._entry_bytes
            self._kept[key] = made
            self._held += made.nbytes + self._entry_bytes
            while self._held > self.n_bytes and len(self._kept) > 1:
                _, oldest = self._kept.popitem(last=False)
                self._held -= oldest.nbytes + self._entry_bytes
