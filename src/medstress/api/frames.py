"""Rows of a run as data frames: polars, or pandas with one extra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from medstress.core.errors import missing_extra
from medstress.results.csv import flatten
from medstress.stats.estimates import is_estimate

if TYPE_CHECKING:
    import polars

Library: TypeAlias = Literal["polars", "pandas"]
"""What a data frame is made with."""


def check_library(library: Library) -> None:
    """Check that a library is installed before any row is read.

    Raises:
        UsageError: it is not.
    """
    if library == "pandas":
        try:
            import pandas
            import pyarrow
        except ModuleNotFoundError as error:
            raise missing_extra("pandas with pyarrow", "pandas") from error
        del pandas, pyarrow


def as_frame(frame: polars.DataFrame, library: Library) -> Any:
    """Return a polars data frame as one of the library that was asked for."""
    return frame.to_pandas() if library == "pandas" else frame


def result_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of a summary with one value in each column.

    >>> result_rows([{"asr": {"value": 0.5, "n": 2, "low": 0.1, "high": 0.9, "method": "wilson"},
    ...              "control": {}}])[0]["asr_low"]
    0.1
    """
    return flatten([_opened(row) for row in rows])


def _opened(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row whose tables of estimates and numbers, such as `queries`, are columns each."""
    opened: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping) and not is_estimate(value):
            opened |= {f"{key}_{name}": each for name, each in value.items()}
        else:
            opened[key] = value
    return opened
