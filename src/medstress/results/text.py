"""Write a table's cells as text for the terminal; the caller lays them out."""

from __future__ import annotations

from medstress.metrics.old_stats.estimates import Estimate
from medstress.results.table import Cell, Column, Table


def headings(table: Table) -> tuple[str, ...]:
    """Return the headings of the columns."""
    return tuple(column.heading for column in table.columns)


def rows(table: Table) -> list[tuple[str, ...]]:
    """Return the cells, each in one line, such as `37/82 = .451 [.348, .559]` for a share."""
    return [tuple(map(_cell, table.columns, each.cells)) for each in table.rows]


def _cell(column: Column, cell: Cell) -> str:
    form = column.format
    counted, text = cell.counted(form), cell.text(form)
    if counted and isinstance(cell.value, Estimate):
        text = counted if cell.value.value is None else f"{counted} = {text}"
    first = " ".join(filter(None, (text, cell.interval(form))))
    return "; ".join(filter(None, (first, *cell.lines)))
