"""What models are trained on: other data or folds of the attacked ones, and perturbed copies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from medstress.attacks.noise import Abbreviation, Noise, NoiseResources, Synonym, noise_of
from medstress.core.clusters import GROUPS, clusters_of, sentences_of
from medstress.core.errors import DataError, UsageError
from medstress.core.hashing import digest, rng_for
from medstress.core.text import WHOLE
from medstress.experiment.arms import AttackPart
from medstress.experiment.config import Dataset, Train
from medstress.experiment.data import load_datasets
from medstress.experiment.groups import (
    kind_of_datasets,
    mentions_in,
    names_put_in,
    names_put_into,
    noise_resources,
    other_names_in,
    without_names,
)
from medstress.experiment.plan import Prepared

_OF_TESTED = ("label", "limit", "limit_documents", "sample_seed", "use")
"""Keys of the attacked data set that the training data do not inherit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One way to train a model: on the original data, or also on a perturbed copy."""

    name: str
    """Name in results."""
    attacks: tuple[AttackPart, ...] = ()
    """The noise that perturbs the copy; empty: original data only."""
    is_redrawn: bool = False
    """Whether every epoch gets a new copy."""
    has_held_out_names: bool = False
    """Whether training avoids all names that attacks put into the attacked data."""
    n_plain: int = 1
    """How often an epoch reads the original data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingData:
    """The training, dev and test items of a model, and how the first two are perturbed."""

    train: tuple[Any, ...]
    """Items to train on."""
    dev: tuple[Any, ...] = ()
    """Items that select the best epoch."""
    tested: frozenset[str] | None = None
    """Ids of the attacked items that the model is tested on; None: all."""
    stream: str
    """Names the random numbers of copies, which differ from those of the attacked data."""
    noise: NoiseResources
    """Resources for noise, built from training and dev items alone."""
    held_out: Mapping[str, TrainingData] = field(default_factory=dict)
    """Kind with held-out names -> data without the names that attacks put into tested items."""

    def of(self, kind: Kind) -> TrainingData:
        """Return the training data of a kind of model."""
        return self.held_out.get(kind.name, self)

    def items_by_epoch(self, kind: Kind, seed: int) -> Callable[[int], Sequence[Any]]:
        """Return a function epoch -> training items: originals, then a perturbed copy of each.

        Unless copies are redrawn, all epochs get the identical object.

        References:
            Araujo et al., 2020 (METHODS 4.6): the original training set and one perturbed copy.
        """
        return self._by_epoch(self.train, kind, seed)

    def dev_items(self, kind: Kind, seed: int) -> Sequence[Any]:
        """Return the items that score an epoch, with perturbed copies if training has them."""
        return self._by_epoch(self.dev, replace(kind, n_plain=1), seed)(0)

    def _by_epoch(
        self, items: tuple[Any, ...], kind: Kind, seed: int
    ) -> Callable[[int], Sequence[Any]]:
        if not kind.attacks:
            plain = items * kind.n_plain
            return lambda _: plain

        @lru_cache(maxsize=1)
        def doubled(epoch: int) -> Sequence[Any]:
            return (*items, *(self._copy(item, kind, seed, epoch) for item in items))

        return doubled if kind.is_redrawn else lambda _: doubled(0)

    def _copy(self, item: Any, kind: Kind, seed: int, epoch: int) -> Any:
        """Return a perturbed copy of an item, by one of the attacks drawn at random."""
        rng = rng_for(seed, "train/which", self.stream, item.id, epoch)
        attack = kind.attacks[int(rng.integers(len(kind.attacks)))].attack
        assert isinstance(attack, Noise)
        own = rng_for(seed, f"{attack.stream}/train", self.stream, item.id, epoch)
        return item.changed(attack.edits(item.of_unit(WHOLE), own, self.noise))


