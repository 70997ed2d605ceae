"""Tables and sentences on the terminal, by rich."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import StringIO

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from medstress.analyses.shown import Table
from medstress.report.formats import clean, one_line, parts

GAP = 2
"""Spaces between columns."""
MOST_ROWS = 20
"""Rows that are printed unless all are wanted."""
_LABEL = 12
"""The narrowest that a column of text becomes before numbers move into another part."""
_NARROWEST = 4
"""The narrowest that it becomes at all."""
_WIDEST = 10_000
_ROWS = (1, 2, 3)
"""In how many lines a value, its count and its interval may stand."""
_USUAL = 2
_HEADING = 3
"""Lines of a heading."""


def print_table(console: Console, table: Table, *, wide: bool = False) -> None:
    """Print a table with caption and notes.

    Where not all fits, values stand above their intervals, and columns for wide screens and labels
    that are the same in every row are left out. Numbers that still do not fit stand in further
    parts, each with the labels of the rows.

    Args:
        console: where.
        table: the table.
        wide: whether all columns stand side by side, however wide that is.
    """
    console.print(Text(one_line(table.caption), style="bold"))
    left = 0 if wide else max(0, len(table.rows) - MOST_ROWS)
    if left:
        table = replace(table, rows=table.rows[:MOST_ROWS])
    sizes, parted = _laid_out(table, console.width, wide=wide)
    for i, columns in enumerate(parted):
        if i:
            console.print()
        if wide:
            _print_whole(console, _grid(table, columns, sizes, _WIDEST))
        else:
            console.print(_grid(table, columns, sizes, console.width))
    if left:
        say(console, f"{left:,} more rows: summary --wide has all.")
    for note in table.notes:
        say(console, note)


def say(console: Console, sentence: str, style: str = "") -> None:
    """Print a sentence, wrapped on a terminal, in one line elsewhere; markup in it is text."""
    text = Text(one_line(sentence), style=style)
    if not console.is_terminal:
        console.print(text, soft_wrap=True)
        return
    for line in text.wrap(console, console.width):
        line.rstrip()
        console.print(line)


@dataclass(frozen=True, slots=True)
class _Size:
    """How a column is written, and how wide it has to be."""

    cells: tuple[str, ...]
    least: int
    """No number is cut; words of text may wrap."""
    most: int
    """Nothing wraps."""


def _laid_out(table: Table, width: int, *, wide: bool) -> tuple[list[_Size], list[list[int]]]:
    """Return the columns as they are written, and which of them stand in each part."""
    whole = [*range(len(table.columns))]
    kept = [i for i in whole if _is_needed(table, i)]
    by_rows = {n: [_size(table, i, n) for i in whole] for n in _ROWS}
    for n, sizes in by_rows.items():
        if _total(sizes, whole) <= width:
            return sizes, [whole]
        if wide or n < _USUAL:
            continue
        if _total(sizes, kept) <= width:
            return sizes, [kept]
    sizes = by_rows[_USUAL]
    return sizes, [whole] if wide else _parts(table, kept, sizes, width)


def _parts(table: Table, kept: list[int], sizes: list[_Size], width: int) -> list[list[int]]:
    """Return the columns of each part, as many as fit beside the labels."""
    labels = [i for i in kept if i < table.n_labels]
    parted = [[*labels]]
    for i in kept[len(labels) :]:
        if _total(sizes, [*parted[-1], i]) > width and len(parted[-1]) > len(labels):
            parted.append([*labels])
        parted[-1].append(i)
    return parted


def _is_needed(table: Table, i: int) -> bool:
    """Return whether a narrow terminal has a column: no label that all rows share."""
    if i == 0 or i >= table.n_labels:
        return i == 0 or not table.columns[i].wide
    return len({parts(row[i], table.columns[i]) for row in table.rows}) > 1


def _total(sizes: Sequence[_Size], columns: Sequence[int]) -> int:
    return sum(sizes[i].least + GAP for i in columns) - GAP


def _size(table: Table, i: int, n_rows: int) -> _Size:
    """Return a column with value, count and interval in so many lines at most."""
    column = table.columns[i]
    is_text = column.form == "text" or i < table.n_labels
    heading = one_line(column.heading)
    cells, numbers, words = [], [], _broken(heading)
    for row in table.rows:
        text, small = parts(replace(row[i], lines=()), column)
        lines = [text, *small]
        n_joined = max(1, len(lines) - n_rows + 1)
        own = [" ".join(lines[:n_joined]), *lines[n_joined:]]
        remarks = [*map(one_line, row[i].lines)]
        numbers += own
        words += [word for remark in remarks for word in remark.split()]
        cells.append("\n".join((*own, *filter(None, remarks))))
    # A long word of text is folded, a number never is.
    widest = max((_length(line) for cell in cells for line in cell.split("\n")), default=0)
    whole = max(widest, _length(heading))
    least = min(whole, _LABEL)
    if not is_text:
        wrapped = max(map(_length, words), default=0)
        least = max([min(wrapped, _LABEL), *map(_length, numbers)])
    return _Size(tuple(cells), least, whole)


def _broken(heading: str) -> list[str]:
    """Return a heading in few lines, as narrow as it gets."""
    width = max(map(len, heading.split()), default=1)
    while len(lines := textwrap.wrap(heading, width)) > _HEADING:
        width += 1
    return lines


def _length(line: str) -> int:
    return Text(line).cell_len


def _widths(table: Table, columns: Sequence[int], sizes: Sequence[_Size], room: int) -> list[int]:
    """Share a line among columns: what numbers need, then text, then headings in one line."""
    widths = {i: sizes[i].least for i in columns}
    is_text = {i: table.columns[i].form == "text" or i < table.n_labels for i in columns}
    left = room - sum(widths.values()) - GAP * (len(columns) - 1)
    while left < 0:
        widest = max((i for i in columns if is_text[i]), key=lambda i: widths[i], default=None)
        if widest is None or widths[widest] <= _NARROWEST:
            break
        widths[widest] -= 1
        left += 1
    for i in sorted(columns, key=lambda i: not is_text[i]):
        more = max(0, min(left, sizes[i].most - widths[i]))
        widths[i] += more
        left -= more
    return [widths[i] for i in columns]


def _grid(table: Table, columns: Sequence[int], sizes: Sequence[_Size], room: int) -> Grid:
    grid = Grid(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for i, width in zip(columns, _widths(table, columns, sizes, room), strict=True):
        is_text = table.columns[i].form == "text" or i < table.n_labels
        grid.add_column(
            Text(one_line(table.columns[i].heading)),
            justify="left" if is_text else "right",
            overflow="fold",
            width=width,
        )
    for n in range(len(table.rows)):
        if n in table.rules:
            grid.add_row()
        style = "italic" if n in table.published else ""
        grid.add_row(*(Text(sizes[i].cells[n], style=style) for i in columns))
    return grid


def _print_whole(console: Console, grid: Grid) -> None:
    """Print a grid as wide as it is, with lines that the terminal may wrap."""
    wide = Console(file=StringIO(), width=_WIDEST, color_system=None)
    wide.print(grid)
    assert isinstance(wide.file, StringIO)
    for line in wide.file.getvalue().splitlines():
        console.print(Text(clean(line.rstrip())), soft_wrap=True)
