"""The table of probes: accuracy and agreement over all variants of all items."""

from __future__ import annotations

from collections.abc import Sequence

from medstress.report.labels import Row, measured
from medstress.results.measures import measure
from medstress.results.probe_measures import PROBES
from medstress.results.table import Table

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
