"""Add the stored results of significance tests to a summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medstress.core.rows import TrialRow
from medstress.metrics.significance.faithfulness import rates, trial_rows
from medstress.metrics.significance.families import Adjust
from medstress.metrics.significance.members import Scope, StoredTest
from medstress.metrics.significance.tests import success_test_rows
from medstress.results.load import StoredRun
from medstress.store.reader import RunReader

_PLACE = ("dataset", "group", "victim", "attack")


def add_faithfulness(summary: dict[str, Any], run: StoredRun, trials: Sequence[TrialRow]) -> None:
    """Add the key `faithfulness`, and its two rates to the rows of conversational attacks."""
    judged = {
        one.spec["trial"]: one.findings
        for one in run.inquiries()
        if one.purpose == "judge" and one.findings is not None
    }
    rows = trial_rows(trials, run.items_by_id(), judged)
    if not rows:
        return
    summary["faithfulness"] = {"trials": rows, "rates": []}
    for row in [*summary["results"], *summary["pooled"]]:
        own = [one for one in rows if _belongs_to(one, row)]
        if own:
            computed = rates(own)
            row |= {name: computed[name] for name in ("mention_rate", "unfaithful")}
            if "seeds" in row:
                place = {name: row[name] for name in (*_PLACE, "seeds")}
                summary["faithfulness"]["rates"].append({**place, **computed})


def _belongs_to(one: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    seeds = row.get("seeds") or [row["seed"]]
    return all(one[name] == row[name] for name in _PLACE) and one["seed"] in seeds


def add_tests(summary: dict[str, Any], reader: RunReader, trials: Sequence[TrialRow]) -> None:
    """Add the rows of `tests`, the key `significance` and warnings to a summary."""
    scopes, refused = _scopes(reader.manifest)
    tested = [
        StoredTest(spec=one.spec, findings=one.findings, note=one.note)
        for one in reader.inquiries()
        if one.purpose == "test"
    ]
    rows, families = success_test_rows(trials, tested, scopes)
    summary["tests"] += rows
    if families:
        summary["significance"] = families
    for why in refused:
        summary["warnings"].append(f"significance was not tested: {why}")
    for one in families:
        if one["shortfall"]:
            summary["warnings"].append(f"significance, null {one['null']}: {one['shortfall']}")
    untested = [row for row in rows if row["note"] and not row["refused"]]
    if untested:
        summary["warnings"].append(
            f"{len(untested)} successes could not be tested and have no p-value, such as item "
            f"{untested[0]['item_id']!r}: {untested[0]['note']}"
        )


def _scopes(manifest: Mapping[str, Any]) -> tuple[dict[str, Scope], list[str]]:
    scopes: dict[str, Scope] = {}
    refused: list[str] = []
    for key, stored in manifest.get("tests", {}).items():
        if isinstance(stored, str):
            refused.append(stored.removeprefix("refused: "))
        else:
            scopes[key] = Scope(adjust=Adjust(stored["adjust"]), items=tuple(stored["items"]))
    return scopes, refused
