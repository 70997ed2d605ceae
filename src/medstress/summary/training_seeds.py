"""Scores of several victims as one: models of one kind with different training seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from medstress.metrics.old_stats.estimates import unknown
from medstress.metrics.sentences.correlations import COEFFICIENTS, coefficient
from medstress.metrics.sentences.entity_scores import (
    MATCHES,
    MEASURES,
    Reading,
    Sums,
    measured,
    sums_of,
    types_in,
)
from medstress.metrics.sentences.training_seeds import (
    Measured,
    estimated,
    method_of,
    minus,
    over_seeds,
)
from medstress.summary.dataset_scores import Json, Place, ScoredArm
from medstress.summary.sentences import control_of


def together(arms: Mapping[Place, ScoredArm], place: Place, victims: Sequence[str]) -> Json:
    """Return the fields of `add_scores` as means over victims; seeds are resampled with items.

    Args:
        arms: arms by place.
        place: the attack's place; its victim is ignored.
        victims: victims that have an arm there.
    """
    dataset, group, _, attack = place
    members = [arms[dataset, group, victim, attack] for victim in victims]
    if not isinstance(next(iter(members[0].before.values())), Reading):
        return _pairs(members)
    controls = [control_of(arms, (dataset, group, victim, attack)) for victim in victims]
    return _entities(members, [arm for arm in controls if arm is not None])


def f1_of(readings: Sequence[Iterable[Reading]], clusters: Sequence[str]) -> Measured:
    """Return the mean strict F1 over lists of readings, one list for each training."""
    return _mean([sums_of(each, clusters) for each in readings], "f1")


def coefficient_of(arms: Sequence[ScoredArm], answers: str, name: str = "pearson") -> Measured:
    """Return the mean correlation over arms and their seeds, on pairs that every arm has answered.

    Args:
        arms: arms of pairs, one for each training.
        answers: `before` or `after`.
        name: name of the coefficient.
    """
    names, seeds = _shared(arms)
    pairs = [arms[0].before[seeds[0], each] for each in names]
    gold, clusters = np.array([pair.gold for pair in pairs]), [pair.cluster for pair in pairs]
    found = []
    for arm in arms:
        given = getattr(arm, answers)
        scores = np.array([[given[seed, each].score for each in names] for seed in seeds])
        value, drawn = coefficient(gold, scores, name, clusters)
        found.append(Measured(value=value, drawn=drawn))
    return over_seeds(found)


def _shared(arms: Sequence[ScoredArm]) -> tuple[list[str], list[int | None]]:
    """Return the pairs that all arms and seeds have answered, and the seeds of the attack."""
    answered = set.intersection(*(set(arm.after) for arm in arms))
    seeds = sorted({seed for seed, _ in answered}, key=lambda seed: (seed is not None, seed))
    names = sorted({name for _, name in answered})
    return [name for name in names if all((seed, name) in answered for seed in seeds)], seeds


def _pairs(members: Sequence[ScoredArm]) -> Json:
    names, seeds = _shared(members)
    n = len(names)
    n_clusters = len({members[0].before[seeds[0], name].cluster for name in names})
    method = method_of(f"{n_clusters} clusters of {n} pairs", len(members))
    row: Json = {}
    for name in COEFFICIENTS:
        before, after = (coefficient_of(members, side, name) for side in ("before", "after"))
        row[name] = estimated(before, n, method, (-1.0, 1.0)).as_json()
        row[f"{name}_after"] = estimated(after, n, method, (-1.0, 1.0)).as_json()
        row[f"{name}_drop"] = estimated(minus(before, after), n, method).as_json()
    return row


def _entities(members: Sequence[ScoredArm], controls: Sequence[ScoredArm]) -> Json:
    keys = [[key for key in arm.before if key in arm.after] for arm in members]
    before = [[arm.before[k] for k in own] for arm, own in zip(members, keys, strict=True)]
    after = [[arm.after[k] for k in own] for arm, own in zip(members, keys, strict=True)]
    everything = [reading for readings in before for reading in readings]
    clusters = sorted({reading.cluster for reading in everything})
    row: Json = {}
    for match in MATCHES:
        row |= _measures(before, after, clusters, match)
    row["f1_net_drop"] = _net_drop(members, controls).as_json()
    row["by_type"] = {
        type_: {
            key: value
            for match in MATCHES
            for key, value in _measures(before, after, clusters, match, type_).items()
        }
        for type_ in types_in(everything)
    }
    return row


def _measures(
    before: Sequence[Sequence[Reading]],
    after: Sequence[Sequence[Reading]],
    clusters: Sequence[str],
    match: str,
    type_: str | None = None,
) -> Json:
    """Return every measure before and after the attack, and its drop."""
    ending = MATCHES[match]
    first, second = (
        [sums_of(readings, clusters, match, type_) for readings in side] for side in (before, after)
    )
    method = method_of(f"{len(clusters)} clusters", len(before))
    row: Json = {}
    for name in MEASURES:
        clean, attacked = _mean(first, name), _mean(second, name)
        for suffix, score, sums in (
            ("", clean, first),
            ("_after", attacked, second),
            ("_drop", minus(clean, attacked), second),
        ):
            n = _COUNTED[name](np.sum(sums, axis=(0, 1)))
            estimate = estimated(score, n, method, (-1.0 if suffix == "_drop" else 0.0, 1.0))
            row[f"{name}{ending}{suffix}"] = estimate.as_json()
    return row


_COUNTED: dict[str, Callable[[Any], int]] = {
    "precision": lambda total: int(total[1]),
    "recall": lambda total: int(total[2]),
    "f1": lambda total: int(total[1] + total[2]),
}
"""Denominator of each measure, from (matches, found, gold)."""


def _net_drop(members: Sequence[ScoredArm], controls: Sequence[ScoredArm]) -> Any:
    """Return F1 under the control minus F1 under the attack, on the sentences of both."""
    if len(controls) < len(members):
        return unknown("there is no control with this noise in the run")
    ours, theirs = [], []
    for arm, control in zip(members, controls, strict=True):
        shared = [
            (own, key) for key in control.after for own in (key, (None, key[1])) if own in arm.after
        ]
        ours.append([arm.after[own] for own, _ in shared])
        theirs.append([control.after[key] for _, key in shared])
    clusters = sorted({reading.cluster for readings in ours for reading in readings})
    if not clusters:
        return unknown("the control has no sentence and seed in common")
    method = method_of(f"{len(clusters)} clusters, paired", len(members))
    gap = minus(f1_of(theirs, clusters), f1_of(ours, clusters))
    return estimated(gap, len(clusters), method)


def _mean(sums: Sequence[Sums], name: str) -> Measured:
    found = [measured(each, name) for each in sums]
    return over_seeds([Measured(value=value, drawn=drawn) for value, drawn in found])
