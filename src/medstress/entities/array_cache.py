"""A cache of arrays that evicts the least recently used ones beyond a bound in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Kind = TypeVar("Kind", np.float64, np.int64, np.int32)


class ArrayCache(Generic[Kind]):
    """Arrays by key, shared between threads and therefore read-only.

    The bound counts bytes, so a large vocabulary takes no more memory than a small one. The last
    array is kept whatever its size.
    """

    def __init__(self, n_bytes: int, entry_bytes: int = 0) -> None:
        """Create an empty cache.

        Args:
            n_bytes: the bound.
            entry_bytes: overhead counted per array, for arrays smaller than their overhead.
        """
        self.n_bytes = n_bytes
        self._entry_bytes = entry_bytes
        self._used_bytes = 0
        self._arrays: OrderedDict[str, NDArray[Kind]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: str) -> NDArray[Kind] | None:
        """Return the array of `key`, or None if it is not in the cache."""
        with self._lock:
            if key in self._arrays:
                self._arrays.move_to_end(key)
            return self._arrays.get(key)

    def keep(self, key: str, array: NDArray[Kind]) -> None:
        """Store an array that owns its data; replaces the one of another thread."""
        array.setflags(write=False)
        with self._lock:
            if (replaced := self._arrays.pop(key, None)) is not None:
                self._used_bytes -= replaced.nbytes + self._entry_bytes
            self._arrays[key] = array
            self._used_bytes += array.nbytes + self._entry_bytes
            while self._used_bytes > self.n_bytes and len(self._arrays) > 1:
                _, oldest = self._arrays.popitem(last=False)
                self._used_bytes -= oldest.nbytes + self._entry_bytes
