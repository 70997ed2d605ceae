"""Tables as Markdown and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

from medstress.analyses.shown import Label, Table
from medstress.report.formats import clean, one_line, parts
from medstress.stats.estimate import Estimate

_SPECIAL = re.compile(r"[\\`*_{\[|~#$&]|(?<=:)(?=//)|(?<=\bwww)(?=\.)")
_BEGINS_BLOCK = re.compile(r"(\d*)([.)>+-])")
_ENDS = ("", "_n", "_hits", "_low", "_high")
"""What an estimate's columns add to the name of its column."""


def escape(text: str) -> str:
    r"""Write text in one line and escape it for Markdown: no element, link or list.

    >>> print(escape("a|b < c, [x](y), https://z"))
    a\|b &lt; c, \[x](y), https:\//z
    """
    escaped = _inline(text)
    block = _BEGINS_BLOCK.match(escaped)
    return f"{block[1]}\\{escaped[block.end(1) :]}" if block else escaped


def _inline(text: str) -> str:
    return _SPECIAL.sub(lambda match: f"\\{match[0]}", one_line(text)).replace("<", "&lt;")


def markdown_table(table: Table) -> str:
    """Write a table with its caption and notes."""

    def line(cells: list[str]) -> str:
        return f"| {' | '.join(cells)} |"

    rows = []
    for row in table.rows:
        cells = [parts(entry, column) for entry, column in zip(row, table.columns, strict=True)]
        rows.append(line([_inline(" ".join((text, *small))) for text, small in cells]))
    head = [
        line([_inline(column.heading) for column in table.columns]),
        line(["---" if column.form == "text" else "---:" for column in table.columns]),
    ]
    grid = "\n".join([*head, *rows])
    return "\n\n".join([f"**{escape(table.caption)}**", grid, *map(escape, table.notes)]) + "\n"


def csv_table(table: Table) -> str:
    """Write a table as CSV: keys instead of words, numbers unrounded, estimates in five columns."""
    is_estimate = [
        any(isinstance(row[i].value, Estimate) for row in table.rows)
        for i in range(len(table.columns))
    ]
    names = [
        f"{column.key or column.heading}{end}"
        for column, wide in zip(table.columns, is_estimate, strict=True)
        for end in (_ENDS if wide else _ENDS[:1])
    ]
    lines: list[list[object]] = [[clean(name) for name in names]]
    for row in table.rows:
        cells: list[object] = []
        for entry, wide in zip(row, is_estimate, strict=True):
            value = entry.value
            if isinstance(value, Estimate):
                cells += [value.value, value.n, value.hits, value.low, value.high]
                continue
            plain = value.key if isinstance(value, Label) else value
            cells.append(clean(plain) if isinstance(plain, str) else plain)
            cells += [None] * (len(_ENDS) - 1) * wide
        lines.append(cells)
    return csv_text(lines)


def csv_text(lines: Iterable[Sequence[object]]) -> str:
    """Write lines as CSV; a text that a spreadsheet would evaluate gets an apostrophe in front."""
    from medstress.core.frames import neutral

    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerows([neutral(cell) for cell in line] for line in lines)
    return stream.getvalue()
