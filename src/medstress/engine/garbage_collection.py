"""Run Python's garbage collector less often while many trials are running."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

NET_OBJECTS = 50_000
"""Net allocations before a collection: about what a window of trials holds. With Python's 700 the
collector scanned the running queries again and again, a tenth to a fifth of the time, and found
nothing: a trial's objects form no cycles."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Raise the collector's threshold inside the block, and restore it afterwards."""
    before = gc.get_threshold()
    # A collector that is switched off (0), or has a higher threshold, stays as it is.
    if 0 < before[0] < NET_OBJECTS:
        gc.set_threshold(NET_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
