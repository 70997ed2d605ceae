"""Rows of `tests` about successes, from what their significance tests found."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.metrics.counts import is_eligible, is_flipped, is_refused
from medstress.metrics.hardness import Statistic, effect
from medstress.metrics.monte_carlo import ControlPlan, PValues, p_values
from medstress.metrics.significance import (
    LEVEL,
    Attainable,
    Family,
    Null,
    adjust,
    attainable,
    histogram,
)
from medstress.rows import TrialRow

FAMILY = "significance"
GUESS = 0.5
NOT_VALID = "experts find that the key no longer holds: left out of the family"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """What was stored of the test of one success."""

    told: Mapping[str, Any]
    """`trial`, and the settings: null, controls, stop_at, statistic, loops, generator."""
    found: Mapping[str, Any] | None
    """As the study returned it; None where it ended early."""
    note: str | None
    """Why it ended early."""


def plan_of(told: Mapping[str, Any]) -> ControlPlan:
    """The number of controls that settings ask for."""
    fixed = None if told["controls"] == "adaptive" else int(told["controls"])
    return ControlPlan(fixed=fixed, stop_at=int(told["stop_at"]))


def settings_key(told: Mapping[str, Any]) -> str:
    """Settings as text, equal for the tests of one family."""
    of_trial = ("trial", "edits", "attempt", "panel")
    kept = {key: value for key, value in told.items() if key not in of_trial}
    return json.dumps(kept, sort_keys=True)


def family_counts(trials: Sequence[TrialRow], tested: Sequence[TrialRow]) -> tuple[int, int]:
    """Successes and attacked trials where something is tested, whichever of them are.

    A family of the tested alone could be made as small as one likes by testing few. What experts
    find not valid is no success.
    """
    return _counts(_alike(trials, tested))


def _alike(trials: Sequence[TrialRow], tested: Sequence[TrialRow]) -> list[TrialRow]:
    places = {_place(trial) for trial in tested}
    return [trial for trial in trials if _place(trial) in places]


def _counts(alike: Sequence[TrialRow]) -> tuple[int, int]:
    n_successes = sum(is_flipped(trial) and not is_refused(trial) for trial in alike)
    return n_successes, sum(map(is_eligible, alike))


def _place(trial: TrialRow) -> tuple[str, str, str, str]:
    return trial.dataset, trial.group, trial.victim, trial.attack


def success_test_rows(
    trials: Sequence[TrialRow],
    tested: Iterable[Tested],
    families: Mapping[str, str],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Compute the rows of all tests, family by family.

    Args:
        trials: of the run.
        tested: what is stored.
        families: `settings_key` -> `successes` or `attacked`; missing is `successes`.

    Returns:
        A row for every test in the trials' order (a success that experts find not valid has no
        adjusted p and counts in no family: where all attacked trials are adjusted over, it is one
        that held), and a row for every family: what it could
        attain, how many were found, the histogram of p-values.
    """
    by_settings: dict[str, dict[str, Tested]] = defaultdict(dict)
    for one in tested:
        by_settings[settings_key(one.told)][str(one.told["trial"])] = one
    rows: list[dict[str, Any]] = []
    summaries: list[dict[str, Any]] = []
    for key, by_trial in by_settings.items():
        family = Family(families.get(key, Family.SUCCESSES.value))
        made = [_row(row, by_trial[row.trial_id]) for row in trials if row.trial_id in by_trial]
        summaries.append(_adjusted(made, trials, json.loads(key), family))
        rows += made
    return rows, summaries


def _row(trial: TrialRow, one: Tested) -> dict[str, Any]:
    """One test; numbers are None where it ended early."""
    told, found = one.told, one.found
    row: dict[str, Any] = {
        "family": FAMILY,
        "comparison": trial.attack,
        "against": told["null"],
        "trial_id": trial.trial_id,
        "dataset": trial.dataset,
        "group": trial.group,
        "victim": trial.victim,
        "item_id": trial.item_id,
        "seed": trial.seed,
        "repeat": trial.repeat,
        **dict.fromkeys(
            ("statistic", "t_original", "t_fuzz", "effect", "p", "p_adjusted", "p_paper")
        ),
        **dict.fromkeys(("p_plus1", "n_controls", "n_as_hard", "n_flipped", "p_flipped")),
        "clean_p_key": trial.score_before,
        "clean_confidence": clean_confidence(trial),
        "guess": trial.guess,
        "significant": None,
        "refused": is_refused(trial),
        "note": NOT_VALID if is_refused(trial) else one.note,
        "method": "",
    }
    if found is None:
        return row
    statistic = Statistic(found["statistic"])
    values = _p_values(found, plan_of(told), Null(told["null"]))
    size = effect(found["original"], found["fuzz"])
    t_original = sum(found["original"]) / len(found["original"])
    return row | {
        "statistic": statistic.value,
        "t_original": t_original,
        "t_fuzz": t_original - (size.value or 0.0),
        "effect": size.as_json(),
        "p": values.p,
        "p_paper": values.paper_text,
        "p_plus1": values.p_plus1,
        "n_controls": values.n_controls,
        "n_as_hard": values.n_as_hard,
        **_of_loops(found, Null(told["null"])),
        "guess": t_original < GUESS if trial.guess is None else trial.guess,
        "significant": None if row["refused"] else values.p <= LEVEL,
        "method": _method(told, statistic, values),
    }


