"""Write a table as HTML; all text is escaped, and characters that HTML does not allow replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from medstress.metrics.old_stats.estimates import Estimate
from medstress.results.formats import clean, count
from medstress.results.names import Named, key_of
from medstress.results.table import Cell, Column, Row, Table


def html_table(table: Table) -> Markup:
    """Write a table with its caption and notes; the label columns become one cell.

    Cells with numbers have the value in `data-sort`, so that rows can be sorted.
    """
    if not table.rows:
        return Markup('<p class="none">{}: none.</p>\n').format(clean(table.caption))
    caption = f"{table.name}-caption"
    head = Markup("\n").join(_headings(table))
    body = Markup("\n").join(_row(table, each) for each in table.rows)
    note = clean(" ".join(table.notes))
    return Markup(
        '<div class="scroll" role="region" aria-labelledby="{caption_id}" tabindex="0">\n'
        '<table id="{name}" class="sortable">\n'
        '<caption id="{caption_id}"><span>{caption}</span></caption>\n'
        "<thead><tr>\n{head}\n</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>\n{note}"
    ).format(
        caption_id=caption,
        name=table.name,
        caption=clean(table.caption),
        head=head,
        body=body,
        note=Markup('<p class="note">{}</p>\n').format(note) if note else "",
    )


def _headings(table: Table) -> list[Markup]:
    labels = [column.heading for column in table.columns[: table.n_labels]]
    named = ", ".join([*labels[:1], *(each.lower() for each in labels[1:])])
    merged = [(table.columns[0], named)]
    merged += [(column, column.heading) for column in table.columns[table.n_labels :]]
    return [
        Markup(f'<th scope="col"{_number(column)}{_tip(column)}>{escape(clean(text))}</th>')
        for column, text in merged
    ]


def _row(table: Table, row: Row) -> Markup:
    # Thousands of cells: strings are joined here, for `Markup.format` takes ten times as long.
    cells = list(zip(table.columns, row.cells, strict=True))
    labels = cells[: table.n_labels]
    first, cell = labels[0]
    # A number needs its column's heading; a name does not.
    named = [
        f"{column.heading.lower()} {each.text(column.format)}"
        if column.is_numeric
        else each.text(column.format)
        for column, each in labels[1:]
    ]
    lines = [line for _, each in labels for line in each.lines]
    small = [" · ".join(filter(None, named)), *lines]
    head = (
        f'<th scope="row"{_number(first)}{_sort_key(first, cell)}'
        f"{_keys([each.value for _, each in labels])}>"
        f"{_with_small_lines(cell.text(first.format), small)}</th>"
    )
    rest = (_cell(*each) for each in cells[table.n_labels :])
    return Markup("<tr>\n{}\n</tr>".format("\n".join([head, *rest])))


def _cell(column: Column, cell: Cell) -> str:
    form = column.format
    counted = cell.counted(form)
    if isinstance(cell.value, Estimate) and not counted:
        counted = f"n = {count(cell.value.n)}"
    lines = [counted, cell.interval(form), *cell.lines]
    attributes = f"{_number(column)}{_sort_key(column, cell)}{_keys([cell.value])}"
    return f"<td{attributes}>{_with_small_lines(cell.text(form), lines)}</td>"


def _keys(values: Sequence[Any]) -> str:
    """Return the `title` attribute that says the keys of names in words; empty if they are same."""
    if not any(isinstance(value, Named) and value != value.key for value in values):
        return ""
    keys = (key_of(value) for value in values if isinstance(value, str))
    return f' title="{escape(clean(" · ".join(filter(None, keys))))}"'


def _sort_key(column: Column, cell: Cell) -> str:
    """Return the `data-sort` attribute of a number; empty for text and missing values."""
    value = cell.value.value if isinstance(cell.value, Estimate) else cell.value
    if not column.is_numeric or value is None or isinstance(value, str):
        return ""
    return f' data-sort="{value}"'


def _tip(column: Column) -> str:
    return f' title="{escape(clean(column.tip))}"' if column.tip else ""


def _number(column: Column) -> str:
    return ' class="number"' if column.is_numeric else ""


def _with_small_lines(text: str, lines: list[str]) -> str:
    """Return a text and smaller lines, each with its own writing direction."""
    small = "".join(f"<small><bdi>{escape(clean(line))}</bdi></small>" for line in lines if line)
    return f"<bdi>{escape(clean(text))}</bdi>{small}"
