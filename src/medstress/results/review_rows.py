"""Add to rows of trials what people say of them, and which were given to people at random."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from medstress.core.evidence import as_text, of_reason, read
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.core.validity import EVIDENCE_CHANGED, REVIEW
from medstress.metrics.attempt_records import entries
from medstress.metrics.counts import pick_success
from medstress.results.reviewed import Settled, is_judgeable, sampled_trials
from medstress.store.reviews import CANNOT_SAY, VALID


def with_samples(rows: list[TrialRow], rooms: Iterable[Mapping[str, Any]]) -> list[TrialRow]:
    """Return the rows with whether each success is in a random sample of all successes."""
    sampled = sampled_trials(rooms, sum(map(is_judgeable, rows)))
    if sampled is None:
        return rows
    return [
        replace(row, sampled=row.trial_id in sampled) if is_judgeable(row) else row for row in rows
    ]


def with_review(row: TrialRow, key_right: Settled | None) -> TrialRow:
    """Return a success with the validity that its reviewers give it.

    Where they disagree it is unknown until an adjudicator decides. A refuted success is censored if
    the search ended there with queries left, because another success might have been found. Nobody
    can vouch where the evidence was changed.

    Args:
        row: a trial before reviews.
        key_right: what its reviewers say of the key; None if nobody judged it.
    """
    if key_right is None or row.verdict is not Verdict.FLIPPED:
        return row
    if row.validity_reason == EVIDENCE_CHANGED:
        return row
    valid = VALID.get(key_right.word or "")
    row = replace(row, evidence=as_text([*read(row.evidence), *of_reason(REVIEW, valid)]))
    if key_right.word == CANNOT_SAY:
        return row
    return replace(
        row,
        valid=valid,
        validity_reason=REVIEW,
        first_valid_success=pick_success(row) if valid else None,
        censored=valid is False and (row.censored or _ended_at_its_pick(row)),
    )


def _ended_at_its_pick(row: TrialRow) -> bool:
    """True if the search looked for no success after the pick although queries were left.

    If all successes were refuted during the search, it used its whole budget.
    """
    if row.first_unrefuted_success is None:
        return False
    if row.n_asked != pick_success(row):
        return True  # later queries were not judged
    spec = json.loads(row.attack_spec)
    if row.attempts is not None and "attempts" in spec:
        made = max(entry["attempt"] or 0 for entry in entries(row))
        return bool(made < spec["attempts"])
    return row.n_asked < (spec.get("budget") or 0)
