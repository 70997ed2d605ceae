"""The tables and figures made from a run, their captions, and the page that lists them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from medstress.metrics.old_stats.estimates import Estimate
from medstress.results.csv import as_csv, flatten
from medstress.results.formats import clean
from medstress.results.latex import latex_table
from medstress.results.markdown import escape, markdown_table
from medstress.results.root import UNVERIFIED
from medstress.results.table import Cell, Row, Table

ROWS_OF_A_FLOAT = 45
"""More rows of a table than these are set as further floats in LaTeX, each on its own page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """One table or figure."""

    name: str
    """Stem of its file names."""
    title: str
    """Title on the index page."""
    files: Mapping[str, bytes]
    """Contents by file name."""
    notes: tuple[str, ...]
    """The sentences of its caption."""
    body: str = ""
    """Markdown below the caption on the index page."""
    remarks: tuple[str, ...] = ()
    """What is amiss with its files: on the index page, and not in the caption."""

    @property
    def caption(self) -> str:
        """The caption in one line: its title, then its sentences."""
        return " ".join(" ".join(map(clean, (f"{self.title}.", *self.notes))).split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """One table or figure that the run cannot fill."""

    name: str
    """Stem that its file names would have."""
    title: str
    """Title on the index page."""
    reason: str
    """What the run lacks."""


def figure_made(
    name: str,
    title: str,
    files: Mapping[str, bytes],
    caption: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
) -> Made:
    """Return a figure in its formats, and its numbers as CSV, with the columns that they have.

    Args:
        name: stem of the file names.
        title: title on the index page.
        files: contents by format.
        caption: sentences.
        rows: keys of a number, then `number(...)`.
    """
    keys = dict.fromkeys(key for row in rows for key, value in row.items() if value is not None)
    fields = [*(key for key in keys if key not in NUMBER), *NUMBER]
    return Made(
        name=name,
        title=title,
        files={
            **{f"{name}.{form}": content for form, content in files.items()},
            f"{name}.csv": as_csv(
                [{name: row.get(name) for name in fields} for row in rows], fields
            ).encode(),
        },
        notes=tuple(caption),
    )


NUMBER = ("value", "low", "high", "n", "interval")
"""The last columns of a figure's CSV file."""


def number(estimate: Estimate) -> dict[str, Any]:
    """Return the cells of a number in a CSV file: unrounded, with its interval and method."""
    values = (estimate.value, estimate.low, estimate.high, estimate.n, estimate.method)
    return dict(zip(NUMBER, values, strict=True))


def table_made(table: Table, title: str) -> Made:
    """Return a table as LaTeX, CSV (unrounded) and Markdown, without its empty columns."""
    shown = _without_empty_columns(table)
    rows = flatten(
        [
            {
                column.heading: _plain(cell)
                for column, cell in zip(shown.columns, row.cells, strict=True)
            }
            for row in shown.rows
        ]
    )
    fields = list(dict.fromkeys(key for row in rows for key in row))
    return Made(
        name=table.name,
        title=title,
        files={
            f"{table.name}.tex": _floats(shown).encode(),
            f"{table.name}.csv": as_csv(rows, fields).encode(),
            f"{table.name}.md": "\n\n".join(
                [markdown_table(shown), *map(escape, shown.notes), ""]
            ).encode(),
        },
        notes=shown.notes,
    )


def with_doubt(made: Made, doubts: Sequence[str]) -> Made:
    """Give the numbers of a run in doubt, which have no caption beside them, a column that says it.

    Args:
        made: a table or figure.
        doubts: `chain_sentences` of a run that does not agree with its chain; else none.
    """
    if not doubts:
        return made
    return replace(
        made,
        files={
            name: _with_column(data, " ".join(doubts)) if name.endswith(".csv") else data
            for name, data in made.files.items()
        },
    )


def _with_column(data: bytes, value: str) -> bytes:
    rows = csv.reader(io.StringIO(data.decode(), newline=""))
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    for i, row in enumerate(rows):
        writer.writerow([*row, value if i else UNVERIFIED])
    return stream.getvalue().encode()


def _without_empty_columns(table: Table) -> Table:
    kept = [
        i
        for i in range(len(table.columns))
        if i < table.n_labels or any(_has_value(row.cells[i]) for row in table.rows)
    ]
    return replace(
        table,
        columns=tuple(table.columns[i] for i in kept),
        rows=tuple(replace(row, cells=tuple(row.cells[i] for i in kept)) for row in table.rows),
    )


def _has_value(cell: Cell) -> bool:
    value = cell.value.value if isinstance(cell.value, Estimate) else cell.value
    return bool(cell.lines) or value not in (None, "")


def _plain(cell: Cell) -> Any:
    value = cell.value
    if isinstance(value, Estimate):
        return {key: each for key, each in value.as_json().items() if key != "method"}
    return f"{cell.before} {value}" if cell.before else value


def _floats(table: Table) -> str:
    chunks = [
        table.rows[i : i + ROWS_OF_A_FLOAT] for i in range(0, len(table.rows), ROWS_OF_A_FLOAT)
    ]
    return "\\clearpage\n".join(_float(table, rows, i) for i, rows in enumerate(chunks))


def _float(table: Table, rows: tuple[Row, ...], i: int) -> str:
    if i == 0:
        return latex_table(replace(table, rows=rows))
    return latex_table(
        replace(
            table,
            name=f"{table.name}-{i + 1}",
            caption=f"{table.caption} (continued)",
            rows=rows,
            notes=(),
        )
    )


INDEX_HEAD = "# Tables and figures of "
"""How the index page begins, by which a folder of an earlier call is known."""


def index(results: Sequence[Made | Skipped], name: str) -> str:
    """Return a Markdown page of what was made, with captions, and what was not, with reasons."""
    lines = [f"{INDEX_HEAD}{escape(name)}", ""]
    for each in results:
        if isinstance(each, Made):
            lines += [f"## {escape(each.title)}", "", f"Files: {', '.join(sorted(each.files))}", ""]
            lines += [*(f"* {escape(note)}" for note in each.notes), ""]
            lines += [each.body, ""] if each.body else []
            lines += [f"Warning: {escape(remark)}\n" for remark in each.remarks]
    skipped = [each for each in results if isinstance(each, Skipped)]
    if skipped:
        lines += ["## Not made", ""]
        # Reasons are our own text and contain Markdown, so they are not escaped.
        lines += [f"* {escape(each.title)}: {each.reason}" for each in skipped]
    return "\n".join(lines).rstrip() + "\n"
