"""Tables as Markdown, and text that Markdown shows as it stands."""

from __future__ import annotations

import re

from medstress.results.formats import undirected
from medstress.results.table import Cell, Column, Table

_SPECIAL = re.compile(r"[\\`*_{\[|~#$&]|(?<=:)(?=//)|(?<=\bwww)(?=\.)")
_BEGINS_BLOCK = re.compile(r"(\d*)([.)>+-])")


def escape(text: str) -> str:
    r"""Write text in one line, so that Markdown shows it as it stands: no element, link or list.

    >>> print(escape("a|b < c, [x](y), https://z"))
    a\|b &lt; c, \[x](y), https:\//z
    """
    line = " ".join(undirected(text).split())
    found = _SPECIAL.sub(lambda each: f"\\{each[0]}", line).replace("<", "&lt;")
    begun = _BEGINS_BLOCK.match(found)
    return f"{begun[1]}\\{found[begun.end(1) :]}" if begun else found


def markdown_table(table: Table) -> str:
    """Write the columns and rows of a table; where it stands says what it is."""
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
