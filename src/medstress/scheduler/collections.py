"""How often Python looks for cycles of dead objects while many trials are live."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

NET_OBJECTS = 50_000
"""Objects made and not given back before the collector looks: about what a window of trials
holds. At Python's 700 it went through the live queries again and again, a tenth to a fifth of the
time, and found nothing: a trial's objects form no cycles."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let the collector look seldom meanwhile; what it was set to comes back."""
    before = gc.get_threshold()
    # A collector that is switched off (0), or set to look more seldom still, stays so.
    if 0 < before[0] < NET_OBJECTS:
        gc.set_threshold(NET_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
