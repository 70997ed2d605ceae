"""Training data of models: a separate data set, or folds of the attacked data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from medstress.attacks.noise import Noise, NoiseResources
from medstress.core.clusters import GROUPS, clusters_of
from medstress.core.errors import DataError, UsageError
from medstress.core.hashing import digest
from medstress.experiment.file.config import TrainTable
from medstress.experiment.file.reading import check_table
from medstress.experiment.plan.dataset_parts import DatasetPart, load_datasets, recognise_mentions
from medstress.experiment.plan.noise_resources import noise_resources
from medstress.experiment.plan.parts import GroupPart, kind_of_datasets, load_groups
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.prepare import Watcher
from medstress.training.copies import (
    Kind,
    Perturber,
    shared_with,
    sharing_a_sentence,
    split_off,
)

_OF_TESTED = ("label", "limit", "limit_documents", "sample_seed", "use")
"""Keys of the attacked data set that the training data do not inherit."""

_OF_A_FILE = {"documents": '"pmid"', "types": '["Chemical"]'}
"""Inherited keys that the training data may have to override, each with an example."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingData:
    """The training, dev and test items of a model, and the perturber of the first two."""

    train: tuple[Any, ...]
    """Items to train on."""
    dev: tuple[Any, ...]
    """Items that select the best epoch."""
    tested: frozenset[str] | None
    """Ids of the attacked items that the model is tested on; None: all."""
    perturber: Perturber
    """Perturbs training and dev items, without information from the tested ones."""
    held_out: Mapping[str, TrainingData] = field(default_factory=dict)
    """Kind with held-out names -> data without the names that attacks put into tested items."""

    def of(self, kind: Kind) -> TrainingData:
        """Return the training data of a kind of model."""
        return self.held_out.get(kind.name, self)


def other_data(
    prepared: Prepared,
    table: TrainTable,
    kinds: Sequence[Kind],
    limit: int | None,
    watcher: Watcher,
) -> tuple[TrainingData, tuple[str, ...]]:
    """Load the data that `[train]` names.

    Returns:
        The data, and warnings about overlap with the attacked data.

    Raises:
        UsageError: the data cannot be read, are of another kind, or contain every attacked item.
    """
    train = _load(prepared, "data", table.data, limit)
    if isinstance(table.dev, dict):
        dev = _load(prepared, "dev", table.dev, limit)
    else:
        train, dev = split_off(train, table.dev, clusters_of(train))
    attacked = prepared.datasets[0].questions
    n_shared = shared_with((*train, *dev), attacked)
    if n_shared == len(attacked):
        raise UsageError(
            "[train] data: every attacked item is in the training data; give other data, e.g. "
            'data = {split = "train"} or data = {path = "train.iob"}, or cross-validate with '
            "folds = 5"
        )
    perturber = _perturber(prepared, kinds, (*train, *dev), watcher)
    data = TrainingData(train=train, dev=dev, tested=None, perturber=perturber)
    return data, tuple(_cautions(n_shared, (*train, *dev), attacked))


def _cautions(n_shared: int, items: Sequence[Any], attacked: Sequence[Any]) -> Iterator[str]:
    n = len(attacked)
    if n_shared:
        yield f"{n_shared} of {n} attacked items are in the data trained on as well"
    if n_linked := sharing_a_sentence(items, attacked):
        yield f"{n_linked} of {n} attacked pairs share a sentence with the data trained on"


def folded_data(
    prepared: Prepared,
    table: TrainTable,
    kinds: Sequence[Kind],
    watcher: Watcher,
) -> dict[tuple[int, int], TrainingData]:
    """Split the attacked items into folds for every training seed: (seed, fold from 1) -> data.

    For each seed an item is tested once, by a model that was trained on nothing of its document
    and, for pairs, on neither of its sentences.

    Raises:
        UsageError: the items are questions, or there are fewer clusters than folds.
    """
    assert table.folds is not None
    assert isinstance(table.dev, float)
    if prepared.kind.draws_names:
        raise UsageError(
            f"[train] folds is for tagged texts and sentence pairs, not for {prepared.kind.name}"
        )
    items = prepared.datasets[0].questions
    found, of_item = {}, clusters_of(items)
    for seed in table.seeds:
        for fold, tested in enumerate(split_into_folds(of_item, table.folds, seed), start=1):
            rest = [item for item in items if item.id not in tested]
            train, dev = split_off(rest, table.dev, of_item)
            perturber = _perturber(prepared, kinds, rest, watcher)
            found[seed, fold] = TrainingData(
                train=train, dev=dev, tested=tested, perturber=perturber
            )
    return found


