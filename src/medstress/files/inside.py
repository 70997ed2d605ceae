"""The one door to a file of a run folder: what anyone may have put there is read only as a file.

A link, a pipe or a device is refused before it is read, and a file is read up to a limit, whatever
size it claims: a sparse file claims terabytes.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from medstress.core.errors import StoreError

LARGEST = 64 << 20
"""Bytes that are read of a file beside the database, such as the kept summary."""
_PLAIN = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_FLAGS = _PLAIN | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Neither a link is followed nor a pipe waited for; Windows has no such flags."""


def read_inside(path: Path, most: int = LARGEST) -> bytes:
    """Return the bytes of a file of a run folder.

    Raises:
        FileNotFoundError: there is none.
        OSError: it cannot be read.
        StoreError: it is a link, no regular file, or larger than `most`.
    """
    check_regular(path)
    descriptor = os.open(path, _FLAGS)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _odd(path, "not a regular file")
        data = stream.read(most + 1)
    if len(data) > most:
        raise _odd(path, f"larger than {most >> 20} MiB")
    return data


def check_regular(path: Path) -> int | None:
    """Return the size of a file of a run folder; None if there is no such file.

    Raises:
        StoreError: it is a link, or no regular file.
    """
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(status.st_mode):
        raise _odd(path, "a link")
    if not stat.S_ISREG(status.st_mode):
        raise _odd(path, "not a regular file")
    return status.st_size


def is_locked(path: Path) -> bool:
    """Return whether a process holds a lock file, or where that cannot be told.

    A shared lock is tried for a moment; who wants the lock then has to wait that long.
    """
    try:
        import fcntl
    except ImportError:
        return True
    try:
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def refuse_linked(folder: Path) -> None:
    """Refuse a run folder that is a link; folders above it may be links.

    Raises:
        StoreError: it is one.
    """
    if folder.is_symlink():
        raise StoreError(f"{folder} is a link; give the run folder itself")


def _odd(path: Path, what: str) -> StoreError:
    return StoreError(f"{path} is {what}, so medstress did not make it: it is not read; remove it")
