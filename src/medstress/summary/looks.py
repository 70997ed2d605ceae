"""Which ends judge a criterion where the run may stop early or was extended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from medstress.core.controls import arm_label
from medstress.core.rows import TrialRow
from medstress.metrics.counts import cluster_of
from medstress.metrics.criteria import Place, Reading, Row
from medstress.metrics.watching import (
    AT_THE_END,
    EARLY,
    EXTENDED,
    WATCHED,
    Rank,
    Watch,
    fixed_ends,
    rank,
)
from medstress.results.load import StoredRun
from medstress.running.criteria import KEY, batch_of
from medstress.running.deciding import DECIDED

Trials = Mapping[Place, Sequence[TrialRow]]


def settler(
    run: StoredRun, trials: Trials, budgets: Mapping[str, int]
) -> Callable[[Row, Reading], Reading]:
    """Return how readings are judged.

    * A run that may stop early spends .01 of .05 on the sequence, so its planned end is judged by
      96 % intervals.
    * A run that was extended after its first query has been looked at, so a sequence over its
      items judges it: those that it began with first, then those that were added.
    * Any other run is judged by the intervals of its rows.
    """
    fixed = run.manifest[KEY]
    may_stop, added = "stop_when" in fixed, fixed.get("added", [])

    def settle(criterion: Row, reading: Reading) -> Reading:
        if reading.reason is not None or not (may_stop or added):
            return reading
        if criterion["metric"] not in WATCHED or "slice" in criterion or "against" in criterion:
            reason = (
                "items were added after the first query, and no confidence sequence follows this "
                "criterion"
            )
            return replace(reading, reason=reason)
        rows, control = trials[reading.place], _control(trials, reading)
        budget = budgets[reading.place[3]]
        if not added:
            low, high = fixed_ends(criterion, budget, rows, control)
            how = f"{100 * (1 - AT_THE_END):g} % interval at the planned end"
        else:
            alpha = EARLY if may_stop else EXTENDED
            watch = _watched(run, criterion, budget, alpha, added, rows, control)
            # Without a unit the sequence holds everything, and nothing was counted.
            low, high = watch.ends if watch.n else (None, None)
            how = _sequence(alpha, watch.n)
        return replace(reading, ends=(low, high), more={**reading.more, "judged_by": how})

    return settle


def decided(
    run: StoredRun, judged: Sequence[Row], is_complete: bool
) -> list[dict[str, Any]] | None:
    """Return the criteria with the verdicts that came early; None if nothing is final yet.

    Args:
        run: the run.
        judged: the criteria as their rows judge them.
        is_complete: whether every planned trial has ended.
    """
    early = run.manifest.get(DECIDED)
    if early is None or not (early["final"] or is_complete):
        return [dict(each) for each in judged] if is_complete else None
    return [
        dict(each) if found is None else _with(each, found)
        for each, found in zip(judged, early["criteria"], strict=True)
    ]


def saved(run: StoredRun, trials: Sequence[TrialRow]) -> dict[str, int] | None:
    """Return how many trials and about how many queries an early verdict saved."""
    early, n_planned = run.manifest.get(DECIDED), run.manifest["n_planned"]
    if early is None or not early["final"] or run.manifest["complete"] or not trials:
        return None
    left = max(0, n_planned - len(trials))
    mean = sum(row.n_asked for row in trials) / len(trials)
    return {"saved_trials": left, "saved_queries": round(left * mean)}


def _with(judged: Row, found: Mapping[str, Any]) -> dict[str, Any]:
    low, high = found["ends"]
    sure = "met" if found["met"] else "missed"
    return {
        **judged,
        # The estimate of another row would stand beside these ends.
        "estimate": judged["estimate"] if judged["row"] == found["row"] else None,
        "row": found["row"],
        "bounds": [low, high],
        "met": found["met"],
        "judged_by": _sequence(EARLY, found["n_units"]),
        "reason": None if found["met"] else f"it is {sure} for certain",
        "fault": False,
    }


def _sequence(alpha: float, n: int) -> str:
    return f"{100 * (1 - alpha):g} % confidence sequence over {n:,} items"


def _control(trials: Trials, reading: Reading) -> Sequence[TrialRow]:
    name = reading.more.get("control")
    dataset, group, victim, attack = reading.place
    return trials.get((dataset, group, victim, arm_label(attack, name)), ()) if name else ()


def _watched(
    run: StoredRun,
    criterion: Row,
    budget: int,
    alpha: float,
    added: Sequence[Mapping[str, Sequence[str]]],
    rows: Sequence[TrialRow],
    control: Sequence[TrialRow],
) -> Watch:
    """Let all units of a row enter a sequence, in their order."""
    items = run.items_by_id()
    units: dict[Rank, tuple[list[TrialRow], list[TrialRow]]] = defaultdict(lambda: ([], []))
    for side, members in enumerate((rows, control)):
        for row in members:
            batch = batch_of(added, row.dataset, row.group, items[row.dataset, row.item_id])
            units[rank(batch, cluster_of(row))][side].append(row)
    watch = Watch(criterion, budget, alpha)
    for at in sorted(units):
        watch.take(*units[at])
    return watch
