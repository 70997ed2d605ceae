"""An attack beside its control arms: what it takes that a harmless change does not.

On the items that both arms asked, let A be "the attack flips the answer within B queries" and C
the same for the control, with shares a and c. If noise never repairs an answer that the edit took,
and takes as many answers under either arm, the share that the edit itself takes is at least a - c
and at most a. How noise depends on what the edit takes is free.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.bounds import (
    Bounds,
    asr_bounds,
    certainly_lost,
    is_open,
    may_be_eligible,
    possibly_lost,
)
from medstress.metrics.counts import flipped_within, is_eligible, unit_of
from medstress.metrics.old_stats.estimates import Estimate, unknown
from medstress.metrics.old_stats.paired import unite
from medstress.metrics.old_stats.shares import rate
from medstress.metrics.pairs import Pair, pair_trials

AT_BUDGET = ("control", "control_bounds", "asr_net", "asr_net_bounds", "loss_bounds")
"""The fields by control that a row and every entry of its `asr_at` hold."""
NOT_BOTH = "no eligible trial was asked under both: the control could not be asked"
FIELDS = (*AT_BUDGET, "control_table", "control_open")
"""The fields by control that a row holds."""


def beside(attack: Sequence[TrialRow], control: Sequence[TrialRow], budget: int) -> dict[str, Any]:
    """Compare an attack with its control within `budget` queries, on the trials of both.

    Args:
        attack: trials of the attack on one data set, group and victim.
        control: trials of its control arm on the same.
        budget: perturbed queries per item within which success counts, for both.

    Returns:
        The fields of `FIELDS`. `control_table` counts the paired trials that both flip, only the
        attack, only the control, and neither; `control_open` the eligible trials of either arm
        whose unreadable or missing answers leave open whether they flipped.
    """
    hit = partial(flipped_within, budget=budget)
    pairs = pair_trials(attack, control, hit)
    net = unite(pairs).estimate
    ours = rate((unit_of(row), hit(row)) for row in attack if is_eligible(row))
    return {
        "control": rate((unit, second) for unit, _, second in pairs).as_json(),
        "control_bounds": asr_bounds(control, budget),
        "asr_net": net.as_json(),
        "asr_net_bounds": net_bounds(attack, control, budget),
        "loss_bounds": loss_bounds(ours, net),
        "control_table": _table(pairs),
        "control_open": [
            sum(is_open(row, budget) for row in rows if is_eligible(row))
            for rows in (attack, control)
        ],
    }


def loss_bounds(asr: Estimate, net: Estimate) -> list[float | None]:
    """Return the interval of the loss: from max(0, low end of a - c) to the high end of a.

    Args:
        asr: a, the share that the attack flips, with its 95 % interval.
        net: a - c on the same items, paired (`unite`).

    Returns:
        [low, high]; both None if either is unknown.

    >>> asr = Estimate(value=0.15, n=100, low=0.1, high=0.2, method="")
    >>> loss_bounds(asr, Estimate(value=0.01, n=100, low=-0.05, high=0.07, method=""))
    [0.0, 0.2]
    """
    if net.low is None or asr.high is None:
        return [None, None]
    return [max(0.0, net.low), asr.high]


def net_bounds(
    attack: Sequence[TrialRow], control: Sequence[TrialRow], budget: int, level: float = 0.95
) -> Bounds:
    """Return the ends of a - c with open answers for the control, and for the attack."""
    surely = partial(certainly_lost, budget=budget)
    maybe = partial(possibly_lost, budget=budget)
    least = unite(pair_trials(attack, control, surely, maybe, may_be_eligible), level)
    most = unite(pair_trials(attack, control, maybe, surely, may_be_eligible), level)
    return [least.estimate.low, most.estimate.high]


def _table(pairs: Iterable[Pair]) -> list[int]:
    counts = [0, 0, 0, 0]
    for _, first, second in pairs:
        counts[2 * (not first) + (not second)] += 1
    return counts


def repaired(control: Sequence[TrialRow]) -> dict[str, Any]:
    """Return how one query of a control turns answers, in either direction.

    Returns:
        `right_to_wrong`: of right clean answers; `wrong_to_right`: of wrong ones that were asked.
    """
    right = ((unit_of(row), flipped_within(row, 1)) for row in control if is_eligible(row))
    turned = ((unit_of(row), _corrected(row)) for row in control)
    wrong = ((unit, found) for unit, found in turned if found is not None)
    return {"right_to_wrong": rate(right).as_json(), "wrong_to_right": rate(wrong).as_json()}


def _corrected(row: TrialRow) -> bool | None:
    """Return whether the first query made a wrong clean answer right; None if it was not asked."""
    if row.verdict is Verdict.ALREADY_WRONG and row.variant_answers is not None:
        first = json.loads(row.variant_answers)[0]
        return None if first is None else bool(first == row.key)
    return row.corrected


def control_fields(
    attack: Sequence[TrialRow],
    controls: Mapping[str, Sequence[TrialRow]],
    budget: int,
    left_out: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the fields of a row that hold one value for each control; empty without any.

    Args:
        attack: trials of the attack.
        controls: trials of its control arms, by name.
        budget: perturbed queries per item.
        left_out: controls that the attack has not -> why; their estimates are null with that
            reason.
    """
    found = {name: beside(attack, rows, budget) for name, rows in controls.items()}
    left_out = dict(left_out or {})
    for name, each in found.items():
        if not sum(each["control_table"]):
            left_out[name] = NOT_BOTH
    for name, reason in left_out.items():
        null = unknown(reason).as_json()
        found[name] = dict.fromkeys(FIELDS) | dict.fromkeys(("control", "asr_net"), null)
    return _by_field(found, FIELDS)


def with_controls(
    points: Sequence[Mapping[str, Any]],
    attack: Sequence[TrialRow],
    controls: Mapping[str, Sequence[TrialRow]],
) -> list[dict[str, Any]]:
    """Return the points of `asr_at` with the fields of `AT_BUDGET`."""
    firsts = (row.first_success for rows in (attack, *controls.values()) for row in rows)
    steps = {first for first in firsts if first is not None}
    filled: list[dict[str, Any]] = []
    known: dict[str, Any] = {}
    last = 0
    for point in points:
        b = point["budget"]
        # Between two first successes nothing changes.
        if not known or any(last < step <= b for step in steps):
            known = _by_field({k: beside(attack, rows, b) for k, rows in controls.items()})
        last = b
        filled.append({**point, **known})
    return filled


def _by_field(
    found: Mapping[str, Mapping[str, Any]], fields: Sequence[str] = AT_BUDGET
) -> dict[str, Any]:
    if not found:
        return {}
    return {field: {name: each[field] for name, each in found.items()} for field in fields}


def is_control(row: TrialRow) -> bool:
    """Return True if a trial belongs to a control arm that stands beside an attack."""
    return row.arm != "attack"


def attacks_only(trials: Iterable[TrialRow]) -> list[TrialRow]:
    """Return the trials that belong to no control arm."""
    return [row for row in trials if not is_control(row)]
