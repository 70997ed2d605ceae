"""`[[require]]`, `[slices]` and `[test]`: checked before anything is asked, then fixed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from medstress.analyses.requirements import OF_SUCCESSES, SHARES, outcomes
from medstress.analyses.run import Run
from medstress.analyses.shown import attack_names
from medstress.analyses.significance import FIXED
from medstress.analyses.slices import LENGTHS, POST_HOC, column_of, length_of, values_of_column
from medstress.core.arms import BETWEEN, AttackRecord
from medstress.core.errors import UsageError, did_you_mean, setting
from medstress.core.hashing import canonical_json, content_hash
from medstress.core.items import Question
from medstress.experiment import config
from medstress.experiment import manifest as manifests
from medstress.experiment.arms import AttackPart
from medstress.experiment.data import DatasetPart
from medstress.experiment.plan import Prepared
from medstress.store.database import FILE
from medstress.tasks.kinds import Kind

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


def _with_labels(prepared: Prepared) -> tuple[config.Require, ...]:
    """Return the criteria with the attack's label where `where` has what tables call it.

    So `near` and `near names` stand for an attack that tables call so, if they fit one alone.
    """
    specs = {part.label: part.attack.spec() for part in prepared.attacks}
    names = attack_names(
        AttackRecord(label=label, name=spec["name"], params=spec) for label, spec in specs.items()
    )
    labelled = []
    for criterion in prepared.experiment.require:
        wanted = criterion.where.get("attack")
        if wanted is not None and wanted not in specs:
            fitting = [label for label in specs if names[label] == wanted] or [
                label for label in specs if BETWEEN not in label and label.startswith(f"{wanted} ")
            ]
            if len(fitting) == 1:
                where = {**criterion.where, "attack": fitting[0]}
                criterion = criterion.model_copy(update={"where": where})
        labelled.append(criterion)
    return tuple(labelled)


def _check(prepared: Prepared, criterion: config.Require, name: str) -> None:
    """Refuse a criterion on rows, slices, metrics, budgets or controls that the run will not have.

    Raises:
        UsageError: it is one; the message begins with `name`.
    """
    rows = list(places_of(prepared))
    for place, key in enumerate(config.PLACES):
        labels = sorted({row[place] for row in rows} - {""})
        wanted = criterion.where.get(key)
        if wanted is not None and labels and wanted not in labels:
            raise UsageError(
                f"{name}: where: there is no {key} {wanted!r}{did_you_mean(wanted, labels)} "
                f"(there are: {', '.join(labels)})"
            )
        rows = [row for row in rows if wanted is None or row[place] in ("", wanted)]
    by = prepared.experiment.slices.by if prepared.experiment.slices else ()
    if criterion.slice is not None and criterion.slice.by not in by:
        needed = ", ".join(map(repr, [*by, criterion.slice.by]))
        raise UsageError(f"{name}: its slice needs [slices] by = [{needed}]")
    judged = {row[3] for row in rows}
    for part in prepared.attacks:
        if part.label not in judged:
            continue
        budget, most = criterion.at_budget, part.attack.budget
        if budget is not None and most is not None and budget > most:
            raise UsageError(
                f"{name}: at_budget = {budget}, but {part.label!r} asks at most {most} queries"
            )
        if BETWEEN in part.label and "attack" not in criterion.where:
            continue  # control arms are judged where they are named
        if criterion.metric not in config.OF_CONTROLS:
            has = (*metrics_of(prepared.kind, part), *config.OF_CONTROLS)
            if criterion.metric not in has:
                raise UsageError(
                    f"{name}: {part.label!r} on {prepared.kind.name} has no metric "
                    f"{criterion.metric!r}{did_you_mean(criterion.metric, has)} (there are: "
                    f"{', '.join(has)})"
                )
        elif BETWEEN not in part.label:
            start = f"{part.label}{BETWEEN}"
            every = [one.label for one in prepared.attacks]
            own = [label.removeprefix(start) for label in every if label.startswith(start)]
            if criterion.control not in own and (criterion.control or len(own) != 1):
                raise UsageError(
                    f"{name}: {part.label!r} has {', '.join(own) or 'no control'}: give control = "
                    "one of its controls, or leave this attack out by `where`"
                )


def places_of(prepared: Prepared) -> Iterator[Row]:
    """Yield (data set, group, victim, attack) of every row of the run.

    `train` makes its victims later: their label is empty.
    """
    experiment = prepared.experiment
    victims = [""] if experiment.train else config.labels_of(experiment.victim) or [""]
    for dataset, group, victim, part in product(
        prepared.datasets, prepared.groups, victims, prepared.attacks
    ):
        if prepared.holds(dataset, group, victim, part) and prepared.items(dataset, group):
            yield dataset.label, group.label, victim, part.label


def entries(prepared: Prepared, stored: Mapping[str, Any], *, has_answers: bool) -> dict[str, Any]:
    """Return the manifest entries of criteria, slices and the family of tests.

    Args:
        prepared: the experiment, with its victims open.
        stored: the folder's manifest; empty if it is new.
        has_answers: whether the folder holds answers: then the family is fixed, and slices that
            come now are called post hoc.
    """
    slices = describe_slices(prepared, stored.get("slices"), is_asked=has_answers)
    criteria, before = _described(prepared, stored), stored.get(KEY)
    own = fixed_family(prepared.experiment.test, stored, has_answers=has_answers)
    if slices is not None or stored.get("slices"):
        own["slices"] = slices
    if criteria is not None and has_answers:
        parts = stored["parts"]
        labels = {
            "attacks": [one.label for one in prepared.attacks],
            "victims": [one.label for one in prepared.victims],
        }
        items = parts["items"]
        adds = any(set(new) - set(items.get(k, new)) for k, new in prepared.selected().items())
        adds |= any(set(own) - set(parts[kind]) for kind, own in labels.items())
        n = (before or {}).get("extended", 0) + adds
        criteria |= {"extended": n} if n else {}
    if criteria is not None or before:
        own[KEY] = criteria
    return own


def _described(prepared: Prepared, stored: Mapping[str, Any]) -> dict[str, Any] | None:
    if not prepared.experiment.require or not prepared.portion.is_judged:
        return None
    criteria = [one.as_json() for one in prepared.experiment.require]
    # Slices of other properties would change the level of all simultaneous intervals.
    slices = prepared.experiment.slices
    by = sorted(slices.by) if slices and any("slice" in one for one in criteria) else []
    # A finished run is not asked again because its baseline has moved or grown.
    kept = (stored.get(KEY) or {}).get("baselines", {}) if stored.get("complete") else {}
    runs = [one["against"]["run"] for one in criteria if "against" in one]
    baselines = {run: kept.get(run) or describe_baseline(prepared.base, run) for run in runs}
    ordered = sorted(canonical_json(one) for one in criteria)
    return {
        "hash": content_hash([ordered, by, baselines]),
        "criteria": criteria,
        "baselines": baselines,
    }


# -- which metrics rows will have ---------------------------------------------------------------


def metrics_of(kind: Kind, part: AttackPart) -> tuple[str, ...]:
    """Return the metrics of an attack on items of a kind, without those of controls.

    Items without right answers have successes where a change of the score is one (`max_change`);
    a search for a success leaves no perturbed data set to score.
    """
    is_change = part.attack.spec().get("max_change") is not None
    has_copy = part.attack.is_copy or not (kind.is_judged or is_change)
    scores = () if kind.scores is None else kind.scores.columns(has_copy=has_copy)
    if kind.is_judged:
        return (*scores, *SHARES, *OF_SUCCESSES)
    return (*scores, "asr") if is_change else scores


# -- the baseline runs that criteria compare with ------------------------------------------------


def baseline_of(base: Path, run: str) -> Run:
    """Read a baseline run.

    Raises:
        UsageError: there is no run in the folder, or it is not complete.
    """
    folder = base / Path(run).expanduser()  # relative to the experiment file
    if not (folder / FILE).is_file():
        raise UsageError(f"[[require]] against: expected a run folder, but {folder} holds no run")
    baseline = Run.open(folder)
    if not baseline.is_complete:
        raise UsageError(f"[[require]] against: the run in {folder} is not complete")
    return baseline


def describe_baseline(base: Path, run: str) -> dict[str, str]:
    """Return what identifies a baseline run and its outcomes, for the manifest."""
    baseline = baseline_of(base, run)
    return {
        "fingerprint": baseline.manifest["fingerprint"],
        "outcomes": outcomes(baseline.trials),
    }


def check_baselines(prepared: Prepared) -> None:
    """Check that every criterion against a baseline has something to compare, one thing changed.

    Raises:
        UsageError: a baseline is missing, lacks a victim, attack or item, or differs in more than
            one of victim, attack and entity group.
    """
    if not prepared.portion.is_judged:
        return
    for criterion in prepared.experiment.require:
        if criterion.against is None:
            continue
        baseline = baseline_of(prepared.base, criterion.against.run)
        parts = baseline.manifest["parts"]
        ours = manifests.fingerprint_parts(prepared)
        where = f"[[require]] against {criterion.against.run!r}"
        for victim in prepared.victims:
            if criterion.where.get("victim", victim.label) == victim.label:
                _check_factors(where, victim.label, ours, parts, criterion.where)
        here = {
            (part.label, item.id, item.hash)
            for part in prepared.datasets
            for item in part.questions
        }
        there = {(t.arm.place.dataset, t.item.id, t.item.hash) for t in baseline.trials}
        if not here & there:
            raise UsageError(f"{where}: the two runs have no item in common")


def _check_factors(
    where: str,
    victim: str,
    ours: Mapping[str, Any],
    baseline: Mapping[str, Any],
    asked: Mapping[Any, str],
) -> None:
    """Check that at most one of victim, attack and entity group differs from the baseline's."""
    # Its namesake, else the only one.
    others = list(baseline["victims"])
    if victim not in others and len(others) != 1:
        raise UsageError(f"{where}: it has no model {victim!r}, and several others")
    other = victim if victim in others else others[0]
    changed: dict[str, str] = {}
    if ours["victims"][victim] != baseline["victims"][other]:
        changed["victim"] = victim
    for kind, noun in (("attacks", "attack"), ("groups", "entity group")):
        wanted = asked.get(kind[:-1])
        for label, value in ours[kind].items():
            # Criteria judge control arms only where `where` names them.
            is_control = kind == "attacks" and label.rpartition(BETWEEN)[0] in ours[kind]
            if label != wanted if wanted is not None else is_control:
                continue
            if label not in baseline[kind]:
                raise UsageError(
                    f"{where}: it has no {noun} {label!r}; leave it out by `where`, or label both "
                    "alike"
                )
            if baseline[kind][label] != value:
                changed.setdefault(noun, label)
    if len(changed) > 1:
        named = " and ".join(f"the {noun} {label!r}" for noun, label in changed.items())
        raise UsageError(f"{where}: {named} differ from the baseline's; change only one")


