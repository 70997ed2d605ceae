"""Confidence before and after an attack, where the victim gives scores.

The confidence of an answer is the probability of the option that was chosen, right or wrong, with
a softmax over the options. *After* the attack, a trial's answer is that at its first success if it
has one, else the last one to an edit; the clean one where that was wrong already, or where the
folder is of a version that kept no other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.counts import cluster_of, is_eligible, is_flipped, unit_of
from medstress.stats.calibration import (
    DIGITS,
    Answer,
    RiskCoverage,
    brier,
    calibration,
    risk_coverage,
)
from medstress.stats.estimates import Estimate, unknown
from medstress.stats.resampling import ratio
from medstress.stats.shares import rate

CONFIDENT = 0.8
"""A wrong answer with this confidence or more is a confident one."""
NO_SCORES = "the victim gives no scores"
_ENDED = (Verdict.ALREADY_WRONG, Verdict.HELD, Verdict.FLIPPED)


def confidence_fields(trials: Sequence[TrialRow]) -> dict[str, Any]:
    """Return the fields of a summary row about confidence; null with a reason without scores."""
    before, after = answers_before(trials), answers_after(trials)
    empty = NO_SCORES if not _has_scores(trials) else "no trial ended with scores"
    found: dict[str, Any] = {
        "key_probability_change": key_probability_change(trials).as_json(),
        "flips_confident": flips_confident(trials).as_json(),
    }
    for when, answers in (("before", before), ("after", after)):
        measured = calibration(answers)
        error = measured.error if answers else unknown(empty)
        found[f"calibration_{when}"] = {**error.as_json(), "by_chance": measured.by_chance}
        found[f"brier_{when}"] = (brier(answers) if answers else unknown(empty)).as_json()
    found["risk_coverage"] = {
        "before": _curve(risk_coverage(before), empty),
        "after": _curve(risk_coverage(after), empty),
    }
    return found


def key_probability_change(trials: Sequence[TrialRow]) -> Estimate:
    """Estimate the mean change of P(key) from the clean answer to the attacked one.

    The attacked answer is that at the first success, else the last one to an edit. Eligible trials
    without an attacked answer are left out. Whole items are drawn for the interval.
    """
    changes: dict[str, list[float]] = defaultdict(list)
    for row in trials:
        held = row.score_after if row.last_score is None else row.last_score
        after = row.first_success_score if is_flipped(row) else held
        if not is_eligible(row) or not row.n_options or row.score_before is None or after is None:
            continue
        changes[cluster_of(row)].append(after - row.score_before)
    if not changes:
        why = "no eligible trial has an attacked answer" if _has_scores(trials) else NO_SCORES
        return unknown(why)
    items = [changes[item] for item in sorted(changes)]
    return ratio([sum(each) for each in items], [len(each) for each in items], "attacked answers")


def flips_confident(trials: Sequence[TrialRow]) -> Estimate:
    """Estimate the share of flips whose wrong answer has a confidence of at least `CONFIDENT`.

    The confidence is that of the wrong option at the first success, not of the key.
    """
    known = [
        (unit_of(row), round(row.first_success_confidence, DIGITS) >= CONFIDENT)
        for row in trials
        if is_flipped(row) and row.first_success_confidence is not None
    ]
    if not known:
        return unknown("no flip" if _has_scores(trials) else NO_SCORES)
    return rate(known)


def answers_before(trials: Sequence[TrialRow]) -> list[Answer]:
    """Return the clean answers of the trials behind `answers_after`, one for each trial."""
    return [
        (unit_of(row), row.confidence_before, is_eligible(row))
        for row in _scored(trials)
        if row.confidence_before is not None
    ]


def answers_after(trials: Sequence[TrialRow]) -> list[Answer]:
    """Return the answers after the attack.

    That is, for each trial that ended, the answer at its first success if it has one, which is
    wrong, else the last one to an edit, else its clean answer, right or wrong.
    """
    found: list[Answer] = []
    for row in _scored(trials):
        if is_flipped(row):
            confidence, is_right = row.first_success_confidence, False
        elif row.last_confidence is not None:
            confidence, is_right = row.last_confidence, row.last_answer == row.key
        else:
            confidence, is_right = row.confidence_before, is_eligible(row)
        assert confidence is not None
        found.append((unit_of(row), confidence, is_right))
    return found


def _scored(trials: Sequence[TrialRow]) -> Iterator[TrialRow]:
    """Yield the trials that ended and whose answers, clean and flipped, have a confidence."""
    for row in trials:
        flipped_without = is_flipped(row) and row.first_success_confidence is None
        if row.verdict in _ENDED and row.confidence_before is not None and not flipped_without:
            yield row


def _has_scores(trials: Sequence[TrialRow]) -> bool:
    return any(row.confidence_before is not None for row in trials)


def _curve(found: RiskCoverage, empty: str) -> dict[str, Any]:
    area = found.area if found.points else unknown(empty)
    points = [{"coverage": each.coverage, **each.error.as_json()} for each in found.points]
    return {"area": area.as_json(), "points": points}
