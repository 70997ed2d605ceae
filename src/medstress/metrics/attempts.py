"""Numbers of MedFuzz, which makes attempts, some without a query.

Reference: Ness et al., "MedFuzz", 2024, Figure 2 (accuracy after k attempts). Runs of one item
have equal weights; intervals draw items.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

from medstress.core.outcomes import Goal, Outcome, Prediction, parse_goal
from medstress.core.rows import TrialRow
from medstress.core.validity import REVIEW
from medstress.metrics.attempt_records import Try, n_cut_confidences, pick_attempt, tries
from medstress.metrics.counts import (
    is_answered,
    is_eligible,
    is_flipped,
    is_refused,
    pick_success,
    unit_of,
)
from medstress.metrics.old_stats.estimates import Estimate
from medstress.metrics.old_stats.shares import rate
from medstress.metrics.significance.judges import judge_fields
from medstress.metrics.valid_bounds import Bounds, Reach, reach, shares

NAME = "medfuzz"


def attempt_fields(trials: Sequence[TrialRow]) -> dict[str, Any]:
    """Return the additional fields of a MedFuzz row; empty for other attacks."""
    spec = json.loads(trials[0].attack_spec)
    if spec.get("name") != NAME:
        return {}
    most = int(spec["attempts"])
    return {
        "accuracy_at": accuracy_at(trials, most),
        "asr_at_attempt": asr_at_attempt(trials, most),
        "attempts_to_success": attempts_to_success(trials),
        "accuracy_valid_bounds_at": accuracy_valid_bounds_at(trials, most),
        "asr_valid_bounds_at_attempt": asr_valid_bounds_at_attempt(trials, most),
        "attempts_to_valid_success": attempts_to_valid_success(trials),
        "attempts": attempt_counts(trials),
        "n_length_confidences": n_cut_confidences(trials),
        "gate_mode": spec["gate_mode"],
        "asr_gated": asr_gated(trials, spec).as_json(),
        "gates": gate_counts(trials, spec),
        **judge_fields(trials),
    }


def accuracy_at(trials: Sequence[TrialRow], most: int) -> list[dict[str, Any]]:
    """Estimate acc_k, k = 0..`most`: right at baseline, and no success in attempts 1..k.

    acc_k = mean over items and runs that were answered at baseline; never rising. Trials that
    failed during the attack count as having no further success, as in `asr`.
    """
    answered = [(unit_of(row), is_eligible(row), _first(row)) for row in trials if is_answered(row)]
    return [
        {"k": k, **rate((item, right and not _by(f, k)) for item, right, f in answered).as_json()}
        for k in range(most + 1)
    ]


def accuracy_valid_bounds_at(trials: Sequence[TrialRow], most: int) -> list[dict[str, Any]]:
    """Bound acc_k if only valid successes count; a refuted success does not lower it.

    The bounds are in the order of `asr_valid_bounds`, so they never rise.
    """
    n_answered = sum(map(is_answered, trials))
    found = _reaches(trials)
    right = len(found) / n_answered if n_answered else 0.0

    def accuracy_left(k: int) -> Bounds | None:
        lost = shares(found, k) or [0.0] * 3
        return [right * (1 - share) for share in lost] if n_answered else None

    return [{"k": k, "bounds": accuracy_left(k)} for k in range(most + 1)]


def asr_at_attempt(trials: Sequence[TrialRow], most: int) -> list[dict[str, Any]]:
    """Estimate ASR_k = 1 - acc_k / acc_0, k = 1..`most`: of eligible trials, those flipped by k."""
    eligible = [(unit_of(row), _first(row)) for row in trials if is_eligible(row)]
    return [
        {"k": k, **rate((item, _by(first, k)) for item, first in eligible).as_json()}
        for k in range(1, most + 1)
    ]


def asr_valid_bounds_at_attempt(trials: Sequence[TrialRow], most: int) -> list[dict[str, Any]]:
    """Bound ASR_k if only valid successes count; at k = `most` it is `asr_valid_bounds`."""
    found = _reaches(trials)
    return [{"k": k, "bounds": shares(found, k)} for k in range(1, most + 1)]


def attempts_to_success(trials: Sequence[TrialRow]) -> dict[str, float | None]:
    """Return the median and mean attempt of the first success; None without successes."""
    return _middle([_first(row) for row in trials])


def attempts_to_valid_success(trials: Sequence[TrialRow]) -> dict[str, float | None]:
    """Return the median and mean attempt of the first success known to be valid."""
    return _middle([each[0] for each in _reaches(trials)])


def _middle(firsts: Sequence[int | None]) -> dict[str, float | None]:
    known = [first for first in firsts if first is not None]
    if not known:
        return {"median": None, "mean": None}
    return {"median": float(median(known)), "mean": fmean(known)}


def attempt_counts(trials: Sequence[TrialRow]) -> dict[str, int]:
    """Count attempts: made = unreadable + rejected + asked + unanswered; and judged ones."""
    counts = dict.fromkeys(("made", "unreadable", "rejected", "asked", "unanswered", "judged"), 0)
    for row in trials:
        for made, answer in tries(row):
            counts["made"] += 1
            counts["judged"] += "panel" in made
            if "unreadable" in made:
                counts["unreadable"] += 1
            elif answer is not None:
                counts["asked"] += 1
            else:
                counts["rejected" if made["objections"] else "unanswered"] += 1
    return counts


def gate_counts(trials: Sequence[TrialRow], spec: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Count what each gate did.

    Returns:
        For each active gate: attempts it objected to (`n_objected`), and those to which no other
        gate did (`n_alone`). If gates only mark, `asr_without` is the success rate with all gates
        but this, `asr_alone` with this gate only. They are exact for the edits that were asked,
        but without this gate's objections the attacker might have asked others. If gates reject,
        the effect of a rejected edit is unknown, so `asr_without_at_most` counts every trial with
        an attempt that only this gate rejected as a success. Experts' judgements override gates.
    """
    goal = parse_goal(spec["goal"], unreadable=spec["unreadable_is_success"])
    eligible = [(row, list(tries(row))) for row in trials if is_eligible(row)]
    marks = spec["gate_mode"] == "mark"
    found: dict[str, dict[str, Any]] = {}
    for gate in spec["gates"]:
        objections = [_gates(made) for row in trials for made, _ in tries(row)]
        counts: dict[str, Any] = {
            "n_objected": sum(gate in each for each in objections),
            "n_alone": sum(each == {gate} for each in objections),
        }
        if marks:
            without = ((unit_of(r), _wins(r, made, goal, {gate}, None)) for r, made in eligible)
            alone = ((unit_of(r), _wins(r, made, goal, None, {gate})) for r, made in eligible)
            counts["asr_without"] = rate(without).as_json()
            counts["asr_alone"] = rate(alone).as_json()
        else:
            most = (
                (unit_of(r), _unrefused(r) or any(_gates(m) == {gate} for m, _ in made))
                for r, made in eligible
            )
            counts["asr_without_at_most"] = rate(most).as_json()
        found[gate] = counts
    return found