def training_data(
    prepared: Prepared, table: Train, kinds: Sequence[Kind], limit: int | None
) -> tuple[dict[tuple[int, int], TrainingData], tuple[str, ...]]:
    """Load the data that models are trained on.

    With folds, for each seed an attacked item is tested once, by a model that was trained on
    nothing of its document and, for pairs, on neither of its sentences.

    Args:
        prepared: the prepared attacks.
        table: `[train]`.
        kinds: the kinds of models.
        limit: most items.

    Returns:
        (seed, fold from 1) -> data; without folds, (0, 0) -> the data of all models. And warnings
        about overlap with the attacked data.

    Raises:
        UsageError: the data cannot be read, are of another kind, contain every attacked item, or
            have fewer clusters than folds.
    """
    attacked, stream = prepared.datasets[0].questions, prepared.datasets[0].label
    noises = {p.label: p.attack for k in kinds for p in k.attacks if isinstance(p.attack, Noise)}

    def made(
        items: Sequence[Any],
        parts: tuple[tuple[Any, ...], tuple[Any, ...]],
        tested: frozenset[str] | None = None,
    ) -> TrainingData:
        noise = NoiseResources()
        if noises:
            noise = noise_resources(items, [*noises.values()], prepared.base)
        train, dev = parts
        data = TrainingData(train=train, dev=dev, tested=tested, stream=stream, noise=noise)
        return _with_held_out(prepared, kinds, data)

    if table.folds:
        assert isinstance(table.dev, float)
        clusters, folds = clusters_of(attacked), {}
        for seed in table.seeds:
            for fold, tested in enumerate(split_into_folds(clusters, table.folds, seed), start=1):
                rest = [item for item in attacked if item.id not in tested]
                folds[seed, fold] = made(rest, split_off(rest, table.dev, clusters), tested)
        return folds, ()
    train = _load(prepared, "data", table.data, limit)
    if isinstance(table.dev, dict):
        dev = _load(prepared, "dev", table.dev, limit)
    else:
        train, dev = split_off(train, table.dev, clusters_of(train))
    items = (*train, *dev)
    hashes, texts = (
        {item.hash for item in items},
        {t for item in items for t in sentences_of(item)},
    )
    n_shared = sum(item.hash in hashes for item in attacked)
    n_linked = sum(not texts.isdisjoint(sentences_of(item)) for item in attacked)
    if n_shared == len(attacked):
        raise UsageError(
            "[train] data: every attacked item is in the training data; give other data, e.g. "
            'data = {split = "train"} or data = {path = "train.iob"}, or cross-validate with '
            "folds = 5"
        )
    overlap = {
        "attacked items are in the data trained on as well": n_shared,
        "attacked pairs share a sentence with the data trained on": n_linked,
    }
    cautions = tuple(f"{n} of {len(attacked)} {what}" for what, n in overlap.items() if n)
    return {(0, 0): made(items, (train, dev))}, cautions


