"""Families of significance tests: their members, what they could show, adjusted p-values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.core.rows import TrialRow
from medstress.metrics.counts import is_eligible, is_flipped, is_refused
from medstress.metrics.old_stats.monte_carlo import ControlPlan
from medstress.metrics.significance.control_costs import cost_of
from medstress.metrics.significance.families import (
    Adjust,
    Attainable,
    Null,
    adjust,
    histogram,
    shortfall,
)
from medstress.metrics.significance.hardness import Statistic

_HASH = "blake2b-128:"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTest:
    """The stored test of one success."""

    spec: Mapping[str, Any]
    """`trial`, and the settings: null, controls, max_calls, generator."""
    findings: Mapping[str, Any] | None
    """What the study returned; None if it ended early."""
    note: str | None
    """Why it ended early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The family that p-values of tests with the same settings belong to."""

    adjust: Adjust = Adjust.BH
    """How p-values are adjusted within it."""
    items: tuple[str, ...] = ()
    """The only items of the family, named before the first query; empty for all."""

    def holds(self, trial: TrialRow) -> bool:
        """Return True if a trial belongs to the family."""
        return not self.items or trial.item_id in self.items


def has_id(trial: TrialRow, given: str) -> bool:
    """Return True if the trial's identifier begins with `given`."""
    return trial.trial_id.removeprefix(_HASH).startswith(given.removeprefix(_HASH))


def plan_of(settings: Mapping[str, Any], findings: Mapping[str, Any] | None = None) -> ControlPlan:
    """Return the plan of controls that the settings request, limited as in a stored test."""
    if settings["controls"] == "adaptive":
        return ControlPlan() if findings is None else ControlPlan(limit=findings["most"])
    return ControlPlan(fixed=int(settings["controls"] if findings is None else findings["most"]))


def settings_key(settings: Mapping[str, Any]) -> str:
    """Return the settings as text; equal for all tests of one family."""
    of_one = ("trial", "edits", "panel", "leader")
    return json.dumps({k: v for k, v in settings.items() if k not in of_one}, sort_keys=True)


def family_of(
    trials: Sequence[TrialRow], tested: Sequence[TrialRow], scope: Scope
) -> list[TrialRow]:
    """Return all trials of the family in the places of the tested ones, tested or not.

    If only tested trials counted, one could make a family small by testing few.
    """
    places = {_place(trial) for trial in tested}
    return [trial for trial in trials if _place(trial) in places and scope.holds(trial)]


def family_counts(family: Sequence[TrialRow]) -> tuple[int, int]:
    """Count successes and attacked trials; what experts find not valid is not a success."""
    n_successes = sum(is_flipped(trial) and not is_refused(trial) for trial in family)
    return n_successes, sum(map(is_eligible, family))


def _place(trial: TrialRow) -> tuple[str, str, str, str]:
    return trial.dataset, trial.group, trial.victim, trial.attack


def adjusted(
    rows: Sequence[dict[str, Any]],
    trials: Sequence[TrialRow],
    tested: Mapping[str, StoredTest],
    settings: Mapping[str, Any],
    scope: Scope,
) -> dict[str, Any]:
    """Adjust the p-values of a family, and return its summary row.

    Sets `p_adjusted` in the rows, and how in their `method`.
    """
    done = [row for row in rows if row["p"] is not None and not row["refused"]]
    with_row = {row["trial_id"] for row in rows}
    family = family_of(trials, [trial for trial in trials if trial.trial_id in with_row], scope)
    inside = {trial.trial_id for trial in family}
    done = [row for row in done if row["trial_id"] in inside]
    # Successes that could not be tested have no p-value, so they are not members either.
    failed = [
        row for row in rows if row["p"] is None and not row["refused"] and row["trial_id"] in inside
    ]
    n_successes, n_attacked = family_counts(family)
    null = Null(settings["null"])
    n_family = (n_attacked if null.counts_attacked else n_successes) - len(failed)
    plans = [plan_of(settings, tested[row["trial_id"]].findings) for row in done]
    plan = max(plans, key=lambda one: one.most, default=plan_of(settings))
    best, p_min = None, plan.p_min
    if done:
        # If texts repeat, more controls do not make p smaller.
        n_distinct = max(_n_different(row, plan.most) for row in done)
        p_min = 1 / (n_distinct + 1)
        best = Attainable(
            n_tested=len(done),
            n_family=n_family,
            p_min=p_min,
            method=scope.adjust,
            repeated=n_distinct < plan.most,
        )
    ps = adjust([row["p"] for row in done], n_family, scope.adjust)
    how = _adjustment(scope, null, n_family, n_successes - len(done) - len(failed))
    for row, p in zip(done, ps, strict=True):
        row["p_adjusted"] = p
        row["method"] += f"; {how}"
    return {
        **settings,
        "adjust": scope.adjust.value,
        "items": list(scope.items) or None,
        "n_successes": n_successes,
        "n_refused": sum(map(is_refused, family)),
        "n_tested": len(done),
        "n_not_testable": len(failed),
        "n_family": n_family,
        "smallest_p": p_min,
        **_attained(best, done, tested, settings, trials),
        "n_significant": sum(row["significant"] for row in done),
        "n_discoveries": sum(p <= scope.adjust.level for p in ps),
        "n_guesses": sum(bool(row["guess"]) for row in done),
        "level_among_successes": null.level_among_successes,
        "histogram": histogram([row["p"] for row in done]),
    }


def _n_different(row: Mapping[str, Any], most: int) -> int:
    """Return how many different controls a test can have at most."""
    n_distinct = row["n_distinct"]
    return most if n_distinct is None else min(most, int(n_distinct))


def _adjustment(scope: Scope, null: Null, n_family: int, n_untested: int) -> str:
    """Describe how p-values were adjusted."""
    of = "attacked trials, p = 1 where they held" if null.counts_attacked else "successes"
    if scope.items:
        of += f" on the items named before ({', '.join(scope.items)})"
    if scope.adjust is Adjust.NONE:
        return f"not adjusted for the {n_family} {of}"
    name = "Benjamini-Hochberg" if scope.adjust is Adjust.BH else "Holm"
    text = f"adjusted by {name} over {n_family} {of}"
    return f"{text}, {n_untested} of them not tested yet" if n_untested else text


def _attained(
    best: Attainable | None,
    done: Sequence[Mapping[str, Any]],
    tested: Mapping[str, StoredTest],
    settings: Mapping[str, Any],
    trials: Sequence[TrialRow],
) -> dict[str, Any]:
    """Return what the family could show, and what it would take if that is nothing."""
    if best is None:
        return dict.fromkeys(("smallest_p_adjusted", "n_needed_at_smallest", "shortfall"))
    ids = {row["trial_id"] for row in done}
    specs = [(t, json.loads(t.attack_spec)) for t in trials if t.trial_id in ids]

    def max_calls(n_controls: int) -> int:
        """Return the `max_calls` that buys the controls for every tested success."""
        return max(
            cost_of(
                Null(settings["null"]),
                int(spec.get("attempts", 1)),
                Statistic((tested[trial.trial_id].findings or {})["statistic"]),
                written=settings["generator"] == "attacker",
            ).needed(n_controls)
            for trial, spec in specs
        )

    bounded = settings["controls"] == "adaptive"
    return {
        "smallest_p_adjusted": best.adjusted,
        "n_needed_at_smallest": best.n_needed,
        "shortfall": shortfall(best, max_calls if bounded else None),
    }
