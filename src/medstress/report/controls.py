"""Attacks beside their controls: the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from medstress.metrics.old_stats.estimates import read_score, read_share
from medstress.metrics.success import at_budget
from medstress.report.labels import LABELS, Row, labels, measured
from medstress.results.estimands import tip_of
from medstress.results.formats import count, interval
from medstress.results.measures import measure
from medstress.results.table import Column, Format, Table, as_row, columns
from medstress.results.table import Row as TableRow


def controls_table(rows: Sequence[Row]) -> Table | None:
    """Return every attack beside each of its controls, at one query and at the whole budget.

    None if no attack has a control.
    """
    lines = [line for row in rows for line in _lines(row)]
    if not lines:
        return None
    return Table(
        name="controls",
        caption="Attacks beside a harmless change with the same budget",
        columns=(
            *LABELS,
            *columns(Format.TEXT, "Control"),
            *columns(Format.COUNT, "Queries"),
            *(measure(name).column for name in ("control", "asr", "asr_net")),
            Column(heading="Lost to the attack", tip=tip_of("loss_bounds")),
            *columns(Format.TEXT, "Both / only attack / only control / neither"),
        ),
        rows=tuple(lines),
        notes=(
            "ASR net = ASR - the control's rate, on the items of both (Tango's interval). Lost to "
            "the attack: from the low end of ASR net, at least 0, to the high end of ASR; this "
            "assumes that noise never gives back an answer that the edit took, and takes as many "
            "under attack as under the control. The last column counts trials.",
        ),
        n_labels=len(LABELS) + 1,
    )


def turned_table(rows: Sequence[Row]) -> Table | None:
    """Return how one query of each control turns answers in either direction; None without any.

    Args:
        rows: rows of the summary, control arms among them.
    """
    arms = [row for row in rows if "control_of" in row and row["n_eligible"]]
    if not arms:
        return None
    return measured(
        "turned",
        "One query of a control: right answers that become wrong, and wrong ones that become right",
        arms,
        [measure("right_to_wrong"), measure("wrong_to_right")],
        "Noise works both ways. An attack is counted only where it takes right answers.",
    )


def _lines(row: Row) -> Iterator[TableRow]:
    tables = row.get("control_table") or {}
    for name, table in tables.items():
        if table is None:
            reason = row["asr_net"][name]["method"]
            yield as_row(*labels(row), name, None, *(None,) * 4, reason)
            continue
        last = row["asr_at"][-1]["budget"]
        for budget in dict.fromkeys((1, last)):
            point = at_budget(row["asr_at"], budget)
            if point is None:
                continue
            yield as_row(
                *labels(row),
                name,
                budget,
                read_share(point["control"][name]),
                read_share(point),
                read_score(point["asr_net"][name]),
                _ends(point["loss_bounds"][name]),
                " / ".join(map(count, table)) if budget == last else "",
            )


def _ends(bounds: Sequence[float | None]) -> str:
    low, high = bounds
    return "" if low is None or high is None else interval({"low": low, "high": high})
