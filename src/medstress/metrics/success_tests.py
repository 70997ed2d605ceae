"""Rows of `tests` about successes, from what their significance tests found."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from medstress.items import LETTERS
from medstress.metrics.counts import is_refused
from medstress.metrics.hardness import Statistic, effect
from medstress.metrics.monte_carlo import ControlPlan, PValues, p_values
from medstress.metrics.significance import LEVEL, Null
from medstress.metrics.success_families import (
    PRE_SPECIFIED,
    Scope,
    Tested,
    adjusted,
    plan_of,
    settings_key,
)
from medstress.metrics.tries import entries
from medstress.rows import TrialRow

FAMILY = "significance"
GUESS = 0.5
NOTHING_FLIPPED = (
    "no neutral insertion misled the victim in {n} loops, so there is nothing to compare with: "
    "not tested; null = 'matched' counts such loops"
)
NOT_VALID = "experts find that the key no longer holds: left out of the family"


def success_test_rows(
    trials: Sequence[TrialRow],
    tested: Iterable[Tested],
    scopes: Mapping[str, Sequence[Scope]],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Compute the rows of all tests, family by family.

    Args:
        trials: of the run.
        tested: what is stored.
        scopes: `settings_key` -> the families that were asked for, in that order; missing: all
            successes.

    Returns:
        A row for every test in the trials' order (a success that experts find not valid has no
        adjusted p and counts in no family: where all attacked trials are adjusted over, it is one
        that held; of several families that a success is in, `p_adjusted` is that of the
        pre-specified one, else of the one asked for last), and a row for every family in the order
        in which they were asked for: what it could attain, how many were found, the histogram of
        p-values.
    """
    by_settings: dict[str, dict[str, Tested]] = defaultdict(dict)
    for one in tested:
        by_settings[settings_key(one.told)][str(one.told["trial"])] = one
    rows: list[dict[str, Any]] = []
    summaries: list[dict[str, Any]] = []
    for key, by_trial in by_settings.items():
        made = [_row(row, by_trial[row.trial_id]) for row in trials if row.trial_id in by_trial]
        asked = scopes.get(key) or [Scope()]
        found = {
            i: adjusted(made, trials, by_trial, json.loads(key), asked[i])
            for i in _by_precedence(asked)
        }
        summaries += [found[i] for i in range(len(asked))]
        rows += made
    return rows, summaries


def _by_precedence(asked: Sequence[Scope]) -> list[int]:
    """Places of families: pre-specified ones as asked for, then the others, the last one first."""
    first = [i for i, scope in enumerate(asked) if scope.label == PRE_SPECIFIED]
    return first + [i for i in reversed(range(len(asked))) if i not in first]


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
        **dict.fromkeys(("p_plus1", "n_controls", "n_distinct", "n_as_hard")),
        **dict.fromkeys(("n_flipped", "p_flipped")),
        "level_among_successes": Null(told["null"]).level_among_successes,
        "caution": Null(told["null"]).caution,
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
    statistic, null = Statistic(found["statistic"]), Null(told["null"])
    size = effect(found["original"], found["fuzz"])
    t_original = sum(found["original"]) / len(found["original"])
    row |= {
        "statistic": statistic.value,
        "t_original": t_original,
        "t_fuzz": t_original - (size.value or 0.0),
        "effect": size.as_json(),
        "guess": t_original < GUESS if trial.guess is None else trial.guess,
        **_of_loops(found, null),
    }
    if not found["as_hard"]:
        note = NOTHING_FLIPPED.format(n=found["n_loops"])
        return row | {"n_controls": 0, "note": row["note"] or note}
    values = _p_values(found, told, null)
    return row | {
        "p": values.p,
        "p_paper": values.paper_text,
        "p_plus1": values.p_plus1,
        "n_controls": values.n_controls,
        "n_distinct": found.get("n_distinct"),
        "n_as_hard": values.n_as_hard,
        "significant": None if row["refused"] else values.p <= LEVEL,
        "method": _method(told, found, statistic, values),
    }


def _p_values(found: Mapping[str, Any], told: Mapping[str, Any], null: Null) -> PValues:
    as_hard, plan = [bool(one) for one in found["as_hard"]], plan_of(told, found)
    if null is Null.FLIPPED and not plan.is_done(as_hard):
        # As many loops as asked for were run; those that held are not among the controls.
        plan = ControlPlan(fixed=len(as_hard))
    return p_values(as_hard, plan, found.get("n_distinct"))


def _of_loops(found: Mapping[str, Any], null: Null) -> dict[str, Any]:
    """Of matched controls: loops that ended in an error, and the p-value among those alone."""
    if null not in (Null.MATCHED, Null.FLIPPED):
        return {}
    as_hard, flipped = found["as_hard"], found["flipped"]
    p = p_of_flipped(as_hard, flipped, found.get("n_distinct"))
    return {"n_flipped": sum(map(bool, flipped)), "p_flipped": p}


def p_of_flipped(
    as_hard: Sequence[bool], flipped: Sequence[bool], n_distinct: int | None
) -> float | None:
    """The p-value among the loops that ended in an error; None without one.

    Args:
        as_hard: of every loop, whether it was as hard as the success.
        flipped: of every loop, whether it ended in an error.
        n_distinct: how many different loops the texts make; None: all. Those in an error make as
            many as their share, and at least one.
    """
    hard = [is_hard for is_hard, erred in zip(as_hard, flipped, strict=True) if erred]
    if not hard:
        return None
    if n_distinct is not None:
        n_distinct = max(1, n_distinct * len(hard) // len(as_hard))
    return p_values(hard, ControlPlan(fixed=len(hard)), n_distinct).p


def repeated(row: Mapping[str, Any]) -> str | None:
    """What has to be said beside the p-values of a row whose controls repeat texts; else None.

    >>> repeated({"n_distinct": 3})
    'texts of controls repeat and make 3 different ones: p is at least 1/4'
    """
    n_distinct = row["n_distinct"]
    if n_distinct is None:
        return None
    return (
        f"texts of controls repeat and make {n_distinct} different ones: p is at least "
        f"1/{n_distinct + 1}"
    )


def _method(
    told: Mapping[str, Any], found: Mapping[str, Any], statistic: Statistic, values: PValues
) -> str:
    how = (
        f"sequential Monte Carlo (Besag and Clifford, stop at {told['stop_at']} as hard)"
        if told["controls"] == "adaptive"
        else "(1 + count) / (controls + 1)"
    )
    said = repeated({"n_distinct": found.get("n_distinct")})
    return (
        f"{how} over {values.n_controls} {told['null']} controls"
        f"{' that a panel let pass' if told.get('panel') else ''}{f' ({said})' if said else ''}; "
        f"T = {statistic.value} of {statistic.n_samples} fresh samples; p_paper and p_plus1 over "
        f"{values.n_counted}{_shared(told)}"
    )


def _shared(told: Mapping[str, Any]) -> str:
    leader = told.get("leader")
    return f"; controls shared with the success of trial {leader}" if leader else ""


def clean_confidence(trial: TrialRow) -> float | None:
    """The victim's stated confidence in the key on the clean item, over the sum of all."""
    for entry in entries(trial):
        if entry.get("query") == 0 and entry.get("confidences"):
            stated = entry["confidences"]
            return float(stated[LETTERS.index(trial.key)] / sum(stated))
    return None
