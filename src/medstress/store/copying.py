"""Read a run that another process writes, from a copy of its files: SQLite never opens its folder.

A connection to the original, even one that only reads, keeps the writer from tidying up when it
closes, and makes files of its own beside it.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from medstress.core.errors import StoreError
from medstress.store.missing import no_run
from medstress.store.opening import check_sides
from medstress.store.run_store import FILE

_LOG = f"{FILE}-wal"
_HEADER = 32
"""Bytes of a log that change whenever it begins anew."""
_ATTEMPTS = 40
_PAUSE_SECONDS = 0.05
"""Also how long the database must have rested, because clocks of file systems are coarse."""

_State: TypeAlias = tuple[tuple[int, int, int] | None, bytes | None]
"""(what tells whether the database changed, the head of its log)."""


@contextmanager
def copied(folder: Path) -> Iterator[Path]:
    """Yield a private folder with a copy of a run as it was at one moment, and remove it again.

    A writer only appends to its log, except while it moves what is in there to the database. The
    copy is good if no such move came in between; a last entry that was cut off is ignored.

    Raises:
        StoreError: there is no run in the folder, a file beside it is none of medstress, or it is
            written too fast to be copied.
    """
    check_sides(folder / FILE)
    with tempfile.TemporaryDirectory(prefix="medstress-") as name:
        place = Path(name)
        for _ in range(_ATTEMPTS):
            if _copy(folder, place):
                yield place
                return
            time.sleep(_PAUSE_SECONDS)
        raise StoreError(f"{folder / FILE} is being written too fast to be read; try again")


def _copy(folder: Path, place: Path) -> bool:
    """Copy database and log, and return whether they belong together."""
    before = _state(folder)
    if before[0] is None:
        raise no_run(folder)
    try:
        shutil.copyfile(folder / FILE, place / FILE)
        (place / _LOG).unlink(missing_ok=True)
        if before[1]:
            shutil.copyfile(folder / _LOG, place / _LOG)
    except FileNotFoundError:
        return False
    rested = time.time_ns() - before[0][2] > _PAUSE_SECONDS * 1e9
    return rested and before == _state(folder)


def _state(folder: Path) -> _State:
    try:
        found = (folder / FILE).stat()
    except OSError:
        return None, None
    try:
        with (folder / _LOG).open("rb") as stream:
            head = stream.read(_HEADER)
    except OSError:
        head = None
    return (found.st_ino, found.st_size, found.st_mtime_ns), head
