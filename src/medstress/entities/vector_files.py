"""Vectors on disk: .npy files whose last line identifies their content."""

from __future__ import annotations

import json
import os
import tokenize
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from medstress.core.errors import UsageError
from medstress.files.writing import atomic_stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TYPE = np.dtype("<f4")


class VectorFile:
    """An open file of vectors; reading is thread-safe.

    Rows are read by position instead of a memory map: touched pages of a map count as memory of
    this process, and with all items' texts in one file they would grow with the items.
    """

    def __init__(self, stream: BinaryIO, offset: int, shape: tuple[int, int]) -> None:
        """Store where the array lies in the file; the stream may be closed afterwards."""
        self.shape = shape
        self._offset = offset
        # A duplicate descriptor keeps the file readable when another process replaces it.
        self._descriptor = os.dup(stream.fileno())
        weakref.finalize(self, os.close, self._descriptor)

    def __len__(self) -> int:
        return self.shape[0]

    def rows(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return a copy of the vectors in rows `start` up to `stop` (exclusive).

        Raises:
            UsageError: the file was truncated after it was opened.
        """
        found = np.empty((max(min(stop, len(self)) - start, 0), self.shape[1]), _TYPE)
        width = self.shape[1] * _TYPE.itemsize
        n = (
            os.preadv(self._descriptor, [found.data], self._offset + start * width)
            if found.size
            else 0
        )
        if n != found.nbytes:
            raise UsageError("embedding: a file of vectors was truncated; run the command again")
        return found

    def mapped(self) -> NDArray[np.float32]:
        """Return all vectors, memory-mapped and read-only."""
        with open(self._descriptor, "rb", closefd=False) as stream:
            return np.memmap(stream, _TYPE, "r", self._offset, self.shape)


def open_vectors(path: Path, key: str, n_rows: int) -> VectorFile | None:
    """Open a file of vectors; return None if it is missing, truncated or holds something else.

    After the array comes a line with the key, which readers of .npy files ignore. It is written
    last, so a file without it is incomplete.
    """
    try:
        with path.open("rb") as stream:
            line = _last_line(key, n_rows)
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(size - len(line), 0))
            if stream.read() != line:
                return None
            stream.seek(0)
            if np.lib.format.read_magic(stream) != (1, 0):
                return None
            shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(stream)
            complete = size - len(line) - stream.tell() == int(np.prod(shape)) * dtype.itemsize
            if is_fortran or dtype != _TYPE or len(shape) != 2:
                return None
            if shape[0] != n_rows or not complete:
                return None
            return VectorFile(stream, stream.tell(), shape)
    except (OSError, ValueError, EOFError, tokenize.TokenError):  # TokenError: a damaged header
        return None


def write_vectors(
    path: Path, key: str, n_rows: int, blocks: Iterable[NDArray[np.float32]]
) -> VectorFile:
    """Write vectors under a temporary name, then rename, so that readers never see half a file.

    Two processes may write the same file at once; the last one wins.

    Args:
        path: the file.
        key: identifies its content.
        n_rows: total number of vectors in the blocks.
        blocks: at least one; computed as they are written.

    Returns:
        The written vectors, readable even if the file is replaced.

    Raises:
        UsageError: the folder cannot be written to.
    """
    try:
        with atomic_stream(path) as stream:
            return _write(stream, key, n_rows, blocks)
    except OSError as error:
        raise UsageError(
            f"embedding: the vectors cannot be written to {path.parent} ({error.strerror}); free "
            "some space there, or set MEDSTRESS_CACHE to another folder"
        ) from error


def _write(
    stream: BinaryIO, key: str, n_rows: int, blocks: Iterable[NDArray[np.float32]]
) -> VectorFile:
    offset, width = 0, 0
    for block in blocks:
        if not offset:
            width = block.shape[1]
            header = {"descr": _TYPE.str, "fortran_order": False, "shape": (n_rows, width)}
            np.lib.format.write_array_header_1_0(stream, header)
            offset = stream.tell()
        stream.write(np.ascontiguousarray(block, _TYPE).data)
    stream.write(_last_line(key, n_rows))
    stream.flush()
    return VectorFile(stream, offset, (n_rows, width))


def _last_line(key: str, n_rows: int) -> bytes:
    content = {"medstress": "vectors", "key": key, "n_rows": n_rows}
    return b"\n" + json.dumps(content, sort_keys=True).encode() + b"\n"
