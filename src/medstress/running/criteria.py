"""Check `[[require]]` and `[slices]` before anything is asked, and fix them in the manifest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, TypeAlias

from medstress.analyses.names import attack_names
from medstress.core.arms import AttackRecord
from medstress.core.controls import BETWEEN
from medstress.core.errors import UsageError, did_you_mean
from medstress.core.hashing import canonical_json, content_hash
from medstress.experiment.file.config import RequireTable
from medstress.experiment.file.criteria_tables import OF_CONTROLS, PLACES
from medstress.experiment.file.labels import victim_labels
from medstress.experiment.plan.parts import AttackPart
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.plan.slices import check_slices, describe_slices
from medstress.running.baselines import describe_baseline
from medstress.running.criterion_metrics import check_metric
from medstress.store.run_store import RunStore

Row: TypeAlias = tuple[str, str, str, str]
"""Data set, group, victim, attack."""
KEY = "require"
"""Manifest entry of the criteria, with their hash."""


def checked(prepared: Prepared) -> Prepared:
    """Check the tables of decisions against what was prepared, and return it.

    Raises:
        UsageError: a criterion is about nothing that the run will have, or a slice does not exist;
            one sentence.
    """
    check_slices(prepared)
    criteria = _with_labels(prepared)
    if criteria != prepared.experiment.require:
        experiment = prepared.experiment.model_copy(update={"require": criteria})
        prepared = replace(prepared, experiment=experiment)
    for number, criterion in enumerate(criteria, 1):
        _check(prepared, criterion, f"[[require]] {number} ({criterion.metric})")
    return prepared


def _with_labels(prepared: Prepared) -> tuple[RequireTable, ...]:
    """Return the criteria with the attack's label where `where` has what tables call it.

    So `near` and `near names` stand for an attack that tables call so, if they fit one alone.
    """
    specs = {part.label: part.attack.spec() for part in prepared.attacks}
    names = attack_names(
        AttackRecord(label=label, name=spec["name"], params=spec) for label, spec in specs.items()
    )
    found = []
    for criterion in prepared.experiment.require:
        wanted = criterion.where.get("attack")
        if wanted is not None and wanted not in specs:
            fitting = [label for label in specs if names[label] == wanted] or [
                label for label in specs if BETWEEN not in label and label.startswith(f"{wanted} ")
            ]
            if len(fitting) == 1:
                where = {**criterion.where, "attack": fitting[0]}
                criterion = criterion.model_copy(update={"where": where})
        found.append(criterion)
    return tuple(found)


def _check(prepared: Prepared, criterion: RequireTable, name: str) -> None:
    places = list(places_of(prepared))
    for key, label in criterion.where.items():
        labels = sorted({place[PLACES.index(key)] for place in places} - {""})
        if labels and label not in labels:
            raise UsageError(
                f"{name}: where has {key} = {label!r}, which the run does not have"
                f"{did_you_mean(label, labels)} (there are: {', '.join(labels)})"
            )
    judged = [
        place
        for place in places
        if all(place[PLACES.index(key)] in ("", label) for key, label in criterion.where.items())
    ]
    if not judged:
        raise UsageError(f"{name}: where matches no row of the run, only parts of different rows")
    if criterion.slice is not None:
        _check_slice(prepared, criterion, name)
    attacks = {part.label: part for part in prepared.attacks}
    used = [attacks[label] for label in dict.fromkeys(place[3] for place in judged)]
    check_metric(
        criterion.metric,
        prepared.kind,
        [part for part in used if "attack" in criterion.where or BETWEEN not in part.label],
        has_controls=any(controls_of(prepared, label) for label in attacks),
        name=name,
    )
    if criterion.at_budget is not None:
        _check_budget(criterion.at_budget, used, name)
    if criterion.metric in OF_CONTROLS:
        _check_control(prepared, criterion, used, name)


def _check_slice(prepared: Prepared, criterion: RequireTable, name: str) -> None:
    by = prepared.experiment.slices.by if prepared.experiment.slices else ()
    if criterion.slice is not None and criterion.slice.by not in by:
        raise UsageError(
            f"{name}: slice by {criterion.slice.by!r} needs [slices] by = "
            f"[{', '.join(map(repr, [*by, criterion.slice.by]))}]"
        )


def _check_budget(budget: int, attacks: Sequence[AttackPart], name: str) -> None:
    for part in attacks:
        most = part.traits.budget
        if most is not None and budget > most:
            raise UsageError(
                f"{name}: at_budget = {budget}, but {part.label!r} asks at most {most} queries; "
                "lower one or raise the other"
            )


def controls_of(prepared: Prepared, attack: str) -> list[str]:
    """Return the names of an attack's controls in the experiment."""
    start = f"{attack}{BETWEEN}"
    return [
        part.label.removeprefix(start)
        for part in prepared.attacks
        if part.label[: len(start)] == start
    ]


