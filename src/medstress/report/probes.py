"""The tables of probes: accuracy and agreement over all variants of all items."""

from __future__ import annotations

from collections.abc import Sequence

from medstress.metrics.old_stats.estimates import is_estimate, read_score
from medstress.report.labels import Row, measured
from medstress.results.formats import as_text
from medstress.results.measures import measure
from medstress.results.names import CONTROL_WORDS
from medstress.results.probe_measures import PROBES
from medstress.results.table import Format, Table, Value, as_row, columns

_BY_CONTROL = "consistency_net"


def probes_table(rows: Sequence[Row]) -> Table | None:
    """Return the rows of probes and of their controls; None without a probe.

    Args:
        rows: rows of the summary, control arms among them.
    """
    probed = [row for row in rows if row.get("variants")]
    if not probed:
        return None
    shown = [measure("accuracy"), *(one for one in PROBES if one.name != _BY_CONTROL)]
    return measured(
        "probe-rates",
        "Probes: answers to all variants of all items",
        probed,
        shown,
        "An answer counts by its option, wherever it stands. A control asks as many variants of "
        "the same items: read each share against the control's, and accuracy against chance too.",
    )


def short_table(rows: Sequence[Row]) -> Table:
    """Return the rates of probes over all variants of all items, and what is net of controls."""
    names = ("accuracy", "change", "accuracy_all", "consistency")
    shown = [measure(f"variants.{name}") for name in names]
    net = measure(_BY_CONTROL)
    known = [list(row.get(net.name) or {}) for row in rows]
    if max(map(len, known)) <= 1:  # which control it is stands in the table above
        headings, controls = [net.label] * any(known), [name[:1] or [""] for name in known]
    else:
        every = list(dict.fromkeys(name for names in known for name in names))
        headings = [f"{net.label}: {CONTROL_WORDS[name]}" for name in every]
        controls = [every] * len(rows)
    return Table(
        name="probes-short",
        caption="Probes: answers to all variants of all items",
        columns=(
            *columns(Format.TEXT, "Attack"),
            *(one.column for one in shown),
            *columns(net.format, *headings),
        ),
        rows=tuple(
            as_row(
                as_text(row["attack"]),
                *(one.read(row) for one in shown),
                *(_net(row, name) for name in of_row[: len(headings)]),
            )
            for row, of_row in zip(rows, controls, strict=True)
        ),
    )


def _net(row: Row, control: str) -> Value:
    found = (row.get(_BY_CONTROL) or {}).get(control)
    return read_score(found) if is_estimate(found) else None
