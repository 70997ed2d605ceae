"""Vectors on disk, texts whose vectors are there, and a cache of arrays in memory."""

from __future__ import annotations

import json
import os
import threading
import tokenize
import weakref
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Generic, TypeVar

import numpy as np

from medstress.core.errors import UsageError
from medstress.files.writing import atomic_stream

if TYPE_CHECKING:
    from numpy.typing import NDArray


Kind = TypeVar("Kind", np.float64, np.int64, np.int32)


class ArrayCache(Generic[Kind]):
    """Arrays by key, shared between threads and therefore read-only.

    The bound counts bytes, so a large vocabulary takes no more memory than a small one. The last
    array is kept whatever its size.
    """

    def __init__(self, n_bytes: int, entry_bytes: int = 0) -> None:
        """Create an empty cache.

        Args:
            n_bytes: the bound.
            entry_bytes: overhead counted per array, for arrays smaller than their overhead.
        """
        self.n_bytes = n_bytes
        self._entry_bytes = entry_bytes
        self._used_bytes = 0
        self._arrays: OrderedDict[str, NDArray[Kind]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: str) -> NDArray[Kind] | None:
        """Return the array of `key`, or None if it is not in the cache."""
        with self._lock:
            if key in self._arrays:
                self._arrays.move_to_end(key)
            return self._arrays.get(key)

    def keep(self, key: str, array: NDArray[Kind]) -> None:
        """Store an array that owns its data; replaces the one of another thread."""
        array.setflags(write=False)
        with self._lock:
            if (replaced := self._arrays.pop(key, None)) is not None:
                self._used_bytes -= replaced.nbytes + self._entry_bytes
            self._arrays[key] = array
            self._used_bytes += array.nbytes + self._entry_bytes
            while self._used_bytes > self.n_bytes and len(self._arrays) > 1:
                _, oldest = self._arrays.popitem(last=False)
                self._used_bytes -= oldest.nbytes + self._entry_bytes


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
        at = self._offset + start * width
        if found.size and os.preadv(self._descriptor, [found.data], at) != found.nbytes:
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
    except OSError as error:
        raise UsageError(
            f"embedding: the vectors cannot be written to {path.parent} ({error.strerror}); free "
            "some space there, or set MEDSTRESS_CACHE to another folder"
        ) from error


def _last_line(key: str, n_rows: int) -> bytes:
    content = {"medstress": "vectors", "key": key, "n_rows": n_rows}
    return b"\n" + json.dumps(content, sort_keys=True).encode() + b"\n"


class PreparedTexts:
    """The texts of all items, and the order in which anchors among them will be requested.

    Texts are found by bisection: a dict would take ten times the memory, and an item has several
    texts.
    """

    def __init__(self, texts: Sequence[str], vectors: VectorFile, order: Iterable[str]) -> None:
        """Index texts and their vectors.

        Args:
            texts: distinct, in ascending order.
            vectors: their vectors, in the same order.
            order: anchors in the order of the items; those not in `texts` are ignored.
        """
        self._texts = texts
        self._vectors = vectors
        rows = [self._row(anchor) for anchor in order]
        self._order = np.array([row for row in rows if row is not None], np.int32)
        self._places = np.full(len(texts), -1, np.int32)
        self._places[self._order] = np.arange(len(self._order), dtype=np.int32)

    def __contains__(self, text: str) -> bool:
        return self._row(text) is not None

    def vector(self, text: str) -> NDArray[np.float64] | None:
        """Return the vector of a text, shape (n_dimensions,); None if it is not among these."""
        row = self._row(text)
        if row is None:
            return None
        return np.asarray(self._vectors.rows(row, row + 1)[0], np.float64)

    def neighbours(self, anchor: str, limit: int) -> list[str]:
        """Return up to `limit` anchors that are consecutive in the order and include `anchor`."""
        row = self._row(anchor)
        place = -1 if row is None else int(self._places[row])
        if place < 0:
            return [anchor]
        start = place - place % limit
        return [self._texts[i] for i in self._order[start : start + limit].tolist()]

    def _row(self, text: str) -> int | None:
        row = bisect_left(self._texts, text)
        return row if row < len(self._texts) and self._texts[row] == text else None
