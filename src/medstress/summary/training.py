"""The summary of a trained run: its models before and after training, attack by attack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from medstress.core.rows import TrialRow
from medstress.experiment.file.training_table import ORIGINAL, ORIGINAL_TWICE
from medstress.metrics.counts import cluster_of, is_answered, is_eligible, is_flipped
from medstress.metrics.sentences.entity_scores import Reading, measured
from medstress.metrics.sentences.recovery import Four, recovery
from medstress.metrics.sentences.training_seeds import Measured, over_seeds
from medstress.results.load import StoredRun
from medstress.summary.dataset_scores import Json, Place, ScoredArm
from medstress.summary.sentences import arms_of
from medstress.summary.training_seeds import coefficient_of, f1_of, together


def describe_training(run: StoredRun, trials: Sequence[TrialRow]) -> Json | None:
    """Return the summary's `training` (docs: training); None if the run trained nothing.

    Each row compares models trained on perturbed copies with the models of `against`: the
    original ones of the same seeds, or those that read the data twice. Only items that all of
    them have answered, clean and perturbed, count. Scores are means over training seeds; with
    three seeds or more, seeds are resampled together with items (`over_seeds`). `scores` has each
    kind of model alone; for sentences, with all the scores that rows of single models have.
    """
    notes: Json | None = run.manifest.get("training")
    if notes is None:
        return None
    arms = arms_of(run)
    victims = {(m["model"], m["seed"]): m["victim"] for m in notes["models"]}
    seeds = list(dict.fromkeys(m["seed"] for m in notes["models"]))
    places = dict.fromkeys((row.dataset, row.group, row.attack) for row in trials)
    rows: list[Json] = []
    for model, attacks, against in _comparisons(notes):
        pairs = [
            (victims[against, seed], victims[model, seed])
            for seed in seeds
            if (against, seed) in victims and (model, seed) in victims
        ]
        for dataset, group, attack in places:
            found = _compare(arms, trials, (dataset, group, attack), pairs)
            if found is not None:
                name = {"dataset": dataset, "group": group, "attack": attack}
                who = {"model": model, "against": against, "trained_on": attack in attacks}
                rows.append({**name, **who, **found})
    return {**notes, "rows": rows, "scores": list(_scores(arms, trials, notes))}


def _comparisons(notes: Json) -> Iterator[tuple[str, Sequence[str], str]]:
    """Yield (kind of model, attacks it was trained on, kind it is compared with)."""
    has_twice = any(model["model"] == ORIGINAL_TWICE for model in notes["models"])
    for kind in notes["adversarial"]:
        yield kind["name"], kind["attacks"], ORIGINAL
    if has_twice:
        yield ORIGINAL_TWICE, (), ORIGINAL
        for kind in notes["adversarial"]:
            yield kind["name"], kind["attacks"], ORIGINAL_TWICE


def _scores(
    arms: Mapping[Place, ScoredArm], trials: Sequence[TrialRow], notes: Json
) -> Iterator[Json]:
    """Yield the scores of each kind of model over its training seeds, clean and attacked."""
    for kind in dict.fromkeys(model["model"] for model in notes["models"]):
        victims = dict.fromkeys(m["victim"] for m in notes["models"] if m["model"] == kind)
        places = dict.fromkeys((row.dataset, row.group, row.attack) for row in trials)
        for dataset, group, attack in places:
            # Models are compared with themselves, so both sides have the same scores.
            pairs = [(victim, victim) for victim in victims]
            found = _compare(arms, trials, (dataset, group, attack), pairs)
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


def _compare(
    arms: Mapping[Place, ScoredArm],
    trials: Sequence[TrialRow],
    place: tuple[str, str, str],
    pairs: Sequence[tuple[str, str]],
) -> Json | None:
    """Compare pairs of models on one attack; None until all of them have answered."""
    if not pairs:
        return None
    if not arms:
        return _by_accuracy(trials, place, pairs)
    dataset, group, attack = place
    places = [((dataset, group, a, attack), (dataset, group, b, attack)) for a, b in pairs]
    if any(each not in arms for pair in places for each in pair):
        return None
    original, trained = [arms[a] for a, _ in places], [arms[b] for _, b in places]
    shared = set.intersection(*(set(arm.after) for arm in (*original, *trained)))
    if not shared:
        return None  # a search has no perturbed copy of the data
    keys = sorted(shared, key=lambda key: (key[0] is not None, key[0] or 0, key[1]))
    if isinstance(next(iter(original[0].after.values())), Reading):
        return _by_f1(original, trained, keys)
    return _by_correlation(original, trained, keys)


def _by_f1(original: list[ScoredArm], trained: list[ScoredArm], keys: Sequence[Any]) -> Json:
    clusters = sorted({original[0].before[key].cluster for key in keys})

    def f1(arms: Sequence[ScoredArm], answers: str) -> Measured:
        return f1_of([[getattr(arm, answers)[key] for key in keys] for arm in arms], clusters)

    four = Four(
        clean=f1(original, "before"),
        attacked=f1(original, "after"),
        trained_clean=f1(trained, "before"),
        trained_attacked=f1(trained, "after"),
    )
    return {"measure": "f1", **recovery(four, len(clusters), len(original))}


def _by_correlation(
    original: list[ScoredArm], trained: list[ScoredArm], keys: Sequence[Any]
) -> Json:
    # All models are scored on the pairs that every one of them has answered.
    original = [_only(arm, keys) for arm in original]
    trained = [_only(arm, keys) for arm in trained]
    four = Four(
        clean=coefficient_of(original, "before"),
        attacked=coefficient_of(original, "after"),
        trained_clean=coefficient_of(trained, "before"),
        trained_attacked=coefficient_of(trained, "after"),
    )
    n = len({pair.cluster for pair in original[0].before.values()})
    return {"measure": "pearson", **recovery(four, n, len(original), (-1.0, 1.0))}


def _only(arm: ScoredArm, keys: Sequence[Any]) -> ScoredArm:
    return ScoredArm(arm.spec, {k: arm.before[k] for k in keys}, {k: arm.after[k] for k in keys})


def _by_accuracy(
    trials: Sequence[TrialRow], place: tuple[str, str, str], pairs: Sequence[tuple[str, str]]
) -> Json | None:
    """Compare models by their accuracy on questions, resampled by cluster."""
    at_place = [row for row in trials if (row.dataset, row.group, row.attack) == place]
    by_victim = {
        victim: [row for row in at_place if row.victim == victim and is_answered(row)]
        for pair in pairs
        for victim in pair
    }
    if not all(by_victim.values()):
        return None
    shared = set.intersection(*({_key(row) for row in rows} for rows in by_victim.values()))
    if not shared:
        return None
    clusters = sorted(
        {cluster_of(row) for rows in by_victim.values() for row in rows if _key(row) in shared}
    )

    def accuracy(victims: Iterable[str], *, after: bool) -> Measured:
        rows = ([row for row in by_victim[v] if _key(row) in shared] for v in victims)
        found = [measured(_right(own, clusters, after=after), "precision") for own in rows]
        return over_seeds([Measured(value=value, drawn=drawn) for value, drawn in found])

    four = Four(
        clean=accuracy((a for a, _ in pairs), after=False),
        attacked=accuracy((a for a, _ in pairs), after=True),
        trained_clean=accuracy((b for _, b in pairs), after=False),
        trained_attacked=accuracy((b for _, b in pairs), after=True),
    )
    return {"measure": "accuracy", **recovery(four, len(clusters), len(pairs))}


def _key(row: TrialRow) -> tuple[str, int | None, int]:
    return row.item_id, row.seed, row.repeat


def _right(rows: Iterable[TrialRow], clusters: Sequence[str], *, after: bool) -> Any:
    """Count (right, asked, asked) by cluster, in the form of entities' (matches, found, gold)."""
    index = {cluster: i for i, cluster in enumerate(clusters)}
    sums = np.zeros((len(clusters), 3))
    for row in rows:
        right = is_eligible(row) and not (after and is_flipped(row))
        sums[index[cluster_of(row)]] += (right, 1, 1)
    return sums
