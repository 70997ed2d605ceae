"""All numbers of a run from its trials: what `medstress summary --json` prints."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeAlias

from medstress.core.controls import CONTROLS, arm_label
from medstress.core.errors import MedstressError
from medstress.core.rows import TrialRow
from medstress.metrics.accuracies import accuracy, accuracy_after
from medstress.metrics.answers import answer_fields, key_probability_change
from medstress.metrics.attempts import attempt_fields
from medstress.metrics.bounds import accuracy_after_bounds, accuracy_bounds, asr_bounds
from medstress.metrics.cautions import cautions
from medstress.metrics.chance import above_chance, chance_of
from medstress.metrics.controls import control_fields, is_control, repaired, with_controls
from medstress.metrics.counts import check_trial, count_verdicts, is_unattacked, seed_order
from medstress.metrics.diversity import both_diversities
from medstress.metrics.pairs import attack_tests
from medstress.metrics.similarity import prompt_similarity
from medstress.metrics.success import (
    asr,
    asr_at,
    asr_by_variant,
    asr_decided,
    queries_to_success,
)
from medstress.metrics.valid_bounds import asr_valid_bounds_at
from medstress.metrics.validity import validity_fields
from medstress.metrics.variants import consistency_net, variant_fields

FORMAT = 2
"""Format version of `summary --json` (docs: schema, compatibility)."""

RowKey: TypeAlias = tuple[str, str, str, str, int | None]
"""(dataset, group, victim, attack, seed) of one row of results; the seed of deterministic
attacks is None."""

Roles: TypeAlias = Mapping[str, Mapping[str, int]]
"""Role -> `calls`, `tokens_in`, `tokens_out`."""

Ledger: TypeAlias = Mapping[str, int]
"""Queries of one row under the names of `LEDGER_FIELDS`."""

LEDGER_FIELDS = (
    "asked",
    "paid",
    "cached",
    "failed",
    "ahead",
    "baseline",
    "other",
    "interrupted",
)
"""The fields of `queries`; the first four are sums over trials."""

Reasons: TypeAlias = Mapping[str, Mapping[str, str]]
"""Attack -> control that it has not -> why."""

_NO_QUERIES: Ledger = dict.fromkeys(LEDGER_FIELDS, 0)


def summarise(
    trials: Sequence[TrialRow],
    experiment: Mapping[str, Any],
    ledgers: Mapping[RowKey, Ledger],
    performance: Mapping[str, Any],
    budgets: Mapping[str, int],
    roles: Mapping[RowKey, Roles] | None = None,
    without: Reasons | None = None,
) -> dict[str, Any]:
    """Compute the summary of a run, finished or not, in the shape of `summary --json`.

    Rows are sorted by data set, group, victim, attack and seed, so the summary does not
    depend on the order of the trials. `slices` and `requirements` are
    empty: they need the items and the criteria of the run.

    Args:
        trials: the finished trials, in any order.
        experiment: name, fingerprint, seeds, versions, started, finished, complete.
        ledgers: the queries of every row of results, in the fields of `LEDGER_FIELDS`.
        performance: passed through.
        budgets: perturbed queries per item, by attack label; the largest where it varies.
        roles: calls and tokens by role of the rows whose attack asks other roles.
        without: the controls that attacks have not.

    Returns:
        A dictionary that `json.dumps(..., allow_nan=False)` takes.

    Raises:
        MedstressError: a trial or a ledger breaks its contract.
    """
    rows: dict[RowKey, list[TrialRow]] = defaultdict(list)
    for trial in trials:
        check_trial(trial, budgets)
        rows[trial.dataset, trial.group, trial.victim, trial.attack, trial.seed].append(trial)
    _check_ledgers(rows, ledgers)
    keys = sorted(rows, key=lambda key: (key[:4], seed_order(key[4])))
    roles, without = roles or {}, without or {}
    results = {
        key: {
            **_row(key, rows[key], ledgers[key], budgets[key[3]]),
            **_beside_controls([key], rows, budgets[key[3]], without),
            **_asked_roles(roles, [key]),
        }
        for key in keys
    }
    return {
        "format": FORMAT,
        "experiment": dict(experiment),
        "results": list(results.values()),
        "pooled": _pooled(results, rows, ledgers, budgets, roles, without),
        "slices": [],
        "requirements": [],
        "tests": attack_tests(trials),
        "warnings": cautions(trials, experiment),
        "performance": dict(performance),
    }


def _pooled(
    results: Mapping[RowKey, Mapping[str, Any]],
    rows: Mapping[RowKey, list[TrialRow]],
    ledgers: Mapping[RowKey, Ledger],
    budgets: Mapping[str, int],
    roles: Mapping[RowKey, Roles],
    without: Reasons,
) -> list[dict[str, Any]]:
    """Pool the seeds of each attack; a deterministic attack keeps a row of its own."""
    pools: dict[tuple[str, str, str, str, bool], list[RowKey]] = defaultdict(list)
    for key in results:
        pools[*key[:4], key[4] is None].append(key)
    found: list[dict[str, Any]] = []
    for members in pools.values():
        if len(members) == 1:  # the same numbers again
            (key,) = members
            found.append({**deepcopy(dict(results[key])), "seed": None, "seeds": [key[4]]})
            continue
        dataset, group, victim, attack, _ = members[0]
        pooled = [trial for key in members for trial in rows[key]]
        ledger = _total(ledgers[key] for key in members)
        place = dataset, group, victim, attack, None
        row = _row(place, pooled, ledger, budgets[attack])
        found.append(
            {
                **row,
                **_beside_controls(members, rows, budgets[attack], without),
                **_asked_roles(roles, members),
                "seeds": [key[4] for key in members],
            }
        )
    return found


def _beside_controls(
    keys: Sequence[RowKey],
    rows: Mapping[RowKey, list[TrialRow]],
    budget: int,
    without: Reasons,
) -> dict[str, Any]:
    """Compare an attack with its control arms on the seeds of some keys; empty without any.

    The row of a control arm names its attack (`control_of`).
    """
    attack, trials = keys[0][3], [trial for key in keys for trial in rows[key]]
    if is_control(trials[0]):
        return {"control_of": attack.removesuffix(f" / {trials[0].arm}"), **repaired(trials)}
    arms: dict[str, list[TrialRow]] = defaultdict(list)
    for dataset, group, victim, _, seed in keys:
        for name in CONTROLS:
            arms[name] += rows.get((dataset, group, victim, arm_label(attack, name), seed), ())
    controls = {name: beside for name, beside in arms.items() if beside}
    points = asr_at(trials, budget)
    fields = control_fields(trials, controls, budget, without.get(attack))
    if controls and trials[0].variant_answers is not None:
        fields["consistency_net"] = consistency_net(trials, controls)
    return {**fields, "asr_at": with_controls(points, trials, controls)} if fields else {}


def _asked_roles(roles: Mapping[RowKey, Roles], keys: Sequence[RowKey]) -> dict[str, Roles]:
    """Add up calls and tokens by role; empty if only the victim was asked."""
    total: dict[str, dict[str, int]] = {}
    for key in keys:
        for role, counts in roles.get(key, {}).items():
            sums = total.setdefault(role, dict.fromkeys(counts, 0))
            for name, count in counts.items():
                sums[name] += count
    return {"roles": total} if total else {}


def _row(
    key: RowKey,
    trials: Sequence[TrialRow],
    ledger: Ledger,
    budget: int,
) -> dict[str, Any]:
    """Compute one row of results or of pooled, the fields in the documented order."""
    dataset, group, victim, attack, seed = key
    diversity, unbiased = both_diversities(trials)
    # Of a model that nothing attacked no loss was measured, which is not a loss of none.
    attacked = () if is_unattacked(trials[0]) else trials
    return {
        "dataset": dataset,
        "group": group,
        "victim": victim,
        "attack": attack,
        "attack_spec": trials[0].attack_spec,
        "seed": seed,
        **count_verdicts(trials),
        "accuracy": accuracy(trials).as_json(),
        "accuracy_bounds": accuracy_bounds(trials),
        "chance": chance_of(trials),
        "above_chance": above_chance(trials),
        "accuracy_after": accuracy_after(trials).as_json(),
        "accuracy_after_bounds": accuracy_after_bounds(trials, budget),
        "asr": asr(attacked).as_json(),
        "asr_bounds": asr_bounds(attacked, budget),
        "asr_decided": asr_decided(attacked).as_json(),
        **validity_fields(attacked),
        "asr_by_variant": {
            name: estimate.as_json() for name, estimate in asr_by_variant(attacked).items()
        },
        "asr_at": asr_at(attacked, budget),
        "asr_valid_bounds_at": asr_valid_bounds_at(attacked, budget),
        "queries": {field: ledger[field] for field in LEDGER_FIELDS},
        "queries_to_success": queries_to_success(trials),
        "diversity": diversity.as_json(),
        "diversity_unbiased": unbiased.as_json(),
        "prompt_similarity": prompt_similarity(trials).as_json(),
        **answer_fields(trials),
        **(
            {}
            if is_control(trials[0])
            else {"key_probability_change": key_probability_change(trials).as_json()}
        ),
        **attempt_fields(trials),
        **variant_fields(trials),
    }


def _total(ledgers: Iterable[Ledger]) -> Ledger:
    """Add ledgers field by field."""
    total = dict(_NO_QUERIES)
    for ledger in ledgers:
        for field in LEDGER_FIELDS:
            total[field] += ledger[field]
    return total


def _check_ledgers(rows: Mapping[RowKey, list[TrialRow]], ledgers: Mapping[RowKey, Ledger]) -> None:
    """Raise a MedstressError if a ledger does not add up to its trials."""
    for key in rows.keys() | ledgers.keys():
        if key not in ledgers:
            raise MedstressError(f"there is no ledger for the trials of {key}")
        trials, ledger = rows.get(key, []), ledgers[key]
        sums = {
            "asked": sum(row.n_asked for row in trials),
            "paid": sum(row.n_paid for row in trials),
            "cached": sum(row.n_cached for row in trials),
            "failed": sum(row.n_failed for row in trials),
        }
        wrong = {name: ledger[name] for name in sums if ledger[name] != sums[name]}
        if wrong:
            raise MedstressError(f"the ledger of {key} says {wrong}, its trials add up to {sums}")
