"""Counts of a run against its plan, and identities that its ledger keeps."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any, TypeAlias

from medstress.audit.attacks import NotJudgedError, attack_of
from medstress.core.hashing import content_hash
from medstress.core.text import WHOLE
from medstress.entities.no_names import LABEL as NO_NAMES
from medstress.store.chain import Break
from medstress.store.load import StoredRun, kind_of_run
from medstress.store.reader import StoredTrial

_BASELINE = ("n_already_wrong", "n_unreadable_at_baseline")
_LOST = ("n_not_attackable", "n_failed_at_baseline")
Arm: TypeAlias = tuple[str, str, str, str, int | None, int]
"""(data set, group, victim, attack, seed, repeat)."""
_ELIGIBLE = ("n_flipped", "n_held", "n_measured", "n_cut_short", "n_failed")


def plan_breaks(manifest: Mapping[str, Any]) -> Iterator[Break]:
    """Yield where a manifest does not agree with its own fingerprints."""
    parts = manifest["parts"]
    if (found := content_hash(parts)) != manifest["fingerprint"]:
        yield _of_manifest(f"fingerprint {found}", manifest["fingerprint"])
    for label, spec in manifest["attacks"].items():
        if (found := content_hash(spec)) != parts["attacks"].get(label):
            yield _of_manifest(f"attack {label!r} {found}", parts["attacks"].get(label))
    for label, victim in manifest["victims"].items():
        own = content_hash({"task": victim["task"], "model": victim["model_hash"]})
        if own != parts["victims"].get(label):
            yield _of_manifest(f"victim {label!r} {own}", parts["victims"].get(label))


def trial_break(run: StoredRun, trial: StoredTrial) -> tuple[str, str] | None:
    """Return what a trial should be by the plan, and what it is, if they differ."""
    manifest = run.manifest
    dataset, item = run.items()[trial.item]
    parts = manifest["parts"]
    if dataset != trial.dataset:
        return f"an item of {trial.dataset!r}", f"one of {dataset!r}"
    known = parts["items"].get(f"{trial.dataset}/{trial.group}")
    own = content_hash([item.id, item.hash])
    if known is None or own not in _as_set(run, f"{trial.dataset}/{trial.group}", known):
        return "an item of the plan", f"{item.id!r} with hash {item.hash}"
    spec, planned = json.loads(trial.spec), manifest["attacks"].get(trial.attack)
    if planned is None or {**spec, **planned} != spec:
        return f"attack {json.dumps(planned)}", json.dumps(spec)
    if trial.seed is not None and trial.seed not in manifest["seeds"]:
        return f"a seed of {manifest['seeds']}", str(trial.seed)
    unit = item.of_unit(trial.result.get("unit", WHOLE)).unit
    if unit not in (known_units := [each.unit for each in item.units()]):
        return f"a unit of its item: {', '.join(known_units)}", unit
    if trial.trial_id not in _ids(manifest, trial, item, unit):
        return "the hash of data set, group, item, victim, attack, seed", trial.trial_id
    asked = trial.result.get("n_asked", 0)
    if asked != trial.n_paid + trial.n_cached + trial.n_failed:
        told = f"paid {trial.n_paid}, cached {trial.n_cached}, failed {trial.n_failed}"
        return f"n_asked {trial.n_paid + trial.n_cached + trial.n_failed} ({told})", str(asked)
    return None


def arm_of(trial: StoredTrial) -> Arm:
    """Return the arm of a trial."""
    place = (trial.dataset, trial.group, trial.victim, trial.attack)
    return (*place, trial.seed, trial.repeat)


def count_break(run: StoredRun, n_ended: Mapping[Arm, int]) -> Break | None:
    """Return where a complete run has other trials than planned.

    The number that the manifest names is not believed: it is compared with the plan, arm by arm.

    Args:
        run: the run.
        n_ended: arm -> its trials with a verdict.
    """
    manifest = run.manifest
    if not manifest.get("complete"):
        return None
    n, planned = sum(n_ended.values()), manifest["n_planned"]
    # A tuning run keeps the trials of candidates that are no longer in its experiment.
    has_former = len(manifest["victims"]) > len(manifest["config"]["victim"])
    if n != planned and not (has_former and n > planned):
        return Break(
            table="trials", row=n, expected=f"{planned} trials with a verdict", found=str(n)
        )
    if has_former:
        return None
    for arm, size in _planned(run, n_ended):
        if (found := n_ended.get(arm, 0)) != size:
            where = f"{', '.join(map(str, arm[:4]))}, seed {arm[4]}, repeat {arm[5]}"
            expected = f"{size} trials of {where}"
            return Break(table="trials", row=n, expected=expected, found=str(found))
    return None


def _planned(run: StoredRun, known: Mapping[Arm, int]) -> Iterator[tuple[Arm, int]]:
    """Yield every arm of the plan with the number of its units, as far as the folder says it.

    What only the experiment's code says is taken as it is: which arms a part of a tuning run
    holds, which victim of several folds is asked about which item, the seeds of attacked sets.
    """
    manifest, n_units = run.manifest, Counter[str]()
    sizes = {
        (dataset, content_hash([item.id, item.hash])): len(item.units())
        for dataset, item in run.items().values()
    }
    for label, hashes in manifest["parts"]["items"].items():
        n_units[label] = sum(sizes.get((label.rpartition("/")[0], each), 1) for each in hashes)
    begun = {arm[:4] for arm in known}
    draws_names = kind_of_run(run).draws_names
    whole = [label for label, part in manifest["victims"].items() if "part_of" not in part]
    for victim, (attack, spec) in product(whole, manifest["attacks"].items()):
        try:
            traits = attack_of(spec).traits
        except NotJudgedError:
            continue
        seeds = [None] if traits.deterministic else manifest["seeds"]
        for label, n in n_units.items():
            dataset, _, group = label.rpartition("/")
            place = (dataset, group, victim, attack)
            is_held = not draws_names or traits.needs_entities == (group != NO_NAMES)
            if (
                "set" in spec.get("control_of", spec)
                or not is_held
                or ("tuning" in manifest and place not in begun)
            ):
                continue
            for seed, repeat in product(seeds, range(traits.repeats)):
                yield (*place, seed, repeat), n


def identity_breaks(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the identities that a row of a summary breaks."""
    for row in rows:
        where = " ".join(
            str(row.get(key)) for key in ("dataset", "group", "victim", "attack", "seed")
        )
        eligible = row["n_eligible"]
        sums = {
            "n_trials": (row["n_trials"], eligible + _sum(row, _BASELINE) + _sum(row, _LOST)),
            "n_eligible": (eligible, _sum(row, _ELIGIBLE)),
            "queries asked": (
                row["queries"]["asked"],
                sum(row["queries"][name] for name in ("paid", "cached", "failed")),
            ),
        }
        for name, (given, total) in sums.items():
            if given != total:
                yield f"{name} of {where}: {given} is not {total}"


def _ids(manifest: Mapping[str, Any], trial: StoredTrial, item: Any, unit: str) -> Iterator[str]:
    entries = manifest["victims"].items()
    folds = [label for label, entry in entries if entry.get("part_of") == trial.victim]
    for victim in (trial.victim, *folds):
        yield content_hash(
            [
                trial.dataset,
                trial.group,
                item.id,
                item.hash,
                victim,
                trial.attack,
                trial.seed,
                trial.repeat,
                *([unit] if unit != WHOLE else []),
            ]
        )


def _as_set(run: StoredRun, label: str, known: Iterable[str]) -> frozenset[str]:
    return run.once(_item_sets).setdefault(label, frozenset(known))


def _item_sets(_: StoredRun) -> dict[str, frozenset[str]]:
    return {}


def _sum(row: Mapping[str, Any], names: Iterable[str]) -> int:
    return sum(int(row[name]) for name in names)


def _of_manifest(expected: str, found: Any) -> Break:
    return Break(table="manifest", row=0, expected=expected, found=str(found))
