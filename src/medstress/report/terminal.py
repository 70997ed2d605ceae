"""Tables and sentences on the terminal, by rich."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import StringIO
from typing import Literal

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from medstress.analyses.shown import Table
from medstress.report.text import clean, one_line, parts

GAP = 2
"""Spaces between columns."""
MOST_ROWS = 20
"""Rows that are printed unless all are wanted."""
_LABEL = 12
"""The narrowest that a column of text becomes before numbers move into another part."""
_WIDEST = 10_000
_WORD = 20
"""A longer word of a name may be broken."""
_INTERVAL = re.compile(r"(?<=\d), (?=[−-]?[\d.]+\])")
_TIED = "\N{NO-BREAK SPACE}"
_ROWS = (1, 2, 3)
"""In how many lines a value, its count and its interval may stand."""
_USUAL = 2
_HEADING = 3
"""Lines of a heading."""


def print_table(
    console: Console, table: Table, *, wide: bool = False, whole: str = "summary --wide"
) -> None:
    """Print a table with caption and notes.

    Where not all fits, values stand above their intervals, and columns for wide screens and labels
    that are the same in every row are left out. Numbers that still do not fit stand in further
    parts, each with the labels of the rows.

    Args:
        console: where.
        table: the table.
        wide: whether all columns stand side by side, however wide that is.
        whole: the command that has all rows; empty where none has.
    """
    console.print(Text(one_line(table.caption), style="bold"))
    left = 0 if wide else max(0, len(table.rows) - MOST_ROWS)
    if left:
        table = replace(table, rows=table.rows[:MOST_ROWS])
    columns, parted = _laid_out(table, console.width, wide=wide)
    for i, part in enumerate(parted):
        if i:
            console.print()
        grid = _grid(table, part, columns, _WIDEST if wide else console.width)
        if wide:
            _print_whole(console, grid)
        else:
            console.print(grid)
    if left:
        say(console, f"{left:,} more rows" + (f": {whole} has all." if whole else "."))
    for note in table.notes:
        say(console, note)


def say(console: Console, sentence: str, style: str = "") -> None:
    """Print a sentence: on a terminal wrapped between words, in one line elsewhere.

    An interval and a long word, such as a path, stay whole. Markup is text.
    """
    line = one_line(sentence)
    if console.is_terminal:
        tied = _INTERVAL.sub(f",{_TIED}", line)
        line = textwrap.fill(tied, console.width, break_long_words=False, break_on_hyphens=False)
    console.print(Text(line.replace(_TIED, " "), style), soft_wrap=True)


@dataclass(frozen=True, slots=True)
class _Column:
    """A column with value, count and interval in so many lines at most."""

    heading: str
    cells: tuple[str, ...]
    is_text: bool
    least: int
    """How narrow it may become: no number is cut, words of text wrap."""
    most: int
    """Nothing wraps."""


def _laid_out(table: Table, width: int, *, wide: bool) -> tuple[list[_Column], list[list[int]]]:
    """Return the columns as they are written, and which of them stand in each part."""
    whole = [*range(len(table.columns))]
    kept = [i for i in whole if _is_needed(table, i)]
    by_rows = {n: [_column(table, i, n) for i in whole] for n in _ROWS}
    for n, columns in by_rows.items():
        if _total(columns, whole) <= width:
            return columns, [whole]
        if not wide and n >= _USUAL and _total(columns, kept) <= width:
            return columns, [kept]
    columns = by_rows[_USUAL]
    labels = [i for i in kept if i < table.n_labels]
    parted = [[*labels]]
    for i in kept[len(labels) :]:
        if _total(columns, [*parted[-1], i]) > width and len(parted[-1]) > len(labels):
            parted.append([*labels])
        parted[-1].append(i)
    return columns, [whole] if wide else parted


def _is_needed(table: Table, i: int) -> bool:
    """Return whether a narrow terminal has a column: no label that all rows share."""
    if i == 0 or i >= table.n_labels:
        return i == 0 or not table.columns[i].wide
    return len({parts(row[i], table.columns[i]) for row in table.rows}) > 1


def _total(columns: Sequence[_Column], part: Sequence[int]) -> int:
    return sum(columns[i].least + GAP for i in part) - GAP


def _column(table: Table, i: int, n_rows: int) -> _Column:
    column, cells, numbers, words = table.columns[i], [], [0], [0]
    is_text, heading = column.form == "text" or i < table.n_labels, one_line(column.heading)
    for row in table.rows:
        text, small = parts(replace(row[i], lines=()), column)
        lines = [text, *small]
        n_joined = max(1, len(lines) - n_rows + 1)
        own = [" ".join(lines[:n_joined]), *lines[n_joined:]]
        remarks = [*filter(None, map(one_line, row[i].lines))]
        numbers += map(cell_len, own)
        words += [cell_len(word) for part in remarks for word in part.split()]
        words += [cell_len(word) for word in text.split() if is_text]
        cells.append("\n".join((*own, *remarks)))
    most = max(cell_len(line) for text in (heading, *cells) for line in text.split("\n"))
    least = min(most, max(_LABEL, min(_WORD, max(words))))
    if not is_text:
        words += map(cell_len, _broken(heading))
        least = max(*numbers, min(_LABEL, max(words)))
    return _Column(heading, tuple(cells), is_text, least, most)


def _broken(heading: str) -> list[str]:
    """Return a heading in three lines or fewer, as narrow as it gets."""
    width = max(map(len, heading.split()), default=1)
    while len(lines := textwrap.wrap(heading, width)) > _HEADING:
        width += 1
    return lines


def _grid(table: Table, part: Sequence[int], columns: Sequence[_Column], room: int) -> Grid:
    """Return the rows; where not all fits texts wrap, and numbers share what they leave."""
    here = [columns[i] for i in part]
    grid = Grid(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for one, width in zip(here, _widths(here, room), strict=True):
        justify: Literal["left", "right"] = "left" if one.is_text else "right"
        grid.add_column(Text(one.heading), justify=justify, overflow="fold", width=width)
    for n in range(len(table.rows)):
        if n in table.rules:
            grid.add_row()
        style = "italic" if n in table.published else ""
        grid.add_row(*(Text(one.cells[n], style=style) for one in here))
    return grid


def _widths(columns: Sequence[_Column], room: int) -> list[int]:
    """Return the widths of columns: text gives way, and takes what is left."""
    widths = [one.least for one in columns]
    spare = room - _total(columns, range(len(columns)))
    texts = [i for i, one in enumerate(columns) if one.is_text]
    while spare < 0 and texts and max(widths[i] for i in texts) > 1:
        widths[max(texts, key=widths.__getitem__)] -= 1
        spare += 1
    for one in (True, False):
        short = [i for i, column in enumerate(columns) if column.is_text is one]
        while spare > 0 and (short := [i for i in short if widths[i] < columns[i].most]):
            widths[min(short, key=widths.__getitem__)] += 1
            spare -= 1
    return widths


def _print_whole(console: Console, grid: Grid) -> None:
    """Print a grid as wide as it is, with lines that the terminal may wrap."""
    wide = Console(file=StringIO(), width=_WIDEST, color_system=None)
    wide.print(grid)
    assert isinstance(wide.file, StringIO)
    for line in wide.file.getvalue().splitlines():
        console.print(Text(clean(line.rstrip())), soft_wrap=True)
