"""Families of significance tests: who belongs to one, what it could show, adjusted p-values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.metrics.control_costs import cost_of
from medstress.metrics.counts import is_eligible, is_flipped, is_refused
from medstress.metrics.hardness import Statistic
from medstress.metrics.monte_carlo import MOST, ControlPlan
from medstress.metrics.significance import (
    Adjust,
    Attainable,
    Family,
    Null,
    adjust,
    histogram,
    shortfall,
)
from medstress.metrics.tries import attempts_used
from medstress.rows import TrialRow

_HASH = "blake2b-128:"
PRE_SPECIFIED, POST_HOC = "pre-specified", "post hoc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """What was stored of the test of one success."""

    told: Mapping[str, Any]
    """`trial`, and the settings: null, controls, stop_at, max_calls, max_controls, statistic,
    loops, generator, share_controls."""
    found: Mapping[str, Any] | None
    """As the study returned it; None where it ended early."""
    note: str | None
    """Why it ended early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The family that p-values of tests with the same settings belong to."""

    family: Family = Family.SUCCESSES
    """Successes alone, or all attacked items."""
    adjust: Adjust = Adjust.BH
    """How p-values are adjusted within it."""
    items: tuple[str, ...] = ()
    """It is of these items alone, where there are any."""
    trials: tuple[str, ...] = ()
    """The same, by the beginnings of trial identifiers."""
    label: str | None = None
    """`PRE_SPECIFIED` or `POST_HOC` where it was fixed; None where it is the whole run."""

    def holds(self, trial: TrialRow) -> bool:
        """Whether a trial is of the family."""
        if self.items:
            return trial.item_id in self.items
        return not self.trials or any(is_called(trial, given) for given in self.trials)


def is_called(trial: TrialRow, given: str) -> bool:
    """Whether a trial has this identifier, or one that begins so."""
    return trial.trial_id.removeprefix(_HASH).startswith(given.removeprefix(_HASH))


def plan_of(told: Mapping[str, Any], found: Mapping[str, Any] | None = None) -> ControlPlan:
    """The number of controls that settings ask for, and that were to be drawn in one test.

    Tests of folders from before `max_calls` were adaptive up to 999.
    """
    most = (found or {}).get("most")
    if told["controls"] != "adaptive":
        return ControlPlan(fixed=int(told["controls"]) if most is None else int(most))
    return ControlPlan(stop_at=int(told["stop_at"]), limit=MOST if most is None else int(most))


def settings_key(told: Mapping[str, Any]) -> str:
    """Settings as text, equal for the tests of one family."""
    of_one = ("trial", "edits", "attempt", "panel", "leader")
    return json.dumps({k: v for k, v in told.items() if k not in of_one}, sort_keys=True)


def family_of(
    trials: Sequence[TrialRow], tested: Sequence[TrialRow], scope: Scope
) -> list[TrialRow]:
    """Trials of the family where something is tested, whichever of them are.

    A family of the tested alone could be made as small as one likes by testing few.
    """
    places = {_place(trial) for trial in tested}
    return [trial for trial in trials if _place(trial) in places and scope.holds(trial)]


def family_counts(family: Sequence[TrialRow]) -> tuple[int, int]:
    """Successes and attacked trials; what experts find not valid is no success."""
    n_successes = sum(is_flipped(trial) and not is_refused(trial) for trial in family)
    return n_successes, sum(map(is_eligible, family))


def _place(trial: TrialRow) -> tuple[str, str, str, str]:
    return trial.dataset, trial.group, trial.victim, trial.attack


def adjusted(
    rows: Sequence[dict[str, Any]],
    trials: Sequence[TrialRow],
    tested: Mapping[str, Tested],
    told: Mapping[str, Any],
    scope: Scope,
) -> dict[str, Any]:
    """Adjust the p-values of a family; what it could attain and what came.

    In the rows of its tests `p_adjusted` is set where no family before this one did; `method`
    tells that of every family.
    """
    done = [row for row in rows if row["p"] is not None and not row["refused"]]
    here = {row["trial_id"]: row for row in rows}
    family = family_of(trials, [trial for trial in trials if trial.trial_id in here], scope)
    inside = {trial.trial_id for trial in family}
    done = [row for row in done if row["trial_id"] in inside]
    # What could not be tested has no p-value, so it is no member either.
    failed = [
        row for row in rows if row["p"] is None and not row["refused"] and row["trial_id"] in inside
    ]
    n_successes, n_attacked = family_counts(family)
    n_family = n_attacked if scope.family is Family.ATTACKED else n_successes
    n_family -= len(failed)
    plans = [plan_of(told, tested[row["trial_id"]].found) for row in done]
    plan = max(plans, key=lambda one: one.most, default=plan_of(told))
    best, p_min = None, plan.p_min
    if done:
        # Where texts repeat no further control makes p smaller.
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
    how = _adjustment(scope, n_family, n_successes - len(done) - len(failed))
    for row, p in zip(done, ps, strict=True):
        if row["p_adjusted"] is None:
            row["p_adjusted"] = p
            row["method"] += f"; {how}"
        else:
            row["method"] += f"; {p:.3g} {how}"
    return {
        **told,
        "family": scope.family.value,
        "adjust": scope.adjust.value,
        "items": list(scope.items) or None,
        "trials": list(scope.trials) or None,
        "label": scope.label,
        "n_successes": n_successes,
        "n_refused": sum(map(is_refused, family)),
        "n_tested": len(done),
        "n_not_testable": len(failed),
        "n_family": n_family,
        "smallest_p": p_min,
        **_attained(best, done, tested, told, trials),
        "n_significant": sum(row["significant"] for row in done),
        "n_discoveries": sum(p <= scope.adjust.level for p in ps),
        "n_guesses": sum(bool(row["guess"]) for row in done),
        "level_among_successes": Null(told["null"]).level_among_successes,
        "histogram": histogram([row["p"] for row in done]),
    }


def _n_different(row: Mapping[str, Any], most: int) -> int:
    """The most different controls that a test can have."""
    n_distinct = row["n_distinct"]
    return most if n_distinct is None else min(most, int(n_distinct))


def _adjustment(scope: Scope, n_family: int, n_untested: int) -> str:
    """How p-values were adjusted, in words."""
    of = "successes"
    if scope.family is Family.ATTACKED:
        of = "attacked trials, p = 1 where they held"
    if scope.label is not None:
        of += f" of a {scope.label} family ({', '.join((*scope.items, *scope.trials))})"
    if scope.adjust is Adjust.NONE:
        return f"not adjusted for the {n_family} {of}"
    name = "Benjamini-Hochberg" if scope.adjust is Adjust.BH else "Holm"
    told = f"adjusted by {name} over {n_family} {of}"
    return f"{told}, {n_untested} of them not tested yet" if n_untested else told


def _attained(
    best: Attainable | None,
    done: Sequence[Mapping[str, Any]],
    tested: Mapping[str, Tested],
    told: Mapping[str, Any],
    trials: Sequence[TrialRow],
) -> dict[str, Any]:
    """What the family could show, and what it would take where that is nothing."""
    if best is None:
        return dict.fromkeys(("smallest_p_adjusted", "n_needed_at_smallest", "shortfall"))
    ids = {row["trial_id"] for row in done}
    specs = [(t, json.loads(t.attack_spec)) for t in trials if t.trial_id in ids]

    def max_calls(n_controls: int) -> int:
        """For the dearest of the tested."""
        return max(
            cost_of(
                Null(told["null"]),
                int(spec.get("attempts", 1)) * int(told["loops"]),
                Statistic((tested[trial.trial_id].found or {})["statistic"]),
                written=told["generator"] == "attacker",
                used=attempts_used(trial),
            ).needed(n_controls)
            for trial, spec in specs
        )

    bounded = told["controls"] == "adaptive"
    return {
        "smallest_p_adjusted": best.adjusted,
        "n_needed_at_smallest": best.n_needed,
        "shortfall": shortfall(best, max_calls if bounded else None),
    }
