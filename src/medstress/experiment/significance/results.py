"""What significance tests found, read back into a summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from medstress.experiment.significance.run import KEY
from medstress.metrics.success_tests import Tested, success_test_rows
from medstress.rows import TrialRow
from medstress.store.reader import RunReader

REFUSED = "refused: "


def add_tests(summary: dict[str, Any], reader: RunReader, trials: Sequence[TrialRow]) -> None:
    """Add the rows of `tests`, the key `significance` and warnings to a summary."""
    known = reader.manifest.get(KEY, {})
    tested = [
        Tested(told=one.told, found=one.found, note=one.note)
        for one in reader.inquiries()
        if one.purpose == "test"
    ]
    families = {key: value for key, value in known.items() if not value.startswith(REFUSED)}
    rows, found = success_test_rows(trials, tested, families)
    summary["tests"] += rows
    if found:
        summary["significance"] = found
    for value in known.values():
        if value.startswith(REFUSED):
            summary["warnings"].append(f"significance was not tested: {value[len(REFUSED) :]}")
    untested = [row for row in rows if row["note"]]
    if untested:
        summary["warnings"].append(
            f"{len(untested)} successes could not be tested, such as item "
            f"{untested[0]['item_id']!r}: {untested[0]['note']}"
        )