def split_off(
    items: Sequence[Any], share: float, clusters: Mapping[str, str]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Split items into a training and a dev part without dividing clusters.

    The split depends on the clusters' names alone.

    Args:
        items: the items to split.
        share: share of clusters in the dev part, in [0, 1).
        clusters: item id -> cluster.

    Raises:
        UsageError: one part would be empty.
    """
    if share == 0:
        return tuple(items), ()
    names = list(dict.fromkeys(clusters[item.id] for item in items))
    ranked = sorted(names, key=lambda name: digest(["dev", name]))
    chosen = set(ranked[: round(share * len(names))])
    if not chosen or len(chosen) == len(names):
        raise UsageError(
            f"[train] dev = {share:g}: splitting {len(names)} {GROUPS} would leave one part empty; "
            "give more data, another share, or dev = 0"
        )
    rest = tuple(item for item in items if clusters[item.id] not in chosen)
    return rest, tuple(item for item in items if clusters[item.id] in chosen)


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
    inherited = tested.model_dump(exclude_defaults=True, exclude=set(_OF_TESTED))
    try:
        table = Dataset.read({**inherited, **changes}, "[dataset]")
        (part,) = load_datasets([table], prepared.base, limit)
    except (UsageError, DataError) as error:
        own = [name for name in inherited if name not in (*changes, "name")]
        advice = (
            f"; inherited from [[dataset]]: {', '.join(own)}; set in [train] {key} what differs"
        )
        raise type(error)(f"[train] {key}: {error}{advice if own else ''}") from error
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
    return part.questions


# Names that are kept out of training ------------------------------------------------------------


def _with_held_out(prepared: Prepared, kinds: Iterable[Kind], data: TrainingData) -> TrainingData:
    """Add separate data for each kind with held-out names.

    These data lack items with a mention that equals a name that the kind's attacks put into the
    attacked data, and no copy gets such a name. So training and test share no such name, neither in
    the originals nor in the copies.

    Raises:
        UsageError: no training or no dev data are left.
    """
    attacked, tested = _attacked(prepared), _tested(prepared, data)
    held_out = {}
    for kind in kinds:
        if not kind.has_held_out_names:
            continue
        synonyms = [part.attack for part in kind.attacks if isinstance(part.attack, Synonym)]
        names = frozenset(
            name for attack in synonyms for name in names_put_into(tested, attack, attacked)
        )
        parts = []
        for what, items in (("training", data.train), ("dev", data.dev)):
            parts.append(tuple(i for i in items if names.isdisjoint(mentions_in([i], data.noise))))
            if items and not parts[-1]:
                raise UsageError(
                    f"[train] adversarial: {kind.name!r} has no {what} data left, since all "
                    f"{len(items)} items mention a name that the attack puts into the attacked "
                    "data; give more data, or leave out held_out_names"
                )
        every = (*data.train, *data.dev)
        noise = without_names(data.noise, names, every, synonyms, prepared.base)
        held_out[kind.name] = replace(data, noise=noise, train=parts[0], dev=parts[1])
    return replace(data, held_out=held_out)


def names_met(prepared: Prepared, data: Sequence[TrainingData], kind: Kind) -> dict[str, Any]:
    """Return how well models know the names that synonyms put into the attacked data.

    Returns:
        `names_met`: attack -> share of replaced mentions whose new name occurs in a model's
        training data (None if none is replaced); only with synonyms. A name occurs there if a
        mention of the originals equals it, or if a copy may get it. Each model counts with the
        mentions it is tested on; of a pair, those in the text that the attack changes. For a kind
        with held-out names also `n_left_out` of `n_offered` training and dev items, over all folds.
    """
    result: dict[str, Any] = {}
    attacked = _attacked(prepared)
    for part in kind.attacks:
        attack, n, n_met = part.attack, 0, 0
        if not isinstance(attack, Synonym):
            continue
        for one in data:
            own = _names_trained_on(one.of(kind), kind)
            for names, _ in other_names_in(_tested(prepared, one), attack, attacked):
                if names:
                    n += 1
                    n_met += not names_put_in(names, attack.choice).isdisjoint(own)
        result.setdefault("names_met", {})[part.label] = n_met / n if n else None
    if kind.has_held_out_names:
        offered = sum(len(one.train) + len(one.dev) for one in data)
        kept = sum(len(one.of(kind).train) + len(one.of(kind).dev) for one in data)
        result |= {"n_left_out": offered - kept, "n_offered": offered}
    return result


def _names_trained_on(data: TrainingData, kind: Kind) -> frozenset[str]:
    """Return the names of all mentions in the training data and, possibly, their copies."""
    named = (p.attack for p in kind.attacks if isinstance(p.attack, Synonym | Abbreviation))
    copied = (names_put_into(data.train, attack, data.noise) for attack in named)
    return mentions_in(data.train, data.noise).union(*copied)


def _attacked(prepared: Prepared) -> NoiseResources:
    """Return what noise may read about the attacked data."""
    resources = (noise_of(group.resources) for group in prepared.groups)
    return next(filter(None, resources), NoiseResources())


def _tested(prepared: Prepared, data: TrainingData) -> Sequence[Any]:
    items = prepared.datasets[0].questions
    return items if data.tested is None else [item for item in items if item.id in data.tested]