SPECIFIED = "pre-specified"
"""Label of slices that were fixed before the first query; others are `POST_HOC`."""
_MOST_VALUES = 200


def check_slices(prepared: Prepared) -> None:
    """Check that the properties of `[slices]` exist.

    Raises:
        UsageError: a property is neither computed nor a metadata column, or has too many values;
            the message names it.
    """
    table = prepared.experiment.slices
    if table is None:
        return
    items = [item for part in prepared.datasets for item in part.questions]
    if not prepared.kind.is_judged or prepared.kind.has_parts:
        raise UsageError(f"[slices]: the table is not for {prepared.kind.name}; leave it out")
    are_questions = prepared.kind.draws_names
    columns = sorted({str(name) for item in items for name in item.metadata})
    for by in table.by:
        if by in config.COMPUTED:
            if by != "key" and not are_questions:
                raise UsageError(f"[slices] by: {by!r} is for questions, not {prepared.kind.name}")
            continue
        if not any(column_of(item, by) for item in items):
            names = [*config.COMPUTED, *columns]
            raise UsageError(
                f"[slices] by: no item has {by!r}{did_you_mean(by, names)} (there are: "
                f"{', '.join(names)})"
            )
        n = len({value for item in items for value in values_of_column(item, by)})
        if n > _MOST_VALUES:
            raise UsageError(f"[slices] by: {by!r} has {n:,} values, more than {_MOST_VALUES}")


