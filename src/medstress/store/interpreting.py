"""The boundary round whatever is made of a stored run: odd rows end it with one sentence."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from os import sep
from pathlib import Path
from traceback import extract_tb

from medstress.errors import DataError, StoreError
from medstress.store.opening import told

_ODD = (
    ValueError,  # not JSON, not a number, no member of an enumeration, refused by pydantic
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RecursionError,
    MemoryError,
)
"""What rows raise that medstress did not write."""
_MOST_SHOWN = 200
_OURS = f"{sep}medstress{sep}"


@contextmanager
def interpreting(path: Path) -> Iterator[None]:
    """Read a run's rows, and make numbers and pages of them.

    Args:
        path: the run's file.

    Raises:
        StoreError: the rows are not such as medstress writes.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(told(path, error)) from error
    except DataError as error:
        raise StoreError(f"{path} holds an item that is none: {error}") from error
    except _ODD as error:
        # The innermost place of ours: it finds the row's reader, or the mistake in it.
        *_, where = (at for at in extract_tb(error.__traceback__) if _OURS in at.filename)
        said = " ".join(str(error).split())[:_MOST_SHOWN]
        raise StoreError(
            f"{path} holds something that cannot be made sense of ({type(error).__name__}: {said}; "
            f"{Path(where.filename).name}, line {where.lineno}). It was damaged or changed: take "
            "it from a copy. If medstress wrote it just so, please report this sentence"
        ) from error