def split_into_folds(clusters: Mapping[str, str], n_folds: int, seed: int) -> list[frozenset[str]]:
    """Split items into random folds without dividing clusters; return the ids of each fold.

    The numbers of clusters in two folds differ by at most one.

    Args:
        clusters: item id -> cluster.
        n_folds: number of folds.
        seed: seed of the split.

    Raises:
        UsageError: there are fewer clusters than folds.
    """
    names = set(clusters.values())
    if len(names) < n_folds:
        raise UsageError(
            f"[train] folds = {n_folds}: there are {len(names)} {GROUPS}; give more data, or "
            "fewer folds"
        )
    ranked = sorted(names, key=lambda name: digest(["fold", seed, name]))
    of_cluster = {name: place % n_folds for place, name in enumerate(ranked)}
    return [
        frozenset(item for item, name in clusters.items() if of_cluster[name] == fold)
        for fold in range(n_folds)
    ]


def _load(
    prepared: Prepared, key: str, changes: Mapping[str, Any], limit: int | None
) -> tuple[Any, ...]:
    (tested,) = prepared.experiment.dataset
    kept = tested.model_dump(exclude_defaults=True, exclude=set(_OF_TESTED))

    def load(given: Mapping[str, Any]) -> DatasetPart:
        (part,) = load_datasets([check_table("dataset", {**given})], prepared.base, limit)
        return part

    try:
        part = load({**kept, **changes})
    except (UsageError, DataError) as error:
        advice = _about_inherited(load, key, kept, changes, str(error))
        raise type(error)(f"[train] {key}: {error}{advice}") from error
    kind = kind_of_datasets([part])
    if kind is not prepared.kind:
        raise UsageError(
            f"[train] {key}: expected {prepared.kind.name} like the attacked data, got {kind.name}"
        )
    if missing := [t for t in kind.classes(part.all_items) if t not in prepared.classes]:
        raise UsageError(
            f"[train] {key}: the type {missing[0]!r} does not occur in the attacked data (only "
            f"{', '.join(prepared.classes)}); drop or rename it with the key 'types', "
            f'e.g. {key} = {{types = {{{missing[0]} = "O"}}}}'
        )
    if kind.draws_names and prepared.experiment.entities:
        tables = prepared.experiment.entities
        (part,) = recognise_mentions(tables, prepared.base, [part], lambda _: None)[0]
    return part.questions


def _about_inherited(
    load: Callable[[Mapping[str, Any]], DatasetPart],
    key: str,
    kept: Mapping[str, Any],
    changes: Mapping[str, Any],
    complaint: str,
) -> str:
    """Return advice if an inherited key of the attacked data causes the error, else "".

    It does if the data can be read without the key, or reading them gives another error.
    """
    for name, example in _OF_A_FILE.items():
        if name not in kept or name in changes:
            continue
        try:
            load({k: value for k, value in {**kept, **changes}.items() if k != name})
        except (UsageError, DataError) as error:
            if str(error) == complaint:
                continue
        return (
            f"; {name!r} is inherited from [[dataset]]; set it in [train] {key}, e.g. "
            f"{key} = {{{name} = {example}}}"
        )
    return ""


def _perturber(
    prepared: Prepared, kinds: Sequence[Kind], items: Sequence[Any], watcher: Watcher
) -> Perturber:
    """Make the perturber of the training data, without information from the attacked data."""
    parts = list({part.label: part for kind in kinds for part in kind.attacks}.values())
    stream = prepared.datasets[0].label
    noises = [part.attack for part in parts if isinstance(part.attack, Noise)]
    noise = _noise(noises, items, prepared.base)
    groups: list[GroupPart] = []
    if len(noises) < len(parts):
        whole = replace(prepared.datasets[0], questions=tuple(items))
        tables, note = prepared.experiment.entities, watcher.note
        groups = load_groups(tables, prepared.base, [whole], note, watcher.vectors)
    return Perturber(stream=stream, noise=noise, groups=tuple(groups))


def _noise(noises: Sequence[Noise], items: Sequence[Any], base: Path) -> NoiseResources:
    return noise_resources(items, noises, base) if noises else NoiseResources()
