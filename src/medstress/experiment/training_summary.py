"""What a trained run says of its models: before and after, attack by attack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from medstress.experiment.sentence_summary import Arm, Json, Place, arms_of, together
from medstress.experiment.training_table import ORIGINAL
from medstress.metrics.correlations import coefficient
from medstress.metrics.counts import cluster_of, is_answered, is_eligible, is_flipped
from medstress.metrics.entity_scores import Reading, measured, sums_of
from medstress.metrics.recovery import Four, Measured, recovery
from medstress.rows import TrialRow
from medstress.store.reader import RunReader


def describe_training(reader: RunReader, trials: Sequence[TrialRow]) -> Json | None:
    """The summary's `training` (docs: training); None for a run that trained nothing.

    Models trained on perturbed copies are compared with the original ones of the same seeds, on
    the items that all of them have answered, clean and perturbed. Entities and questions are
    counted over all seeds together; of pairs the coefficients of the seeds are averaged. `scores`
    has every kind of model alone, so also where none was trained on perturbed copies; of sentences
    with all the scores that the rows of single models have.
    """
    notes: Json | None = reader.manifest.get("training")
    if notes is None:
        return None
    arms, _ = arms_of(reader)
    victims = {(m["model"], m["seed"]): m["victim"] for m in notes["models"]}
    seeds = list(dict.fromkeys(m["seed"] for m in notes["models"]))
    rows: list[Json] = []
    for model in notes["adversarial"]:
        pairs = [
            (victims[ORIGINAL, seed], victims[model["name"], seed])
            for seed in seeds
            if (ORIGINAL, seed) in victims and (model["name"], seed) in victims
        ]
        places = dict.fromkeys((row.dataset, row.group, row.attack) for row in trials)
        for dataset, group, attack in places:
            found = _compared(arms, trials, (dataset, group, attack), pairs)
            if found is not None:
                name = {"dataset": dataset, "group": group, "attack": attack}
                on = attack in model["attacks"]
                rows.append({**name, "model": model["name"], "trained_on": on, **found})
    return {**notes, "rows": rows, "scores": list(_scores(arms, trials, notes))}


def _scores(arms: Mapping[Place, Arm], trials: Sequence[TrialRow], notes: Json) -> Iterator[Json]:
    """Every kind of model over all its training seeds, clean and attacked."""
    for kind in dict.fromkeys(model["model"] for model in notes["models"]):
        victims = dict.fromkeys(m["victim"] for m in notes["models"] if m["model"] == kind)
        places = dict.fromkeys((row.dataset, row.group, row.attack) for row in trials)
        for dataset, group, attack in places:
            # Compared with themselves: the scores of one side are those of the other.
            both = [(victim, victim) for victim in victims]
            found = _compared(arms, trials, (dataset, group, attack), both)
            if found is not None:
                yield {
                    "dataset": dataset,
                    "group": group,
                    "attack": attack,
                    "model": kind,
                    "n_seeds": len(victims),
                    **{name: found[name] for name in ("measure", "clean", "attacked")},
                    **(together(arms, (dataset, group, "", attack), list(victims)) if arms else {}),
                }


def _compared(
    arms: Mapping[Place, Arm],
    trials: Sequence[TrialRow],
    place: tuple[str, str, str],
    pairs: Sequence[tuple[str, str]],
) -> Json | None:
    """Two lists of models on one attack; None before both have answered."""
    if not pairs:
        return None
    if not arms:
        return _questions(trials, place, pairs)
    dataset, group, attack = place
    keys = [((dataset, group, a, attack), (dataset, group, b, attack)) for a, b in pairs]
    if any(key not in arms for both in keys for key in both):
        return None
    found = [(arms[a], arms[b]) for a, b in keys]
    shared = set.intersection(*(set(arm.after) for both in found for arm in both))
    if not shared:
        return None  # a search has no perturbed copy of the data
    order = sorted(shared, key=lambda key: (key[0] is not None, key[0] or 0, key[1]))
    first = [[both[k] for both in found] for k in (0, 1)]
    if isinstance(next(iter(found[0][0].after.values())), Reading):
        return _entities(first[0], first[1], order)
    return _correlated(first[0], first[1], order)


def _entities(original: list[Arm], trained: list[Arm], keys: Sequence[Any]) -> Json:
    clusters = sorted({original[0].before[key].cluster for key in keys})

    def f1(readings: Iterable[Reading]) -> Measured:
        value, drawn = measured(sums_of(readings, clusters))
        return Measured(value=value, drawn=drawn)

    four = Four(
        clean=f1(arm.before[key] for arm in original for key in keys),
        attacked=f1(arm.after[key] for arm in original for key in keys),
        trained_clean=f1(arm.before[key] for arm in trained for key in keys),
        trained_attacked=f1(arm.after[key] for arm in trained for key in keys),
    )
    return {"measure": "f1", **recovery(four, len(clusters))}


def _correlated(original: list[Arm], trained: list[Arm], keys: Sequence[Any]) -> Json:
    seeds = list(dict.fromkeys(seed for seed, _ in keys))
    known = set(keys)
    names = [name for seed, name in keys if seed == seeds[0]]
    names = [name for name in names if all((seed, name) in known for seed in seeds)]
    known_pairs = [original[0].before[seeds[0], name] for name in names]
    gold = np.array([pair.gold for pair in known_pairs])
    clusters = [pair.cluster for pair in known_pairs]

    def pearson(answers: Sequence[Mapping[Any, Any]]) -> Measured:
        scores = [[one[seed, name].score for name in names] for one in answers for seed in seeds]
        value, drawn = coefficient(gold, np.array(scores), "pearson", clusters)
        return Measured(value=value, drawn=drawn)

    four = Four(
        clean=pearson([arm.before for arm in original]),
        attacked=pearson([arm.after for arm in original]),
        trained_clean=pearson([arm.before for arm in trained]),
        trained_attacked=pearson([arm.after for arm in trained]),
    )
    return {"measure": "pearson", **recovery(four, len(set(clusters)))}


def _questions(
    trials: Sequence[TrialRow], place: tuple[str, str, str], pairs: Sequence[tuple[str, str]]
) -> Json | None:
    """Accuracy on questions, by cluster."""
    held = [row for row in trials if (row.dataset, row.group, row.attack) == place]
    by_victim = {
        victim: [row for row in held if row.victim == victim and is_answered(row)]
        for pair in pairs
        for victim in pair
    }
    if not all(by_victim.values()):
        return None
    asked = set.intersection(*({_asked(r) for r in rows} for rows in by_victim.values()))
    if not asked:
        return None
    clusters = sorted(
        {cluster_of(r) for rows in by_victim.values() for r in rows if _asked(r) in asked}
    )

    def accuracy(victims: Iterator[str], *, after: bool) -> Measured:
        rows = (row for v in victims for row in by_victim[v] if _asked(row) in asked)
        value, drawn = measured(_right(rows, clusters, after=after), "precision")
        return Measured(value=value, drawn=drawn)

    four = Four(
        clean=accuracy((a for a, _ in pairs), after=False),
        attacked=accuracy((a for a, _ in pairs), after=True),
        trained_clean=accuracy((b for _, b in pairs), after=False),
        trained_attacked=accuracy((b for _, b in pairs), after=True),
    )
    return {"measure": "accuracy", **recovery(four, len(clusters))}


def _asked(row: TrialRow) -> tuple[str, int | None, int]:
    return row.item_id, row.seed, row.repeat


def _right(rows: Iterable[TrialRow], clusters: Sequence[str], *, after: bool) -> Any:
    """(right, asked, asked) of each cluster, as entities have (matches, found, gold)."""
    places = {cluster: i for i, cluster in enumerate(clusters)}
    sums = np.zeros((len(clusters), 3))
    for row in rows:
        right = is_eligible(row) and not (after and is_flipped(row))
        sums[places[cluster_of(row)]] += (right, 1, 1)
    return sums
