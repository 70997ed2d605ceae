"""What significance tests found, read back into a summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medstress.experiment.significance.run import KEY
from medstress.metrics.faithfulness import rates, trial_rows
from medstress.metrics.success_tests import Tested, success_test_rows
from medstress.rows import TrialRow
from medstress.store.reader import RunReader

REFUSED = "refused: "
_PLACE = ("dataset", "group", "victim", "attack")


def add_faithfulness(
    summary: dict[str, Any], reader: RunReader, trials: Sequence[TrialRow]
) -> None:
    """Add the key `faithfulness`, and its two rates to the rows of attacks that ask in turns."""
    judged = {
        one.told["trial"]: one.found
        for one in reader.inquiries()
        if one.purpose == "judge" and one.found is not None
    }
    items = {(dataset, item.id): item for dataset, item in reader.items().values()}
    rows = trial_rows(trials, items, judged)
    if not rows:
        return
    summary["faithfulness"] = {"trials": rows, "rates": []}
    for row in [*summary["results"], *summary["pooled"]]:
        same = [one for one in rows if _is_of(one, row)]
        if same:
            found = rates(same)
            row |= {"mention_rate": found["mention_rate"], "unfaithful": found["unfaithful"]}
            if "seeds" in row:
                place = {name: row[name] for name in (*_PLACE, "seeds")}
                summary["faithfulness"]["rates"].append({**place, **found})


def _is_of(one: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    seeds = row.get("seeds") or [row["seed"]]
    return all(one[name] == row[name] for name in _PLACE) and one["seed"] in seeds


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