def describe_slices(
    prepared: Prepared, known: Mapping[str, Any] | None, *, is_asked: bool
) -> dict[str, Any] | None:
    """Return the manifest entry `slices`; None without the table.

    Args:
        prepared: the experiment.
        known: the folder's entry, whose cut points are kept.
        is_asked: whether the folder's run has asked a query.

    Returns:
        `by`, `label`, `cuts` of lengths by data set, and `types` by group.
    """
    table = prepared.experiment.slices
    if table is None:
        return None
    label = SPECIFIED
    if is_asked:
        is_kept = known is not None and known["by"] == list(table.by)
        label = known["label"] if known is not None and is_kept else POST_HOC
    kept = (known or {}).get("cuts", {})
    cuts: dict[str, dict[str, list[int]]] = {}
    for part, by in product(prepared.datasets, LENGTHS):
        questions = [item for item in part.questions if item.kind == Question.kind]
        of_part = cuts.setdefault(part.label, {})
        if by in table.by and questions:
            of_part[by] = thirds([length_of(item, by) for item in questions])
        of_part |= kept.get(part.label, {})
    types = {
        group.label: sorted(group.resources.types)
        for group in prepared.groups
        if group.table is not None
    }
    return {"by": list(table.by), "label": label, "cuts": cuts, "types": types}