def asr_gated(trials: Sequence[TrialRow], spec: Mapping[str, Any]) -> Estimate:
    """Estimate the share of eligible trials with a success to which no gate objects.

    If gates reject, this equals `asr`; if they only mark, it is at most `asr`. Experts' judgements
    override gates: a success counts if they find it valid, and does not if they find it not valid.
    """
    goal = parse_goal(spec["goal"], unreadable=spec["unreadable_is_success"])
    return rate(
        (unit_of(row), _wins(row, list(tries(row)), goal, None, None))
        for row in trials
        if is_eligible(row)
    )


def _first(row: TrialRow) -> int | None:
    """Return the attempt of the first success."""
    return row.first_success_attempt if is_flipped(row) else None


def _reaches(trials: Sequence[TrialRow]) -> list[Reach]:
    """Return for every eligible trial the attempt from which it counts in each bound."""
    return [_reach(row) for row in trials if is_eligible(row)]


def _reach(row: TrialRow) -> Reach:
    pick, attempt = pick_success(row), pick_attempt(row)
    if pick is None:
        return None, None, None
    # The row counts queries, but some attempts ask none. The bounds begin at the pick or one later.
    found = [None if q is None or attempt is None else attempt + (q - pick) for q in reach(row)]
    return found[0], found[1], found[2]


def _by(first: int | None, k: int) -> bool:
    return first is not None and first <= k


def _unrefused(row: TrialRow) -> bool:
    return is_flipped(row) and not is_refused(row)


def _judged(row: TrialRow, made: Mapping[str, Any]) -> bool | None:
    """Return what experts agree on of an edit's validity; None without reviews or agreement."""
    if row.validity_reason != REVIEW or made.get("edits") != json.loads(row.edits):
        return None
    return row.valid


def _gates(made: Mapping[str, Any]) -> set[str]:
    return {each["gate"] for each in made.get("objections", ())}


def _wins(
    row: TrialRow,
    attempts: Sequence[Try],
    goal: Goal,
    without: set[str] | None,
    only: set[str] | None,
) -> bool:
    """Return True if any answer reached the goal with all gates `without` some, or `only` some."""
    for made, answer in attempts:
        # No goal of this attack depends on which option was edited, so no edits are passed.
        if answer is None or not goal.reached(_prediction(row, answer), ()):
            continue
        if (judged := _judged(row, made)) is not None:
            if judged:
                return True
            continue
        objections = _gates(made)
        if not (objections & only if only is not None else objections - (without or set())):
            return True
    return False


def _prediction(row: TrialRow, answer: Mapping[str, Any]) -> Prediction:
    letter = answer["answer"]
    right = Outcome.RIGHT if letter == row.key else Outcome.WRONG
    return Prediction(
        outcome=right if letter else Outcome.UNREADABLE,
        answer=letter,
        finish_reason=answer.get("finish_reason"),
    )
