"""Vectors on disk: one .npy file each, with a last line that says what it holds."""

from __future__ import annotations

import json
import os
import tokenize
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from medstress.errors import UsageError
from medstress.writing import replacing

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TYPE = np.dtype("<f4")


class VectorFile:
    """An open file of vectors; reading is thread-safe.

    Rows are read where they lie: pages of a memory map that were touched count as this process's
    memory, and with every item's texts in one file they would grow with the items.
    """

    def __init__(self, stream: BinaryIO, offset: int, shape: tuple[int, int]) -> None:
        """Take over the place of the array in a file; the stream may be closed after."""
        self.shape = shape
        self._offset = offset
        # A descriptor of its own keeps the file readable when another process replaces it.
        self._descriptor = os.dup(stream.fileno())
        weakref.finalize(self, os.close, self._descriptor)

    def __len__(self) -> int:
        return self.shape[0]

    def rows(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return the vectors from row `start` to before `stop`, a copy.

        Raises:
            UsageError: the file was cut short since it was opened.
        """
        found = np.empty((max(min(stop, len(self)) - start, 0), self.shape[1]), _TYPE)
        width = self.shape[1] * _TYPE.itemsize
        n = (
            os.preadv(self._descriptor, [found.data], self._offset + start * width)
            if found.size
            else 0
        )
        if n != found.nbytes:
            raise UsageError("embedding: a file of vectors was cut short; run the command again")
        return found

    def mapped(self) -> NDArray[np.float32]:
        """Return all vectors, memory-mapped and read-only."""
        with open(self._descriptor, "rb", closefd=False) as stream:
            return np.memmap(stream, _TYPE, "r", self._offset, self.shape)


def open_vectors(path: Path, key: str, n_rows: int) -> VectorFile | None:
    """Open the vectors of a file.

    None where there is no file, and where it is cut short or holds something else: numpy writes
    and reads the array, and a line after it, which readers of .npy files pass over, repeats the
    key. The line is written last, so what lacks it is not complete.
    """
    try:
        with path.open("rb") as stream:
            line = _line(key, n_rows)
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(size - len(line), 0))
            if stream.read() != line:
                return None
            stream.seek(0)
            if np.lib.format.read_magic(stream) != (1, 0):
                return None
            shape, by_column, kind = np.lib.format.read_array_header_1_0(stream)
            complete = size - len(line) - stream.tell() == int(np.prod(shape)) * kind.itemsize
            if by_column or kind != _TYPE or len(shape) != 2 or shape[0] != n_rows or not complete:
                return None
            return VectorFile(stream, stream.tell(), shape)
    except (OSError, ValueError, EOFError, tokenize.TokenError):  # the last: a damaged header
        return None


def write_vectors(
    path: Path, key: str, n_rows: int, blocks: Iterable[NDArray[np.float32]]
) -> VectorFile:
    """Write under another name, then rename: a reader never meets half a file.

    Two processes that write the same file at once both succeed; the last one's stays.

    Args:
        path: the file.
        key: what it holds.
        n_rows: how many vectors the blocks have together; at least one block.
        blocks: computed as they are written.

    Returns:
        What was written, whatever becomes of the file.

    Raises:
        UsageError: the folder cannot be written to.
    """
    try:
        with replacing(path) as stream:
            return _write(stream, key, n_rows, blocks)
    except OSError as error:
        raise UsageError(
            f"embedding: the vectors cannot be written to {path.parent} ({error.strerror}); make "
            "room there, or set MEDSTRESS_CACHE to another folder"
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
    stream.write(_line(key, n_rows))
    stream.flush()
    return VectorFile(stream, offset, (n_rows, width))


def _line(key: str, n_rows: int) -> bytes:
    said = {"medstress": "vectors", "key": key, "n_rows": n_rows}
    return b"\n" + json.dumps(said, sort_keys=True).encode() + b"\n"