def _check_control(
    prepared: Prepared, criterion: RequireTable, attacks: Sequence[AttackPart], name: str
) -> None:
    """Refuse a criterion on a control that no attack has, or that does not say which of several."""
    for part in attacks:
        if BETWEEN in part.label:
            continue
        found = controls_of(prepared, part.label)
        wanted = criterion.control
        if wanted is None and len(found) == 1:
            continue
        if not found:
            raise UsageError(
                f"{name}: {part.label!r} has no control, so the run has no {criterion.metric}; "
                "name one in [experiment] controls, or leave this attack out by `where`"
            )
        if wanted is None:
            raise UsageError(
                f"{name}: {part.label!r} has several controls, so say which: control = one of "
                f"{', '.join(map(repr, found))}"
            )
        if wanted not in found:
            raise UsageError(
                f"{name}: {part.label!r} has no control {wanted!r}{did_you_mean(wanted, found)} "
                f"(it has: {', '.join(found)})"
            )


def places_of(prepared: Prepared) -> Iterator[Row]:
    """Yield (data set, group, victim, attack) of every row of the run.

    `train` makes its victims later: their label is empty.
    """
    experiment = prepared.experiment
    victims = [""] if experiment.train else victim_labels(experiment.victim) or [""]
    for dataset, group, victim, part in product(
        prepared.datasets, prepared.groups, victims, prepared.attacks
    ):
        if prepared.holds(dataset, group, victim, part) and prepared.items(dataset, group):
            yield dataset.label, group.label, victim, part.label


def fixed(store: RunStore, prepared: Prepared, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest entries of criteria and slices.

    Args:
        store: the folder.
        prepared: the experiment, with its victims open.
        known: the folder's manifest; empty if it is new.

    Raises:
        UsageError: criteria or seeds differ from those that the folder began with, and it has
            asked a query since.
    """
    is_asked = bool(known) and store.computed_totals()[0] > 0
    slices = describe_slices(prepared, known.get("slices"), is_asked=is_asked)
    criteria = _described(prepared)
    entries: dict[str, Any] = {}
    if slices is not None or known.get("slices"):
        entries["slices"] = slices
    before = known.get(KEY)
    if is_asked:
        _check_unchanged(store, prepared, known, criteria)
    if criteria is not None:
        n = (before or {}).get("extended", 0) + (is_asked and _adds_items(prepared, known))
        criteria |= {"extended": n} if n else {}
    if criteria is not None or before:
        entries[KEY] = criteria
    return entries


def _adds_items(prepared: Prepared, known: Mapping[str, Any]) -> bool:
    """Return whether a data set or group of the folder gets more items."""
    before = known["parts"]["items"]
    return any(
        set(hashes) - set(before[label])
        for label, hashes in prepared.selected().items()
        if label in before
    )


def _described(prepared: Prepared) -> dict[str, Any] | None:
    if not prepared.experiment.require or not prepared.portion.is_judged:
        return None
    criteria = [each.as_json() for each in prepared.experiment.require]
    # Slices of other properties would change the level of all simultaneous intervals.
    slices = prepared.experiment.slices
    by = sorted(slices.by) if slices and any("slice" in each for each in criteria) else []
    baselines = {
        each["against"]["run"]: describe_baseline(prepared.base, each["against"]["run"])
        for each in criteria
        if "against" in each
    }
    ordered = sorted(canonical_json(each) for each in criteria)
    return {
        "hash": content_hash([ordered, by, baselines]),
        "criteria": criteria,
        "baselines": baselines,
    }


def _check_unchanged(
    store: RunStore,
    prepared: Prepared,
    known: Mapping[str, Any],
    criteria: Mapping[str, Any] | None,
) -> None:
    before = known.get(KEY)
    if (before or {}).get("hash") != (criteria or {}).get("hash"):
        what = "has other criteria" if before else "began without criteria"
        raise UsageError(
            f"[[require]]: {store.folder} {what}, and criteria are pre-specified: they cannot be "
            "added, changed or removed after the first query. Choose another folder with --out, or "
            "throw the old run away with --fresh"
        )
    seeds = list(prepared.experiment.experiment.seeds)
    if before and sorted(known["seeds"]) != sorted(seeds):
        raise UsageError(
            f"[[require]]: {store.folder} has seeds {known['seeds']}, and more seeds would change "
            "items that were already looked at; extend it by items, or choose another folder with "
            "--out"
        )
