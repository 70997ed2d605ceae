"""The tables and figures made from a run, and the page that lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from medstress.results.markdown import escape
from medstress.results.table import Table
from medstress.stats.estimates import Estimate

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """One table or figure."""

    name: str
    """Stem of its file names."""
    title: str
    """Title on the index page."""
    files: Mapping[str, bytes]
    """Contents by file name."""
    notes: tuple[str, ...]
    """The sentences of its caption."""
    body: str = ""
    """Markdown below the caption on the index page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """One table or figure that the run cannot fill."""

    name: str
    """Stem that its file names would have."""
    title: str
    """Title on the index page."""
    reason: str
    """What the run lacks."""


def index(results: Sequence[Made | Skipped], name: str) -> str:
    """Return a Markdown page of what was made, with captions, and what was not, with reasons."""
    lines = [f"# Tables and figures of {escape(name)}", ""]
    for each in results:
        if isinstance(each, Made):
            lines += [f"## {escape(each.title)}", "", f"Files: {', '.join(sorted(each.files))}", ""]
            lines += [*(f"* {escape(note)}" for note in each.notes), ""]
            lines += [each.body, ""] if each.body else []
    skipped = [each for each in results if isinstance(each, Skipped)]
    if skipped:
        lines += ["## Not made", ""]
        # Reasons are our own text and contain Markdown, so they are not escaped.
        lines += [f"* {escape(each.title)}: {each.reason}" for each in skipped]
    return "\n".join(lines).rstrip() + "\n"
