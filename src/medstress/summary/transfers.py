"""Transfer: what one victim's successes do to another."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from medstress.core.outcomes import Outcome
from medstress.core.rows import TrialRow
from medstress.metrics.arms import items_of
from medstress.metrics.counts import (
    is_answered,
    is_eligible,
    is_flipped,
    success_edits,
    success_repeats,
    unit_of,
)
from medstress.metrics.old_stats.estimates import unknown
from medstress.metrics.old_stats.shares import rate

RightOn: TypeAlias = Mapping[tuple[str, str], frozenset[str]]
"""(data set, victim) -> items whose clean version the victim answers right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """One success, asked of another victim."""

    trial_id: str
    """The trial that succeeded."""
    edits: str
    """Its edits, as JSON."""
    victim: str
    """Label of the victim that was asked."""
    outcome: str | None
    """`right`, `wrong`, `unreadable`; None if the call failed."""
    reached: bool
    """True if the answer is a success by the goal of the attack."""


def right_on(trials: Iterable[TrialRow]) -> RightOn:
    """Return the items whose clean version each victim answers right, over groups and attacks."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in trials:
        if is_answered(row) and is_eligible(row):
            found[row.dataset, row.victim].add(row.item_id)
    return {place: frozenset(items) for place, items in found.items()}


def transfer_rows(trials: Sequence[TrialRow], carried: Iterable[Carried]) -> list[dict[str, Any]]:
    """Return rows of `analysis.transfer`: every pair of victims under one attack.

    transfer[i, j] = #{items where i's first success, asked of j, reaches the attack's goal} /
    #{items where i succeeded and j was right on the clean item and answered}; every seed's trial
    counts. The diagonal is the flip check, the same victim asked again.

    Args:
        trials: all trials.
        carried: answers that `run` collected; the diagonal comes from the trials.
    """
    answers = {
        (one.trial_id, one.edits, one.victim): one for one in carried if one.outcome is not None
    }
    right = right_on(trials)
    flipped: dict[tuple[str, str, str, str], list[TrialRow]] = defaultdict(list)
    victims: dict[str, set[str]] = defaultdict(set)
    for row in trials:
        victims[row.dataset].add(row.victim)
        if is_flipped(row):
            flipped[row.dataset, row.group, row.attack, row.victim].append(row)
    rows = []
    for (dataset, group, attack, source), successes in sorted(flipped.items()):
        for target in sorted(victims[dataset]):
            head = {"dataset": dataset, "group": group, "attack": attack}
            known = right.get((dataset, target), frozenset())
            found = (
                _diagonal(successes)
                if source == target
                else _cell(successes, known, answers, target)
            )
            rows.append(
                {**head, "from": source, "to": target, "n_successes": len(successes), **found}
            )
    return rows


def _diagonal(successes: Sequence[TrialRow]) -> dict[str, Any]:
    """Return the row of a victim with itself, from the flip check.

    It says whether the goal was reached again, not by which answer, so `n_wrong` is known only if
    exactly the wrong answers reach the goal.
    """
    checked = [(row, again) for row in successes if (again := success_repeats(row)) is not None]
    share = rate((unit_of(row), again) for row, again in checked)
    n_reached = sum(again for _, again in checked)
    if not checked:
        share = unknown("no success was asked again: flip_check = false")
    return {
        "n_right": len(successes),
        "n_items": len(items_of(successes)),
        "n_asked": len(checked),
        "n_reached": n_reached,
        "n_wrong": n_reached if all(map(_wrong_is_goal, successes)) else None,
        "n_unreadable": None,
        "transfer": share.as_json(),
    }


def _wrong_is_goal(row: TrialRow) -> bool:
    spec = json.loads(row.attack_spec)
    unreadable = spec.get("unreadable_is_success", False)
    return spec.get("goal", "untargeted") == "untargeted" and not unreadable


def _cell(
    successes: Sequence[TrialRow],
    right: frozenset[str],
    answers: Mapping[tuple[str, str, str], Carried],
    target: str,
) -> dict[str, Any]:
    eligible = [row for row in successes if row.item_id in right]
    met = [
        (unit_of(row), answers[place])
        for row in eligible
        if (place := (row.trial_id, success_edits(row), target)) in answers
    ]
    share = rate((item, one.reached) for item, one in met)
    return {
        "n_right": len(eligible),
        "n_items": len(items_of(eligible)),
        "n_asked": len(met),
        "n_reached": sum(one.reached for _, one in met),
        "n_wrong": sum(one.outcome == Outcome.WRONG for _, one in met),
        "n_unreadable": sum(one.outcome == Outcome.UNREADABLE for _, one in met),
        "transfer": share.as_json(),
    }
