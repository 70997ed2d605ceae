"""What a table of a paper is: cells for LaTeX, tidy rows for CSV, sentences for the caption."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.metrics.estimates import Estimate
from medstress.report.formats import MINUS, NONE, decimal
from medstress.spreadsheets import Writer

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
"""Columns of every CSV file of a table: one number a line, unrounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell of a table."""

    text: str
    """What it says."""
    small: str = ""
    """Said after it, smaller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a table."""

    cells: tuple[Cell, ...]
    """As many as columns."""
    published: bool = False
    """Whether it repeats a paper's numbers."""
    rule_above: bool = False
    """Whether a thin line parts it from the one above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable:
    """A table as a paper prints it."""

    name: str
    """File name without ending."""
    caption: str
    """What it shows."""
    notes: tuple[str, ...]
    """Sentences below it."""
    heads: tuple[tuple[tuple[str, int], ...], ...]
    """Header lines, each of texts and how many columns they span."""
    n_labels: int
    """How many columns at the left are labels."""
    lines: tuple[Line, ...]
    """Its body."""
    rows: tuple[Mapping[str, Any], ...]
    """The same numbers, tidy and unrounded, in `CSV_FIELDS`."""

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return sum(span for _, span in self.heads[-1])


def as_csv(rows: Sequence[Mapping[str, Any]], fields: Sequence[str] = CSV_FIELDS) -> str:
    """Write rows as CSV, one header line; None is empty."""
    stream = io.StringIO()
    writer = Writer(stream, fields, line_end="\n")
    for row in rows:
        writer.write(row)
    return stream.getvalue()


def flatten(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of JSON values as lines of CSV: estimates become columns, lists JSON.

    >>> flatten([{"a": {"value": 0.5, "n": 2}}, {"b": [1]}])
    [{'a': 0.5, 'a_n': 2, 'b': None}, {'a': None, 'a_n': None, 'b': '[1]'}]
    """
    found: list[dict[str, Any]] = []
    for row in rows:
        line: dict[str, Any] = {}
        for key, value in row.items():
            if isinstance(value, Mapping) and "value" in value:
                line |= {
                    key if part == "value" else f"{key}_{part}": each
                    for part, each in value.items()
                }
            elif isinstance(value, Mapping | list | tuple):
                line[key] = json.dumps(value, ensure_ascii=False)
            else:
                line[key] = value
        found.append(line)
    names = dict.fromkeys(name for line in found for name in line)
    return [{name: line.get(name) for name in names} for line in found]


def csv_row(estimate: Estimate | None, **labels: Any) -> dict[str, Any]:
    """One line of the CSV: labels, and a number with its interval."""
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


def percent(value: float | None, digits: int = 1) -> str:
    """Write a share in per cent, as the papers print success rates.

    >>> percent(0.135), percent(-0.02), percent(None)
    ('13.5', '−2.0', '–')
    """
    if value is None:
        return NONE
    text = f"{abs(100 * value):.{digits}f}"
    return MINUS + text if value < 0 and text.strip("0.") else text


def percent_cell(estimate: Estimate | None) -> Cell:
    """A rate in per cent with its interval; a dash where there is none."""
    if estimate is None or estimate.value is None:
        return Cell(text=NONE)
    return Cell(text=percent(estimate.value), small=_ends(percent, estimate))


def share_cell(estimate: Estimate, mark: str = "") -> Cell:
    """A share with three decimals and its interval, as the papers print accuracies."""
    if estimate.value is None:
        return Cell(text=NONE)
    return Cell(text=decimal(estimate.value) + mark, small=_ends(decimal, estimate))


def _ends(write: Any, estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return f"[{write(estimate.low)}, {write(estimate.high)}]"
