"""Compute the rows of `tests` about successes from their stored significance tests."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from medstress.core.items import LETTERS
from medstress.core.rows import TrialRow
from medstress.metrics.attempt_records import entries
from medstress.metrics.counts import is_refused
from medstress.metrics.old_stats.monte_carlo import ControlPlan, PValues, p_values
from medstress.metrics.significance.families import LEVEL, Null
from medstress.metrics.significance.hardness import Statistic, effect
from medstress.metrics.significance.members import (
    Scope,
    StoredTest,
    adjusted,
    plan_of,
    settings_key,
)

FAMILY = "significance"
GUESS = 0.5
NOT_VALID = "experts find that the key no longer holds: left out of the family"


def success_test_rows(
    trials: Sequence[TrialRow],
    tested: Iterable[StoredTest],
    scopes: Mapping[str, Scope],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Compute the rows of all tests, family by family.

    Args:
        trials: trials of the run.
        tested: stored tests.
        scopes: `settings_key` -> the family; the whole run if missing.

    Returns:
        A row for every test, in the order of the trials, and a row for every family: what it could
        attain, how many successes were found, the histogram of p-values. A success that experts
        find not valid has no adjusted p and is in no family; if the family is all attacked trials,
        it counts as one that held.
    """
    by_settings: dict[str, dict[str, StoredTest]] = defaultdict(dict)
    for one in tested:
        by_settings[settings_key(one.spec)][str(one.spec["trial"])] = one
    rows: list[dict[str, Any]] = []
    summaries: list[dict[str, Any]] = []
    for key, by_trial in by_settings.items():
        made = [_row(row, by_trial[row.trial_id]) for row in trials if row.trial_id in by_trial]
        scope = scopes.get(key, Scope())
        summaries.append(adjusted(made, trials, by_trial, json.loads(key), scope))
        rows += made
    return rows, summaries


def _row(trial: TrialRow, one: StoredTest) -> dict[str, Any]:
    """Return the row of one test; numbers are None if the test ended early."""
    spec, findings = one.spec, one.findings
    row: dict[str, Any] = {
        "family": FAMILY,
        "comparison": trial.attack,
        "against": spec["null"],
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
        "level_among_successes": Null(spec["null"]).level_among_successes,
        "caution": Null(spec["null"]).caution,
        "clean_p_key": trial.score_before,
        "clean_confidence": clean_confidence(trial),
        "guess": trial.guess,
        "significant": None,
        "refused": is_refused(trial),
        "note": NOT_VALID if is_refused(trial) else one.note,
        "method": "",
    }
    if findings is None:
        return row
    statistic = Statistic(findings["statistic"])
    size = effect(findings["original"], findings["fuzz"])
    t_original = sum(findings["original"]) / len(findings["original"])
    row |= {
        "statistic": statistic.value,
        "t_original": t_original,
        "t_fuzz": t_original - (size.value or 0.0),
        "effect": size.as_json(),
        "guess": t_original < GUESS if trial.guess is None else trial.guess,
    }
    as_hard = [bool(one) for one in findings["as_hard"]]
    values = p_values(as_hard, plan_of(spec, findings), findings["n_distinct"])
    return row | {
        "p": values.p,
        "p_paper": values.paper_text,
        "p_plus1": values.p_plus1,
        "n_controls": values.n_controls,
        "n_distinct": findings["n_distinct"],
        "n_as_hard": values.n_as_hard,
        "significant": None if row["refused"] else values.p <= LEVEL,
        "method": _method(spec, findings, statistic, values),
    }


def repeated(row: Mapping[str, Any]) -> str | None:
    """Return a remark on the p-values of a row whose controls repeat texts, else None.

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
    spec: Mapping[str, Any], findings: Mapping[str, Any], statistic: Statistic, values: PValues
) -> str:
    how = (
        f"sequential Monte Carlo (Besag and Clifford, stop at {ControlPlan().stop_at} as hard)"
        if spec["controls"] == "adaptive"
        else "(1 + count) / (controls + 1)"
    )
    remark = repeated({"n_distinct": findings["n_distinct"]})
    return (
        f"{how} over {values.n_controls} {spec['null']} controls"
        f"{' that a panel let pass' if spec.get('panel') else ''}"
        f"{f' ({remark})' if remark else ''}; "
        f"T = {statistic.value} of {statistic.n_samples} fresh samples; p_paper and p_plus1 over "
        f"{values.n_counted}{_shared(spec)}"
    )


def _shared(spec: Mapping[str, Any]) -> str:
    leader = spec.get("leader")
    return f"; controls shared with the success of trial {leader}" if leader else ""


def clean_confidence(trial: TrialRow) -> float | None:
    """Return the stated confidence in the key on the clean item, over the sum of all."""
    for entry in entries(trial):
        if entry.get("query") == 0 and entry.get("confidences"):
            stated = entry["confidences"]
            return float(stated[LETTERS.index(trial.key)] / sum(stated))
    return None
