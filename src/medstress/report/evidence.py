"""The table that tells reading from remembering, where an attack changed the evidence."""

from __future__ import annotations

from collections.abc import Sequence

from medstress.report.labels import Row, measured
from medstress.results.measures import EVIDENCE
from medstress.results.table import Table


def evidence_table(rows: Sequence[Row]) -> Table | None:
    """Return what was answered once the passage supported another option; None without a row."""
    changed = [row for row in rows if row.get("evidence")]
    if not changed:
        return None
    return measured(
        "evidence",
        "Reading and remembering: answers once the passage supports another option",
        changed,
        EVIDENCE,
        "Of items answered rightly before. A lost answer is no error here: the text no longer "
        "supports the key.",
    )
