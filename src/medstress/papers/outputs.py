"""Tables as the papers print them, with their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from medstress.metrics.old_stats.estimates import Estimate
from medstress.results.table import Table

CSV_FIELDS = (
    "source",
    "victim",
    "dataset",
    "group",
    "embedding",
    "rule",
    "quantity",
    "method",
    "exponent",
    "exponent_rule",
    "learning_rate",
    "learning_rate_rule",
    "budget",
    "value",
    "low",
    "high",
    "n",
    "interval",
)
"""Columns of every CSV file of a table: one number per line, unrounded."""


class Printed(NamedTuple):
    """A table as a paper prints it, and its numbers."""

    table: Table
    """The table."""
    data: Sequence[Mapping[str, Any]]
    """The same numbers, tidy and unrounded."""


def csv_row(estimate: Estimate | None, **labels: Any) -> dict[str, Any]:
    """Return one line of the CSV: labels, and a number with its interval."""
    row = {**dict.fromkeys(CSV_FIELDS, ""), **labels}
    if estimate is not None:
        row |= {
            "value": estimate.value,
            "low": estimate.low,
            "high": estimate.high,
            "n": estimate.n,
            "interval": estimate.method,
        }
    return row
