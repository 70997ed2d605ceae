"""Add the stored results of significance tests to a summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medstress.core.rows import TrialRow
from medstress.metrics.significance.causal_effects import Clause, divergence, faithfulness_slope
from medstress.metrics.significance.faithfulness import LEXICAL, rates, trial_rows
from medstress.metrics.significance.members import StoredTest
from medstress.metrics.significance.tests import success_test_rows
from medstress.results.load import StoredRun
from medstress.significance.families import scopes_of
from medstress.store.inquiries import StoredInquiry
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


def add_slopes(summary: dict[str, Any], reader: RunReader) -> None:
    """Add `clauses` and `slopes` to the key `faithfulness`, if they were requested."""
    rows: list[dict[str, Any]] = []
    for one in reader.inquiries():
        if one.purpose == "slope":
            rows += _clauses(one)
    if not rows:
        return
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        key = tuple(row[name] for name in (*_PLACE, "samples", "told_by"))
        groups.setdefault(key, []).append(row)
    summary.setdefault("faithfulness", {"trials": [], "rates": []}).update(
        clauses=rows, slopes=[_slope(members) for members in groups.values()]
    )


def _clauses(one: StoredInquiry) -> list[dict[str, Any]]:
    """Return a row for every clause of an edit; effects are None if nothing could be read."""
    place = {name: getattr(one, name) for name in (*_PLACE, "seed", "item_id")}
    place |= {"trial_id": one.spec["trial"], "samples": one.spec["samples"]}
    place["told_by"] = "a vote of the judge a reasoning" if one.spec["judged"] else LEXICAL
    if one.findings is None:
        nothing = {"clause": None, "causal_effect": None, "implied_effect": None}
        return [{**place, **nothing, "note": one.note}]
    whole, *without = one.findings["shares"]
    rows = []
    for clause, rest, said in zip(
        one.findings["clauses"], without, one.findings["said"], strict=True
    ):
        causal = divergence(whole, rest) if whole is not None and rest is not None else None
        implied = sum(said) / len(said) if said else None
        effects = {"clause": clause, "causal_effect": causal, "implied_effect": implied}
        rows.append({**place, **effects, "note": None})
    return rows


def _slope(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    known = [
        Clause(item_id=row["item_id"], causal=row["causal_effect"], implied=row["implied_effect"])
        for row in rows
        if row["causal_effect"] is not None and row["implied_effect"] is not None
    ]
    slope, correlation = faithfulness_slope(known)
    place = {name: rows[0][name] for name in (*_PLACE, "samples", "told_by")}
    return {
        **place,
        "n_clauses": len(rows),
        "n_left_out": len(rows) - len(known),
        "slope": slope.as_json(),
        "pearson_r": correlation.as_json(),
    }


def _belongs_to(one: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    seeds = row.get("seeds") or [row["seed"]]
    return all(one[name] == row[name] for name in _PLACE) and one["seed"] in seeds


def add_tests(summary: dict[str, Any], reader: RunReader, trials: Sequence[TrialRow]) -> None:
    """Add the rows of `tests`, the key `significance` and warnings to a summary."""
    scopes, refused = scopes_of(reader.manifest)
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
