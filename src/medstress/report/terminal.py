"""Tables and sentences on the terminal, by rich."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from medstress.analyses.shown import Table
from medstress.report.formats import clean, one_line, parts

GAP = 2
"""Spaces between columns."""
_LABEL = 12
"""The narrowest that a column of text becomes before numbers move into another part."""
_WIDEST = 10_000


def print_table(console: Console, table: Table, *, wide: bool = False) -> None:
    """Print a table with caption and notes.

    Where they do not all fit, columns for wide screens are left out, unless they tell rows apart;
    numbers that still do not fit stand in further parts, each with the labels of the rows.

    Args:
        console: where.
        table: the table.
        wide: whether all columns stand side by side, however wide that is.
    """
    console.print(Text(one_line(table.caption), style="bold"))
    whole = range(len(table.columns))
    parted = [[*whole]] if wide else _parts(table, console.width)
    for i, columns in enumerate(parted):
        if i:
            console.print()
        if wide:
            _print_whole(console, _grid(table, columns))
        else:
            console.print(_grid(table, columns))
    for note in table.notes:
        say(console, note)


def say(console: Console, sentence: str, style: str = "") -> None:
    """Print a sentence; markup in it is text."""
    console.print(Text(one_line(sentence), style=style))


def _parts(table: Table, width: int) -> list[list[int]]:
    """Return the columns of each part, as many as fit beside the labels."""
    need = [_width(table, i) + GAP for i in range(len(table.columns))]
    if sum(need) - GAP <= width:
        return [[*range(len(need))]]
    kept = [i for i, column in enumerate(table.columns) if not column.wide or _differs(table, i)]
    labels = [i for i in kept if i < table.n_labels]
    # Text wraps, so that it takes what numbers leave.
    for i in kept:
        if i in labels or table.columns[i].form == "text":
            need[i] = min(need[i], _LABEL + GAP)
    room = width + GAP - sum(need[i] for i in labels)
    parted, left = [[*labels]], room
    for i in kept[len(labels) :]:
        if need[i] > left and len(parted[-1]) > len(labels):
            parted.append([*labels])
            left = room
        parted[-1].append(i)
        left -= need[i]
    return parted


def _differs(table: Table, i: int) -> bool:
    """Return whether a label tells rows apart."""
    return i < table.n_labels and len({parts(row[i], table.columns[i]) for row in table.rows}) > 1


def _width(table: Table, i: int) -> int:
    """Return the width of a column whose numbers are never cut; headings and remarks may wrap."""
    column = table.columns[i]
    lines = one_line(column.heading).split()
    for row in table.rows:
        text, small = parts(replace(row[i], lines=()), column)
        lines += [text, *small]
    return max((Text(line).cell_len for line in lines), default=0)


def _grid(table: Table, columns: Sequence[int]) -> Grid:
    grid = Grid(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for i in columns:
        is_text = table.columns[i].form == "text"
        grid.add_column(
            Text(one_line(table.columns[i].heading)),
            justify="left" if is_text or i < table.n_labels else "right",
            overflow="fold",
            # A number is never cut in two.
            min_width=None if is_text else _width(table, i),
        )
    for n, row in enumerate(table.rows):
        if n in table.rules:
            grid.add_row()
        cells = []
        for i in columns:
            text, small = parts(row[i], table.columns[i])
            style = "italic" if n in table.published else ""
            cells.append(Text("\n".join((text, *small)), style=style))
        grid.add_row(*cells)
    return grid


def _print_whole(console: Console, grid: Grid) -> None:
    """Print a grid as wide as it is, with lines that the terminal may wrap."""
    wide = Console(file=StringIO(), width=_WIDEST, color_system=None)
    wide.print(grid)
    assert isinstance(wide.file, StringIO)
    for line in wide.file.getvalue().splitlines():
        console.print(Text(clean(line.rstrip())), soft_wrap=True)
