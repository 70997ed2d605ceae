"""Files that anyone may have made, read within limits.

A file of data that would fill the memory is refused before it does: the limits are far above what
data sets of questions hold, and low enough for any machine. In a run folder a link, a pipe or a
device is refused before it is read, and a file is read up to a limit, whatever size it claims: a
sparse file claims terabytes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sized
from pathlib import Path
from typing import Any, TypeVar

from medstress.core.errors import DataError, StoreError
from medstress.files.reading import decode_utf8, read_bytes, read_json, reading

T = TypeVar("T", bound=Sized | Exception)


class TooLargeError(DataError):
    """A file holds more than a limit allows."""


MAX_BYTES = 256 << 20
"""Bytes of a file."""
MAX_LINE = 16 << 20
"""Bytes of a line."""
MAX_LINES = 5_000_000
"""Lines of a file of tokens or annotations."""
MAX_ROWS = 500_000
"""Rows of a table."""
MAX_COLUMNS = 1_000
"""Columns of a table."""
MAX_CELLS = 10_000_000
"""Cells of a table, values of a JSON file."""


def check_most(path: Path, n: int, most: int, what: str, mend: str = "take a part of it") -> None:
    """Refuse a file that holds more than a limit.

    Args:
        path: the file.
        n: what it holds.
        most: the limit.
        what: what is counted.
        mend: what to do.

    Raises:
        TooLargeError: it holds more.
    """
    if n > most:
        raise TooLargeError(f"{path}: expected at most {most:,} {what}, got {n:,}; {mend}")


def check_file(path: Path) -> None:
    """Refuse what is no ordinary file, which might never end, and a file that is too large.

    Raises:
        UsageError: it cannot be read.
        DataError: it is a pipe, a device or too large.
    """
    with reading(lambda why: f"cannot read {path}: {why}"):
        found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise DataError(f"{path}: expected a file, got something else; give a file")
    check_most(path, found.st_size, MAX_BYTES, "bytes", "take a part of it, or save it as Parquet")


def read_data(path: Path) -> bytes:
    """Return the bytes of a file; see `check_file`."""
    check_file(path)
    return read_bytes(path)


def check_line_lengths(path: Path, data: bytes) -> None:
    """Refuse a line of more bytes than the limit.

    Raises:
        TooLargeError: there is one.
    """
    start = 0
    while len(data) - start > MAX_LINE:
        end = data.rfind(b"\n", start, start + MAX_LINE + 1)
        if end < 0:
            raise TooLargeError(f"{path}: expected lines of at most {MAX_LINE:,} bytes; mend it")
        start = end + 1


def data_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers from 1, without line ends.

    Only the byte 0x0A ends a line; `str.splitlines` would also split at U+2028 or U+0085.

    Raises:
        DataError: see `check_file`; too many lines; a line is not UTF-8, raised when it is reached.
    """
    data = read_data(path).removeprefix(b"\xef\xbb\xbf")
    check_line_lengths(path, data)
    check_most(path, data.count(b"\n"), MAX_LINES, "lines")
    lines = data.split(b"\n")
    return ((n, decode_utf8(raw, path, n).rstrip("\r")) for n, raw in enumerate(lines, start=1))


def check_json_size(path: Path, data: bytes) -> None:
    """Refuse JSON of more values than fit in memory: they take twenty times their text.

    Raises:
        DataError: see `check_most`.
    """
    check_most(path, sum(map(data.count, (b",", b"[", b"{"))), MAX_CELLS, "values", "use Parquet")


def read_json_data(path: Path, expected: str = "JSON") -> Any:
    """Return the content of a JSON file; see `check_file`, `check_json_size` and `read_json`."""
    check_json_size(path, read_data(path))
    return read_json(path, expected)


def within_limits(path: Path, records: Iterable[tuple[str, T]]) -> Iterator[tuple[str, T]]:
    """Yield the records of a table as long as they are within the limits.

    Raises:
        DataError: too many rows or cells.
    """
    n_cells = 0
    for n, (place, cells) in enumerate(records, start=1):
        check_most(path, n, MAX_ROWS, "rows")
        n_cells += len(cells) if isinstance(cells, Sized) else 0
        check_most(path, n_cells, MAX_CELLS, "cells")
        yield place, cells


# -- files of a run folder ----------------------------------------------------------------------

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
