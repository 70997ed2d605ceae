"""Write tables as Markdown, and escape text for Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from medstress.results.formats import undirected
from medstress.results.table import Cell, Column, Table

_SPECIAL = re.compile(r"[\\`*_{\[|~#$&]|(?<=:)(?=//)|(?<=\bwww)(?=\.)")
_BEGINS_BLOCK = re.compile(r"(\d*)([.)>+-])")


def escape(text: str) -> str:
    r"""Write text in one line and escape it for Markdown: no element, link or list.

    >>> print(escape("a|b < c, [x](y), https://z"))
    a\|b &lt; c, \[x](y), https:\//z
    """
    line = " ".join(undirected(text).split())
    escaped = _SPECIAL.sub(lambda each: f"\\{each[0]}", line).replace("<", "&lt;")
    block = _BEGINS_BLOCK.match(escaped)
    return f"{block[1]}\\{escaped[block.end(1) :]}" if block else escaped


def markdown_table(table: Table) -> str:
    """Write the columns and rows of a table, without its caption."""
    lines = [
        _line([escape(column.heading) for column in table.columns]),
        _line(["---:" if column.is_numeric else "---" for column in table.columns]),
        *(_line([*map(_cell, table.columns, row.cells)]) for row in table.rows),
    ]
    return "\n".join(lines)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(column: Column, cell: Cell) -> str:
    form = column.format
    parts = (cell.text(form), cell.interval(form), *cell.lines)
    return escape(" ".join(filter(None, parts)))


def markdown_page(title: str, sentences: Sequence[str], tables: Sequence[Table]) -> str:
    """Return a page: a heading, a paragraph for each sentence, then tables with their captions.

    Args:
        title: the heading.
        sentences: what is to be read first.
        tables: the tables; their notes follow them.
    """
    parts = [f"# {escape(title)}", *map(escape, sentences)]
    for table in tables:
        parts += [f"**{escape(table.caption)}**", markdown_table(table), *map(escape, table.notes)]
    return "\n\n".join(parts) + "\n"
