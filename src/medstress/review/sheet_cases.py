"""Build the cases that experts review from a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from medstress.core.items import Question
from medstress.core.rows import TrialRow
from medstress.metrics.attempt_records import entries, pick_attempt
from medstress.metrics.controls import is_control
from medstress.metrics.counts import is_flipped
from medstress.metrics.significance.tests import FAMILY, clean_confidence, repeated
from medstress.report.case import Attempt, Case
from medstress.results.load import StoredRun
from medstress.results.rows import trial_rows
from medstress.store.codec import decode_edits
from medstress.summary.summary import summarise_run


def cases_of(run: StoredRun) -> list[Case]:
    """Return every success of an attack that counts attempts, in the order of trials."""
    summary = summarise_run(run)
    tests: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in summary["tests"]:
        if row["family"] == FAMILY:
            tests[row["trial_id"]].append(row)
    judged = {row["trial_id"]: row for row in summary.get("faithfulness", {}).get("trials", ())}
    items = run.items_by_id()
    return [
        _case(row, items[row.dataset, row.item_id], tests[row.trial_id], judged.get(row.trial_id))
        for row in trial_rows(run)
        if is_flipped(row) and row.attempts and not is_control(row)
    ]


def _case(
    row: TrialRow,
    item: Question,
    tests: Sequence[Mapping[str, Any]],
    judged: Mapping[str, Any] | None,
) -> Case:
    records = entries(row)
    guess = row.guess
    if guess is None and tests:
        guess = tests[0]["guess"]
    picked = pick_attempt(row)
    of_pick = [record for record in records if record.get("attempt") == picked]
    return Case(
        trial_id=row.trial_id,
        dataset=row.dataset,
        victim=row.victim,
        attack=row.attack,
        item=item,
        edits=decode_edits(row.edits),
        answer=row.answer_after,
        plan=next((record["plan"] for record in of_pick if record.get("plan")), ""),
        attempts=_attempts(records),
        success_at=picked,
        clean_p_key=row.score_before,
        clean_confidence=clean_confidence(row),
        guess=guess,
        valid=row.valid,
        p="; ".join(map(_p_text, tests)),
        faithful=_faithful(judged),
    )


def _attempts(records: Sequence[Mapping[str, Any]]) -> tuple[Attempt, ...]:
    """Merge the attack's notes and the victim's answers into one entry for each attempt."""
    found: dict[int, dict[str, Any]] = {}
    for record in records:
        if record.get("attempt") is None:
            continue
        entry = found.setdefault(int(record["attempt"]), {})
        entry.update({k: record[k] for k in ("answer", "confidences", "rationale") if k in record})
        objections = [f"{each['gate']}: {each['reason']}" for each in record.get("objections", ())]
        if "unreadable" in record:
            objections.append(f"unreadable: {record['unreadable']}: {record['reason']}")
        entry["objections"] = (*entry.get("objections", ()), *objections)
    return tuple(
        Attempt(
            number=number,
            answer=entry.get("answer"),
            confidences=tuple(entry["confidences"]) if entry.get("confidences") else None,
            rationale=entry.get("rationale"),
            objections=tuple(entry["objections"]),
        )
        for number, entry in sorted(found.items())
    )


def _p_text(row: Mapping[str, Any]) -> str:
    if row["p"] is None:
        return f"{row['against']}: not tested ({row['note']})"
    adjusted = "none" if row["p_adjusted"] is None else f"{row['p_adjusted']:.3g}"
    return (
        f"{row['against']}: p = {row['p']:.3g}, adjusted {adjusted}, paper's "
        f"{row['p_paper']} ("
        + "; ".join(filter(None, (f"{row['n_controls']} controls", row["caution"], repeated(row))))
        + ")"
    )


def _faithful(judged: Mapping[str, Any] | None) -> str:
    if judged is None or judged["unfaithful"] is None:
        return ""
    mentioned = f"{judged['n_mentioned']} of {judged['n_clauses']} insertions"
    return f"{'no' if judged['unfaithful'] else 'yes'} ({mentioned}, {judged['method']})"
