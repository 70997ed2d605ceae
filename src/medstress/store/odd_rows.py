"""Guard for code that interprets a stored run: malformed rows become one clear error."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from os import sep
from pathlib import Path
from traceback import extract_tb

from medstress.core.errors import DataError, StoreError
from medstress.store.opening import explain

_MALFORMED = (
    ValueError,  # not JSON, not a number, not in an enumeration, or refused by pydantic
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RecursionError,
    MemoryError,
)
"""Errors that rows raise if medstress did not write them."""
_MOST_SHOWN = 200
_OURS = f"{sep}medstress{sep}"


@contextmanager
def interpreting(path: Path) -> Iterator[None]:
    """Guard code that reads a run's rows and computes with them.

    Args:
        path: the run's file.

    Raises:
        StoreError: the rows are not as medstress writes them.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(explain(path, error)) from error
    except DataError as error:
        raise StoreError(f"{path} holds an invalid item: {error}") from error
    except _MALFORMED as error:
        # The innermost frame of medstress: where the row is read, or where the bug is.
        *_, where = (at for at in extract_tb(error.__traceback__) if _OURS in at.filename)
        detail = " ".join(str(error).split())[:_MOST_SHOWN]
        raise StoreError(
            f"{path} holds a value that cannot be interpreted ({type(error).__name__}: {detail}; "
            f"{Path(where.filename).name}, line {where.lineno}). The file was damaged or changed: "
            "restore it from a copy. If medstress wrote it like this, please report this message"
        ) from error
