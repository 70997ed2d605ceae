"""The last arrays that were asked for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Kind = TypeVar("Kind", np.float64, np.int64, np.int8)


class Recent(Generic[Kind]):
    """The last `size` arrays by key, shared between threads and therefore read-only."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[str, NDArray[Kind]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: str) -> NDArray[Kind] | None:
        """Return the array of `key`, or None where it is not kept."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def keep(self, key: str, made: NDArray[Kind]) -> None:
        """Keep an array; two threads may have made the same one."""
        made.setflags(write=False)
        with self._lock:
            self._kept[key] = made
            if len(self._kept) > self._size:
                self._kept.popitem(last=False)
