"""Write a table as HTML; all text is escaped, and characters that HTML does not allow replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from medstress.results.formats import clean, count
from medstress.results.names import Named, key_of
from medstress.results.table import Cell, Column, Row, Table
from medstress.stats.estimates import Estimate


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
        Markup('<th scope="col"{}{}>{}</th>').format(_number(column), _tip(column), clean(text))
        for column, text in merged
    ]


def _row(table: Table, row: Row) -> Markup:
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
    head = Markup('<th scope="row"{}{}{}>{}</th>').format(
        _number(first),
        _sort_key(first, cell),
        _keys([each.value for _, each in labels]),
        _with_small_lines(cell.text(first.format), small),
    )
    return Markup("<tr>\n{}\n</tr>").format(
        Markup("\n").join([head, *(_cell(*each) for each in cells[table.n_labels :])])
    )


def _cell(column: Column, cell: Cell) -> Markup:
    form = column.format
    counted = cell.counted(form)
    if isinstance(cell.value, Estimate) and not counted:
        counted = f"n = {count(cell.value.n)}"
    lines = [counted, cell.interval(form), *cell.lines]
    return Markup("<td{}{}{}>{}</td>").format(
        _number(column),
        _sort_key(column, cell),
        _keys([cell.value]),
        _with_small_lines(cell.text(form), lines),
    )


def _keys(values: Sequence[Any]) -> Markup:
    """Return the `title` attribute that says the keys of names in words; empty if they are same."""
    if not any(isinstance(value, Named) and value != value.key for value in values):
        return Markup("")
    keys = (key_of(value) for value in values if isinstance(value, str))
    return Markup(' title="{}"').format(clean(" · ".join(filter(None, keys))))


def _sort_key(column: Column, cell: Cell) -> Markup:
    """Return the `data-sort` attribute of a number; empty for text and missing values."""
    value = cell.value.value if isinstance(cell.value, Estimate) else cell.value
    if not column.is_numeric or value is None or isinstance(value, str):
        return Markup("")
    return Markup(' data-sort="{}"').format(value)


def _tip(column: Column) -> Markup:
    return Markup(' title="{}"').format(clean(column.tip)) if column.tip else Markup("")


def _number(column: Column) -> Markup:
    return Markup(' class="number"') if column.is_numeric else Markup("")


def _with_small_lines(text: str, lines: list[str]) -> Markup:
    """Return a text and smaller lines, each with its own writing direction."""
    first = Markup("<bdi>{}</bdi>").format(clean(text))
    small = (Markup("<small><bdi>{}</bdi></small>").format(clean(line)) for line in lines if line)
    return first + Markup("").join(small)