def _p_values(found: Mapping[str, Any], plan: ControlPlan, null: Null) -> PValues:
    as_hard = [bool(one) for one in found["as_hard"]]
    if null is Null.FLIPPED and not plan.is_done(as_hard):
        # As many loops as asked for were run; those that held are not among the controls.
        if not as_hard:
            return PValues(p=1.0, p_paper=1.0, p_plus1=1.0, n_counted=0, n_controls=0, n_as_hard=0)
        plan = ControlPlan(fixed=len(as_hard))
    return p_values(as_hard, plan)


def _of_loops(found: Mapping[str, Any], null: Null) -> dict[str, Any]:
    """Of matched controls: loops that ended in an error, and the p-value among those alone."""
    if null not in (Null.MATCHED, Null.FLIPPED):
        return {}
    hard = [h for h, f in zip(found["as_hard"], found["flipped"], strict=True) if f]
    return {"n_flipped": len(hard), "p_flipped": (1 + sum(hard)) / (1 + len(hard))}


def _method(told: Mapping[str, Any], statistic: Statistic, values: PValues) -> str:
    how = (
        f"sequential Monte Carlo (Besag and Clifford, stop at {told['stop_at']} as hard)"
        if told["controls"] == "adaptive"
        else "(1 + count) / (controls + 1)"
    )
    return (
        f"{how} over {values.n_controls} {told['null']} controls"
        f"{' that a panel let pass' if told.get('panel') else ''}; T = {statistic.value} of "
        f"{statistic.n_samples} fresh samples; p_paper and p_plus1 over {values.n_counted}"
    )


def _adjusted(
    rows: Sequence[dict[str, Any]],
    trials: Sequence[TrialRow],
    told: Mapping[str, Any],
    family: Family,
) -> dict[str, Any]:
    """Adjust the p-values of a family in place; what it could attain and what came."""
    done = [row for row in rows if row["p"] is not None and not row["refused"]]
    here = {row["trial_id"] for row in rows}
    alike = _alike(trials, [trial for trial in trials if trial.trial_id in here])
    n_successes, n_attacked = _counts(alike)
    n_refused = sum(map(is_refused, alike))
    n_family = n_attacked if family is Family.ATTACKED else n_successes
    plan = plan_of(told)
    best = attainable(n_successes, n_attacked, family, plan, len(done)) if done else None
    of = "attacked trials, p = 1 where they held" if family is Family.ATTACKED else "successes"
    untested = n_successes - len(done)
    for row, p in zip(done, adjust([row["p"] for row in done], n_family), strict=True):
        row["p_adjusted"] = p
        row["method"] += f"; adjusted by Benjamini-Hochberg over {n_family} {of}"
        row["method"] += f", p = 1 for the {untested} successes without a test" if untested else ""
    return {
        **told,
        "family": family.value,
        "n_successes": n_successes,
        "n_refused": n_refused,
        "n_tested": len(done),
        "n_family": n_family,
        "smallest_p": plan.p_min,
        **_attained(best),
        "n_significant": sum(row["significant"] for row in done),
        "n_discoveries": sum(row["p_adjusted"] <= 0.10 for row in done),
        "n_guesses": sum(bool(row["guess"]) for row in done),
        "histogram": histogram([row["p"] for row in done]),
    }


def _attained(best: Attainable | None) -> dict[str, Any]:
    return {
        "smallest_p_adjusted": best.adjusted if best else None,
        "n_needed_at_smallest": best.n_needed if best else None,
    }


def clean_confidence(trial: TrialRow) -> float | None:
    """The victim's stated confidence in the key on the clean item, over the sum of all."""
    for entry in json.loads(trial.attempts or "[]"):
        if entry.get("query") == 0 and entry.get("confidences"):
            stated = entry["confidences"]
            return float(stated["ABCDEFGHIJ".index(trial.key)] / sum(stated))
    return None
