"""What models are trained on: other data than those attacked, or folds of the attacked ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from medstress.attacks.noise import NoiseResources
from medstress.attacks.protocol import QUESTIONS
from medstress.attacks.sentence_attack import SentenceAttack
from medstress.clusters import GROUPS, clusters_of
from medstress.entities.lexicon import FIRST_EDITION_SENTENCES
from medstress.errors import DataError, UsageError
from medstress.experiment.noise_resources import noise_resources
from medstress.experiment.parts import DatasetPart, GroupPart, load_datasets, load_groups
from medstress.experiment.prepared import Prepared
from medstress.experiment.reading import check_table
from medstress.experiment.recognising import recognise_mentions
from medstress.experiment.run import Watcher
from medstress.experiment.sentence_groups import asked_of
from medstress.experiment.training_table import TrainTable
from medstress.hashing import digest
from medstress.training.copies import (
    Kind,
    Perturber,
    shared_with,
    sharing_a_sentence,
    split_off,
)

_OF_TESTED = ("label", "limit", "limit_documents", "sample_seed", "use")
"""Keys of the attacked data set that do not hold for the data trained on."""

_OF_A_FILE = {"documents": '"train.pubtator"', "types": '["Chemical"]'}
"""Keys of the attacked data set that other data may need of their own, each with an example."""

Clusters: TypeAlias = Callable[[Iterable[Any]], dict[str, str]]
"""Says which items stay in one fold, and on one side of a share: id -> name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingData:
    """Items of a model, and what perturbs them."""

    train: tuple[Any, ...]
    """Items to train on."""
    dev: tuple[Any, ...]
    """Items to choose the epoch by."""
    tested: frozenset[str] | None
    """Ids of the attacked items that the model is asked about; None: all."""
    perturber: Perturber
    """Of training and dev items; reads nothing of those tested."""
    held_out: Mapping[str, TrainingData] = field(default_factory=dict)
    """The same without the names that those tested are given, by the kind that is to know none."""

    def of(self, kind: Kind) -> TrainingData:
        """What a kind of model is trained on."""
        return self.held_out.get(kind.name, self)


def other_data(
    prepared: Prepared,
    table: TrainTable,
    kinds: Sequence[Kind],
    limit: int | None,
    watcher: Watcher,
    clusters: Clusters = clusters_of,
) -> tuple[TrainingData, tuple[str, ...]]:
    """The data that `[train]` names, and what they have in common with those attacked.

    Raises:
        UsageError: they cannot be read, are of another kind, or hold every attacked item.
    """
    train = _load(prepared, "data", table.data, limit)
    if isinstance(table.dev, dict):
        dev = _load(prepared, "dev", table.dev, limit)
    else:
        train, dev = split_off(train, table.dev, clusters(train))
    attacked = prepared.datasets[0].questions
    n_shared = shared_with((*train, *dev), attacked)
    if n_shared == len(attacked):
        raise UsageError(
            "[train] data: every item that is attacked is among those trained on; say where "
            'other data are, e.g. data = {split = "train"} or data = {path = "train.iob"}, or '
            "cross-validate with folds = 5"
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
    clusters: Clusters = clusters_of,
) -> dict[tuple[int, int], TrainingData]:
    """The attacked items parted anew for every training seed: (seed, fold from 1) -> data.

    Each item is tested once for every seed, by a model that has seen nothing of its document, and
    of pairs no sentence.

    Raises:
        UsageError: questions, or fewer clusters than folds.
    """
    assert table.folds is not None
    assert isinstance(table.dev, float)
    if prepared.asked.kind == QUESTIONS:
        raise UsageError("[train] folds is for tagged texts and sentence pairs, not for questions")
    items = prepared.datasets[0].questions
    found, of_item = {}, clusters(items)
    for seed in table.seeds:
        for fold, tested in enumerate(parted(of_item, table.folds, seed), start=1):
            rest = [item for item in items if item.id not in tested]
            train, dev = split_off(rest, table.dev, of_item)
            perturber = _perturber(prepared, kinds, rest, watcher)
            found[seed, fold] = TrainingData(
                train=train, dev=dev, tested=tested, perturber=perturber
            )
    return found


def parted(clusters: Mapping[str, str], n_folds: int, seed: int) -> list[frozenset[str]]:
    """Part items into folds, whole clusters, drawn by the seed; returns the ids of each fold.

    The numbers of clusters of two folds differ by one at most.

    Args:
        clusters: of each item, by id.
        n_folds: how many folds.
        seed: which draw.

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
    found = asked_of([part])
    if found.kind != prepared.asked.kind:
        raise UsageError(
            f"[train] {key}: expected {prepared.asked.kind} as the data attacked, got {found.kind}"
        )
    if missing := [t for t in found.types if t not in prepared.asked.types]:
        raise UsageError(
            f"[train] {key}: the type {missing[0]!r} does not occur in the data attacked (there: "
            f"{', '.join(prepared.asked.types)}); leave it out or rename it with the key 'types', "
            f'e.g. {key} = {{types = {{{missing[0]} = "O"}}}}'
        )
    if found.kind == QUESTIONS and prepared.experiment.entities:
        tables = prepared.experiment.entities
        (part,) = recognise_mentions(tables, prepared.base, [part], lambda _: None).datasets
    return part.questions


def _about_inherited(
    load: Callable[[Mapping[str, Any]], DatasetPart],
    key: str,
    kept: Mapping[str, Any],
    changes: Mapping[str, Any],
    complaint: str,
) -> str:
    """What to do where a key of the data attacked is what does not fit those trained on.

    It is one that without it they can be read, or are complained of otherwise.
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
            f"; {name!r} is that of [[dataset]] as long as [train] {key} has none of its own, e.g. "
            f"{key} = {{{name} = {example}}}"
        )
    return ""


def _perturber(
    prepared: Prepared, kinds: Sequence[Kind], items: Sequence[Any], watcher: Watcher
) -> Perturber:
    """What perturbs the data trained on; reads nothing of the data attacked."""
    parts = list({part.label: part for kind in kinds for part in kind.attacks}.values())
    stream = prepared.datasets[0].label
    if prepared.asked.kind != QUESTIONS:
        noises = [part.attack for part in parts if isinstance(part.attack, SentenceAttack)]
        return Perturber(stream=stream, noise=_noise(noises, items, prepared.base))
    groups: list[GroupPart] = []
    if parts:
        whole = replace(prepared.datasets[0], questions=tuple(items))
        tables, note = prepared.experiment.entities, watcher.note
        groups = load_groups(tables, prepared.base, [whole], note, watcher.vectors)
    return Perturber(stream=stream, noise=NoiseResources(), groups=tuple(groups))


def chosen_by_number(
    data: TrainingData, noises: Sequence[SentenceAttack], base: Path
) -> TrainingData:
    """The same with the words of noise chosen by their number, as in the first edition."""
    noise = _noise(noises, (*data.train, *data.dev), base, FIRST_EDITION_SENTENCES)
    return replace(data, perturber=replace(data.perturber, noise=noise))


def _noise(
    noises: Sequence[SentenceAttack],
    items: Sequence[Any],
    base: Path,
    n_sentences: int | None = None,
) -> NoiseResources:
    return noise_resources(items, noises, base, n_sentences) if noises else NoiseResources()