def thirds(lengths: Sequence[int]) -> list[int]:
    """Return the lengths up to which the first and the second third go, in characters.

    They are lengths of items, and at most the second longest, so that no slice is empty: fewer than
    two where lengths tie, and none where all are equal.

    >>> thirds([5, 6, 7, 8, 9, 10]), thirds([92, 92, 113, 113]), thirds([1, 3, 3, 3]), thirds([4])
    ([6, 8], [92], [1], [])
    """
    shorter = [length for length in lengths if length < max(lengths)]
    if not shorter:
        return []
    cuts = np.quantile(lengths, [1 / 3, 2 / 3], method="inverted_cdf")
    return sorted({min(int(cut), max(shorter)) for cut in cuts})


# -- the family of tests ---------------------------------------------------------------------------


def fixed_family(
    table: config.Significance | None, stored: Mapping[str, Any], *, has_answers: bool
) -> dict[str, Any]:
    """Return the manifest entry of a family that `[test]` names; empty if it names no items.

    Args:
        table: `[test]`.
        stored: the folder's manifest; empty if it is new.
        has_answers: whether the folder holds answers: then the family is fixed.

    Raises:
        UsageError: the run began with another family.
    """
    if table is None:
        return {}
    items, before = sorted(table.items), stored.get(FIXED, {}).get("items", [])
    if has_answers and items != before:
        named = ", ".join(before[:8]) or "none"
        raise UsageError(
            f"[test] items: they are named before the first query, and this run began with {named}:"
            f" give the same, or begin another run with {setting('out')}"
        )
    return {FIXED: {"items": items, "hash": content_hash(items)}} if items else {}


def check_tests(experiment: config.Experiment, attacks: Sequence[AttackPart]) -> None:
    """Raise a UsageError if the `[test]` table cannot be followed.

    Args:
        experiment: experiment with the table.
        attacks: attacks of the experiment.

    Raises:
        UsageError: no attack can be tested, all controls would be equal, or the null needs items.
    """
    table = experiment.test
    if table is None:
        return
    from medstress.attacks.medfuzz.attack import MedFuzz

    attacker = experiment.role.attacker if experiment.role is not None else None
    if not any(isinstance(part.attack, MedFuzz) for part in attacks):
        wrong = "its tests are of successes of medfuzz, and there is no such attack"
    elif table.null == "neutral" and not table.items:
        wrong = "null = 'neutral' needs items = [...], named before the first query"
    elif table.null == "matched" and "controls" in table.model_fields_set:
        wrong = "controls is for null = 'neutral'; 'matched' goes on until max_calls is spent"
    elif table.generator == "attacker" and attacker is not None and attacker.temperature == 0:
        wrong = "controls that the attacker writes must differ: give [role.attacker] a temperature"
    else:
        return
    raise UsageError(f"[test]: {wrong}")


def check_items(experiment: config.Experiment, datasets: Sequence[DatasetPart]) -> None:
    """Check that the items of `[test] items` exist.

    Raises:
        UsageError: an item is unknown; the message names the first.
    """
    ids = {item.id for part in datasets for item in part.questions}
    table = experiment.test
    for name in table.items if table is not None else ():
        if name not in ids:
            raise UsageError(f"[test] items: no data set has an item {name!r}; give item ids")
