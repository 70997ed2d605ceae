"""Tables of analyses as the older renderers take them, until these are gone."""

from __future__ import annotations

from medstress.analyses.shown import Entry, Label, Table
from medstress.metrics.old_stats.estimates import Estimate as OldEstimate
from medstress.results.table import Cell, Column, Format, Row
from medstress.results.table import Table as OldTable
from medstress.stats.estimate import Estimate

_FORMATS = {"p": Format.PROBABILITY, **{form.value: form for form in Format}}


def as_old(table: Table) -> OldTable:
    """Return a table for `results.markdown` and `results.html`."""
    return OldTable(
        name=table.name,
        caption=table.caption,
        columns=tuple(
            Column(heading=column.heading, format=_FORMATS[column.form], tip=column.tip)
            for column in table.columns
        ),
        rows=tuple(
            Row(cells=tuple(map(_cell, row)), rule_above=number in table.rules)
            for number, row in enumerate(table.rows)
        ),
        notes=table.notes,
        n_labels=table.n_labels,
    )


def _cell(entry: Entry) -> Cell:
    value = entry.value
    if isinstance(value, Estimate):
        old = OldEstimate(
            value=value.value, n=value.n, low=value.low, high=value.high, method=value.method
        )
        return Cell(value=old, lines=entry.lines, mark=entry.mark)
    plain = value.words if isinstance(value, Label) else value
    return Cell(value=plain, lines=entry.lines, mark=entry.mark)
