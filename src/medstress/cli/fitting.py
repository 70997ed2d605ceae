"""Lay a table out within the terminal's width: no number is broken, no name is folded.

What is the same in every row is said once above the rows; remarks stand below them. Names that are
too long end in an ellipsis. Headings are wrapped between words only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain, repeat

from rich.cells import cell_len

from medstress.cli.look import Look, bar, cut, cut_apart, wrapped
from medstress.metrics.old_stats.estimates import Estimate
from medstress.results.formats import NONE
from medstress.results.table import Cell, Column, Format, Table
from medstress.results.text import rows as written_rows

_GAP = 2
_SHORT, _SHORTEST = 24, 10
"""Cells that a name keeps before other things give way, and at the least."""
_LEVELS = ((8, True), (8, False), (4, False), (0, False))
"""Cells of a bar and whether counts are written, from the most to the least room."""
_BETWEEN = " · "
_LONGEST_WORD, _LONGEST_HEADING = 16, 48
"""Cells of a heading; only names of others are longer."""


class Kind(Enum):
    """What a line is, for those who give it a style."""

    SAID = "said"
    """What holds for every row."""
    HEAD = "head"
    """Headings."""
    ROW = "row"
    """One row."""
    NOTE = "note"
    """Remarks on rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a table."""

    text: str
    """Its text, at most as wide as asked for."""
    kind: Kind
    """What it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How the columns of a table are shown, by heading."""

    bar: str | None = None
    """A column of shares with a bar beside each."""
    brief: frozenset[str] = frozenset()
    """Columns of values alone; said once above, they have counts and interval."""
    firm: frozenset[str] = frozenset()
    """Columns of text that is never cut."""
    remarks: str | None = None
    """A column of sentences, which stand below the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Strip:
    """A column as text."""

    heading: str
    texts: tuple[str, ...]
    is_soft: bool
    is_right: bool

    @property
    def width(self) -> int:
        return max(self.least, *map(cell_len, self.texts))

    @property
    def least(self) -> int:
        """Cells of the longest word of the heading."""
        return max(map(cell_len, self.heading.split()), default=0)


def fit(table: Table, look: Look, shape: Shape | None = None) -> list[Line]:
    """Return the lines of a table.

    Columns that are empty are left out. Columns that are the same in every row stand above. If
    the rest is too wide, counts go first, then bars get shorter and names are cut; what is still
    too wide stands in several blocks of lines.
    """
    shape = shape or Shape()
    if not table.rows:
        return []
    if shape.remarks is not None:
        table = _with_remarks(table, shape.remarks)
    kept, said = _sorted_out(table, shape)
    lines = [Line(text=text, kind=Kind.SAID) for text in _said(table, said, look)]
    marks = tuple("!" if any(cell.lines for cell in row.cells) else "" for row in table.rows)
    for strips in _blocks(table, kept, look, shape, marks):
        lines += _drawn(strips, look)
    return [*lines, *_notes(table, look)]


def whole_width(table: Table, look: Look) -> int:
    """Return how wide a table is with every cell and heading in one line."""
    strips = _whole(table, look)
    return _width(strips) + sum(max(0, cell_len(strip.heading) - strip.width) for strip in strips)


