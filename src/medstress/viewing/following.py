"""Read a run again and again while a process works on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from medstress.core.errors import StoreError
from medstress.store.run_store import FILE
from medstress.viewing.liveness import liveness
from medstress.viewing.progress import Progress, read_progress

_SHARE_OF_A_CORE = 0.1
"""Most of one processor that reading takes; a large run is read less often than asked for."""
_KEPT = 60
"""Readings that are remembered."""
_MOST_FAILURES = 5
"""Readings in a row that may fail although a process works in the folder."""


def follow(
    folder: Path,
    every: float,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Sequence[Progress] | None]:
    """Yield the readings of a run so far, until it is over; the last of them is new.

    None is yielded while a process prepares the run, so that there is nothing to read yet.

    Args:
        folder: the run folder.
        every: seconds from one reading to the next, at the least.
        clock: the time, in seconds since 1970.
        sleep: waits so many seconds.

    Raises:
        StoreError: there is no run in the folder and nobody is starting one, or it cannot be read.
    """
    readings: list[Progress] = []
    n_failures = 0
    while True:
        began = clock()
        # Asked first: a process that ends after this leaves something to read.
        is_alive = liveness(folder).is_alive(began)
        try:
            readings.append(read_progress(folder, began))
        except StoreError:
            n_failures += (folder / FILE).is_file()
            if not is_alive or n_failures > _MOST_FAILURES:
                raise
            if not readings:
                yield None
        else:
            n_failures = 0
            del readings[:-_KEPT]
            yield readings
            if readings[-1].is_over:
                return
        sleep(max(every, (clock() - began) * (1 / _SHARE_OF_A_CORE - 1)))
