"""Vectors on disk: one .npy file each, with a last line that says what it holds."""

from __future__ import annotations

import json
import os
import tempfile
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from medstress.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def read_vectors(path: Path, key: str, n_rows: int) -> NDArray[np.float32] | None:
    """Return the vectors of a file, memory-mapped and read-only.

    None where there is no file, and where it is cut short or holds something else: numpy writes
    and maps the array, and a line after it, which readers of .npy files pass over, repeats the
    key. The line is written last, so what lacks it is not complete.
    """
    try:
        if not _ends_with(path, _line(key, n_rows)):
            return None
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, tokenize.TokenError):  # the last: a damaged header
        return None
    if vectors.dtype != np.float32 or vectors.ndim != 2 or len(vectors) != n_rows:
        return None
    kept: NDArray[np.float32] = vectors
    return kept


def write_vectors(path: Path, key: str, vectors: NDArray[np.float32]) -> None:
    """Write under another name, then rename: a reader never meets half a file.

    Two processes that write the same file at once both succeed; the last one's stays.

    Raises:
        UsageError: the folder cannot be written to.
    """
    name = None
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
        with os.fdopen(descriptor, "wb") as stream:
            np.save(stream, vectors, allow_pickle=False)
            stream.write(_line(key, len(vectors)))
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).replace(path)
    except OSError as error:
        _remove(name)
        raise UsageError(
            f"embedding: the vectors cannot be written to {path.parent} ({error.strerror}); make "
            "room there, or set MEDSTRESS_CACHE to another folder"
        ) from error
    except BaseException:
        _remove(name)
        raise


def _line(key: str, n_rows: int) -> bytes:
    said = {"medstress": "vectors", "key": key, "n_rows": n_rows}
    return b"\n" + json.dumps(said, sort_keys=True).encode() + b"\n"


def _ends_with(path: Path, line: bytes) -> bool:
    with path.open("rb") as stream:
        stream.seek(max(stream.seek(0, os.SEEK_END) - len(line), 0))
        return stream.read() == line


def _remove(name: str | None) -> None:
    if name is not None:
        Path(name).unlink(missing_ok=True)