def in_parts(table: Table, look: Look) -> list[Line]:
    """Return every column of a table in parts below each other; nothing is cut or left out.

    Rows are named once, above, and have numbers in the parts.
    """
    strips = _whole(table, look)
    numbers = tuple(str(i + 1) for i in range(len(table.rows)))
    label = _Strip(heading="Row", texts=numbers, is_soft=False, is_right=True)
    room = look.width - label.width - _GAP
    named: list[_Strip] = []
    others: list[_Strip] = []
    for i, (column, strip) in enumerate(zip(table.columns, strips, strict=True)):
        is_long = strip.width > (room if column.is_numeric else room // 2)
        (named if i < table.n_labels or is_long else others).append(strip)
    same = [strip for strip in named if len(numbers) > 1 and len(set(strip.texts)) == 1]
    lines = _told("", [f"{strip.heading}: {strip.texts[0]}" for strip in same], look)
    for i, number in enumerate(numbers):
        parts = [f"{each.heading}: {each.texts[i]}" for each in named if each not in same]
        lines += _told(f"{number:>{label.width}}{' ' * _GAP}", parts, look)
    for block in _stacked(label, others, look) if others else ():
        lines += [Line(text="", kind=Kind.SAID), *_drawn(block, look)]
    return lines


def _whole(table: Table, look: Look) -> list[_Strip]:
    rows = written_rows(table)
    return [
        _Strip(
            heading=look.shown(column.heading),
            texts=tuple(look.shown(cells[i]) for cells in rows),
            is_soft=False,
            is_right=column.is_numeric,
        )
        for i, column in enumerate(table.columns)
    ]


def _told(number: str, parts: Sequence[str], look: Look) -> list[Line]:
    """Write what is said of a row, behind its number."""
    if not parts:
        return []
    told = wrapped("; ".join(parts), look.width - len(number), "" if number else " " * _GAP)
    starts = chain([number], repeat(" " * len(number)))
    return [
        Line(text=start + line, kind=Kind.SAID) for start, line in zip(starts, told, strict=False)
    ]


def _with_remarks(table: Table, heading: str) -> Table:
    """Return a table with the texts of a column as remarks on its rows."""
    at = [column.heading for column in table.columns].index(heading)
    rows = []
    for row in table.rows:
        first, *others = (cell for i, cell in enumerate(row.cells) if i != at)
        said = row.cells[at].text(Format.TEXT)
        lines = (*first.lines, *((said,) if said not in ("", NONE) else ()))
        rows.append(replace(row, cells=(replace(first, lines=lines), *others)))
    columns = (*table.columns[:at], *table.columns[at + 1 :])
    return replace(table, columns=columns, rows=tuple(rows))


def _sorted_out(table: Table, shape: Shape) -> tuple[list[int], list[int]]:
    """Return the columns that stand in rows, and those that are said once."""
    kept, said = [], []
    for i, column in enumerate(table.columns):
        is_brief = column.heading in shape.brief
        texts = {_written(column, row.cells[i], is_brief=is_brief) for row in table.rows}
        if i == 0 or column.heading == shape.bar:
            kept.append(i)
        elif texts <= {"", NONE}:
            continue
        elif len(texts) == 1 and (len(table.rows) > 1 or is_brief or not column.is_numeric):
            said.append(i)
        else:
            kept.append(i)
    return kept, said


def _said(table: Table, said: Sequence[int], look: Look) -> list[str]:
    """Write what holds for all rows, several in one line where they fit."""
    parts = []
    for i in said:
        column, cells = table.columns[i], [row.cells[i] for row in table.rows]
        whole = {_written(column, cell) for cell in cells}
        # The same share of other counts has no counts in common.
        text = whole.pop() if len(whole) == 1 else _written(column, cells[0], is_brief=True)
        parts.append(f"{_heading(column, look)}: {look.shown(text)}")
    lines: list[str] = []
    for part in parts:
        if lines and cell_len(lines[-1]) + cell_len(part) + 2 <= look.width:
            lines[-1] += f"; {part}"
        else:
            lines.append(part)
    return [cut(each, look.width, look.ellipsis) for each in lines]


def _notes(table: Table, look: Look) -> Iterator[Line]:
    """Yield the remarks of all cells, each with the rows that it is about."""
    about: dict[str, list[str]] = {}
    for row in table.rows:
        remarks = "; ".join(look.shown(line) for cell in row.cells for line in cell.lines)
        if remarks:
            name = look.shown(_written(table.columns[0], row.cells[0]))
            about.setdefault(remarks, []).append(name)
    for remarks, rows in about.items():
        is_all = len(rows) == len(table.rows) and len(rows) > 1
        names = "every row" if is_all else ", ".join(dict.fromkeys(rows))
        text = f"! {cut(names, look.width - 4, look.ellipsis)}: {remarks}"
        for line in wrapped(text, look.width, "  "):
            yield Line(text=cut(line, look.width, look.ellipsis), kind=Kind.NOTE)


def _written(
    column: Column, cell: Cell, *, with_counts: bool = True, is_brief: bool = False
) -> str:
    counted, text = cell.counted(column.format), cell.text(column.format)
    if counted and isinstance(cell.value, Estimate) and cell.value.value is None:
        text = counted
    elif counted and with_counts and not is_brief:
        text = f"{counted} = {text}"
    return text if is_brief else " ".join(filter(None, (text, cell.interval(column.format))))


def _heading(column: Column, look: Look) -> str:
    words = look.shown(column.heading).split()
    return cut(
        " ".join(cut(word, _LONGEST_WORD, look.ellipsis) for word in words),
        _LONGEST_HEADING,
        look.ellipsis,
    )


def _blocks(
    table: Table, kept: Sequence[int], look: Look, shape: Shape, marks: Sequence[str]
) -> Iterator[list[_Strip]]:
    """Yield the columns of each block of lines; one block where they fit."""
    for level, (of_bar, with_counts) in enumerate(_LEVELS):
        strips = [
            _strip(table, i, look, shape, of_bar=of_bar, with_counts=with_counts) for i in kept
        ]
        if any(marks):
            strips.append(_Strip(heading="", texts=tuple(marks), is_soft=False, is_right=False))
        if (found := _within(strips, look, _SHORT)) is not None:
            yield found
            return
        is_last = level == len(_LEVELS) - 1
        if is_last and (found := _within(strips, look, _SHORTEST)) is not None:
            yield found
            return
    soft = [strip for strip in strips if strip.is_soft] or strips[:1]
    label = _joined(soft, look)
    yield from _stacked(label, [strip for strip in strips if strip not in soft], look)


def _strip(
    table: Table, i: int, look: Look, shape: Shape, *, of_bar: int, with_counts: bool
) -> _Strip:
    column = table.columns[i]
    cells = [row.cells[i] for row in table.rows]
    is_brief = column.heading in shape.brief
    texts = [
        look.shown(_written(column, cell, with_counts=with_counts, is_brief=is_brief))
        for cell in cells
    ]
    if column.heading == shape.bar and of_bar:
        most = max(map(cell_len, texts))
        texts = [
            bar(_share(cell), of_bar, is_ascii=look.is_ascii).ljust(of_bar) + f" {text:>{most}}"
            for cell, text in zip(cells, texts, strict=True)
        ]
    is_text = column.format is Format.TEXT
    return _Strip(
        heading=_heading(column, look),
        texts=tuple(texts),
        is_soft=is_text and column.heading not in shape.firm,
        is_right=not is_text and column.heading != shape.bar,
    )


def _share(cell: Cell) -> float | None:
    value = cell.value.value if isinstance(cell.value, Estimate) else cell.value
    return float(value) if isinstance(value, int | float) else None


def _within(strips: Sequence[_Strip], look: Look, least: int) -> list[_Strip] | None:
    """Return the columns with names cut to the width; None if names would get too short."""
    soft = [strip for strip in strips if strip.is_soft]
    firm = sum(strip.width for strip in strips if not strip.is_soft)
    room = look.width - firm - _GAP * (len(strips) - 1)
    floors = [max(strip.least, min(strip.width, least)) for strip in soft]
    if sum(floors) > room:
        return None
    cap = max((strip.width for strip in soft), default=0)
    while sum(_capped(soft, floors, cap)) > room:
        cap -= 1
    widths = iter(_capped(soft, floors, cap))
    return [_narrowed(strip, next(widths), look) if strip.is_soft else strip for strip in strips]


def _capped(soft: Sequence[_Strip], floors: Sequence[int], cap: int) -> list[int]:
    return [max(floor, min(strip.width, cap)) for strip, floor in zip(soft, floors, strict=True)]


def _narrowed(strip: _Strip, width: int, look: Look) -> _Strip:
    texts = tuple(cut_apart(strip.texts, width, look.ellipsis))
    return _Strip(heading=strip.heading, texts=texts, is_soft=True, is_right=strip.is_right)


def _joined(soft: Sequence[_Strip], look: Look) -> _Strip:
    """Return all names of a row in one column of at most half the width."""
    rows = zip(*(strip.texts for strip in soft), strict=True)
    texts = [look.shown(_BETWEEN.join(filter(None, row))) for row in rows]
    return _Strip(
        heading=soft[0].heading,
        texts=tuple(cut_apart(texts, look.width // 3, look.ellipsis)),
        is_soft=True,
        is_right=False,
    )


def _stacked(label: _Strip, strips: Sequence[_Strip], look: Look) -> Iterator[list[_Strip]]:
    block = [label]
    for strip in strips:
        if len(block) > 1 and _width([*block, strip]) > look.width:
            yield block
            block = [label]
        block.append(strip)
    yield block


def _width(strips: Sequence[_Strip]) -> int:
    return sum(strip.width for strip in strips) + _GAP * (len(strips) - 1)


def _drawn(strips: Sequence[_Strip], look: Look) -> Iterator[Line]:
    """Yield the headings and rows of one block; headings use the room that is left."""
    widths = [strip.width for strip in strips]
    spare = look.width - sum(widths) - _GAP * (len(strips) - 1)
    for i, strip in enumerate(strips):
        more = cell_len(strip.heading) - widths[i]
        if 0 < more <= spare:
            widths[i] += more
            spare -= more
    heads = [wrapped(strip.heading, width) for strip, width in zip(strips, widths, strict=True)]
    most = max(map(len, heads))
    heads = [[""] * (most - len(head)) + head for head in heads]
    for texts in zip(*heads, strict=True):
        yield Line(text=_row(texts, strips, widths), kind=Kind.HEAD)
    for texts in zip(*(strip.texts for strip in strips), strict=True):
        yield Line(text=_row(texts, strips, widths), kind=Kind.ROW)


def _row(texts: Sequence[str], strips: Sequence[_Strip], widths: Sequence[int]) -> str:
    cells = []
    for text, strip, width in zip(texts, strips, widths, strict=True):
        pad = " " * (width - cell_len(text))
        cells.append(pad + text if strip.is_right else text + pad)
    return (" " * _GAP).join(cells).rstrip()
