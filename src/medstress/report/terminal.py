"""Tables on the terminal, by rich.

The smallest that `compare` needs; the renderers of the report take its place.
"""

from __future__ import annotations

from rich.table import Table as Grid
from rich.text import Text

from medstress.analyses.shown import Column, Entry, Form, Label, Table
from medstress.results.formats import NONE, count, decimal, probability, undirected
from medstress.stats.estimate import Estimate


def grid(table: Table, *, wide: bool) -> Grid:
    """Return a table for a terminal; columns for wide screens only where asked."""
    kept = [i for i, column in enumerate(table.columns) if wide or not column.wide]
    drawn = Grid(
        title=table.caption,
        caption=" ".join(table.notes) or None,
        title_justify="left",
        caption_justify="left",
        box=None,
        pad_edge=False,
    )
    for i in kept:
        is_text = i < table.n_labels or table.columns[i].form == "text"
        drawn.add_column(
            table.columns[i].heading,
            justify="left" if is_text else "right",
            no_wrap=not is_text,
            overflow="fold",
        )
    for number, row in enumerate(table.rows):
        cells = (Text(_written(row[i], table.columns[i])) for i in kept)
        drawn.add_row(*cells, end_section=number + 1 in table.rules)
    return drawn


def _written(entry: Entry, column: Column) -> str:
    """Return a value, and in lines of their own its interval and remarks."""
    value, lines = entry.value, list(entry.lines)
    if isinstance(value, Estimate):
        if value.low is not None and value.high is not None:
            ends = f"[{_number(value.low, column.form)}, {_number(value.high, column.form)}]"
            lines.insert(0, ends)
        value = value.value
    text = value.words if isinstance(value, Label) else value
    shown = undirected(text) if isinstance(text, str) else _number(text, column.form)
    return "\n".join((f"{shown}{entry.mark}", *map(undirected, lines)))


def _number(value: float | None, form: Form) -> str:
    if value is None:
        return NONE
    if form == "p":
        return probability(value)
    return count(value) if form == "count" else decimal(value)
