"""What every reader of a file returns: rows by column name, with their places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from medstress.core.errors import DataError

Row: TypeAlias = dict[str, Any]
RowOrError: TypeAlias = Row | DataError
"""A row, or the error about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows of one file or folder."""

    path: Path
    """The file or folder, for messages."""
    rows: tuple[tuple[str, RowOrError], ...]
    """Place, such as ``line 3``, and row; rows without any content are left out."""
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Column of numbers -> what they stand for, where the file says so (from 0)."""
    told: str = ""
    """What is unusual about the file and was settled in reading it; empty if nothing."""


def raise_error(row: RowOrError) -> Row:
    """Return the row; raise the error if it could not be read."""
    if isinstance(row, DataError):
        raise row
    return row
