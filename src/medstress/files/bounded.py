"""Files of data, read within limits: a file that would fill the memory is refused before it does.

The limits are far above what data sets of questions hold, and low enough for any machine.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Sized
from pathlib import Path
from typing import Any, TypeVar

from medstress.core.errors import DataError
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
