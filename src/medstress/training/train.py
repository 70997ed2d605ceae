"""Adversarial training: fine-tune, attack, train on perturbed copies too, attack again."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from math import sqrt
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from medstress.analyses.run import Run
from medstress.analyses.shown import as_json
from medstress.analyses.training import TRAINING, on_names
from medstress.analyses.training import Kind as KindRecord
from medstress.attacks.noise import Abbreviation, Noise, NoiseResources, Synonym, noise_of
from medstress.core.clusters import GROUPS, clusters_of, sentences_of
from medstress.core.errors import DataError, StoreError, UsageError, did_you_mean, setting
from medstress.core.hashing import content_hash, digest, rng_for
from medstress.core.reading import reading
from medstress.core.text import WHOLE
from medstress.core.writing import make_folder, make_private, refuse_link, write_text
from medstress.engine.progress import Watcher
from medstress.experiment import config
from medstress.experiment.arms import AttackPart
from medstress.experiment.config import (
    ORIGINAL,
    ORIGINAL_TWICE,
    UNTRAINED,
    Dataset,
    Experiment,
    Train,
)
from medstress.experiment.data import load_datasets
from medstress.experiment.dry_run import DryRun, dry_run
from medstress.experiment.groups import (
    kind_of_datasets,
    mentions_in,
    names_put_in,
    names_put_into,
    noise_resources,
    other_names_in,
    without_names,
)
from medstress.experiment.perturb import check_perturbed_alone
from medstress.experiment.plan import Portion, Prepared
from medstress.experiment.prepare import opened_victims, prepare
from medstress.experiment.reading import NEEDS, Source
from medstress.experiment.run import execute, locked, run_folder
from medstress.stats.trainings import ASSUMED, ENOUGH_SEEDS, least_gain
from medstress.store.database import translated
from medstress.store.reader import stored_manifest
from medstress.tasks.kinds import SIMILARITY, TAGGING
from medstress.training.learners import PairScorer, Start, Tagger, find_start, fit

# -- what models are trained on: other data or folds of the attacked ones, and copies ------------


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
        if not kind.attacks:
            plain = self.train * kind.n_plain
            return lambda _: plain

        @lru_cache(maxsize=1)
        def doubled(epoch: int) -> Sequence[Any]:
            return (*self.train, *(self._copy(item, kind, seed, epoch) for item in self.train))

        return doubled if kind.is_redrawn else lambda _: doubled(0)

    def dev_items(self, kind: Kind, seed: int) -> Sequence[Any]:
        """Return the items that score an epoch, with perturbed copies if training has them."""
        copied = self.dev if kind.attacks else ()
        return (*self.dev, *(self._copy(item, kind, seed, 0) for item in copied))

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


# -- the models and the run ------------------------------------------------------------------------


MODELS = "models"
RESULT_FILE = "training.json"
_CHECKPOINTS = ".checkpoints"
_NOT_HASHED = {
    *("adversarial", "seeds", "data", "dev", "device", "model", "choices", "folds", "untrained"),
    "twice",
}
"""Keys of [train] that do not change a model, or that its hash covers in another form."""
_DEVIATIONS = {"documents": 0.18, "sentences": 0.55, "pairs": 0.25}
"""Standard deviation of a gain over units, as measured with MiniLM (studies/araujo); sentences have
that of documents of ten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlan:
    """One model to be trained."""

    kind: Kind
    """The data it is trained on."""
    seed: int
    """Seed of head, order, dropout, perturbed copies and folds."""
    fold: int = 0
    """The fold it is tested on, from 1; 0: all data."""

    @property
    def is_trained(self) -> bool:
        """False for the pretrained model without training."""
        return self.kind.name != UNTRAINED

    @property
    def name(self) -> str:
        """Name of the victim in results, shared by the models of all folds."""
        return f"{self.kind.name}-{self.seed}" if self.is_trained else UNTRAINED

    @property
    def label(self) -> str:
        """Unique name of the model."""
        return f"{self.name}, fold {self.fold}" if self.fold else self.name

    @property
    def folder(self) -> str:
        """Name of its folder."""
        return re.sub(r"[^A-Za-z0-9._+-]+", "_", self.label)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """A training with everything loaded but the models."""

    prepared: Prepared
    """The prepared attacks; the victims are added later."""
    table: Train
    """`[train]`."""
    models: tuple[ModelPlan, ...]
    """All models, those trained on original data first."""
    data: Mapping[tuple[int, int], TrainingData]
    """(seed, fold) -> training data; without folds, (0, 0) -> the data of all models."""
    cautions: tuple[str, ...]
    """Warnings for readers of the results."""

    @property
    def kinds(self) -> Sequence[Kind]:
        """The kinds of models."""
        return list({model.kind.name: model.kind for model in self.models}.values())

    def data_of(self, model: ModelPlan) -> TrainingData:
        """Return the data that a model is trained and tested on."""
        return self.data[(model.seed, model.fold) if model.fold else (0, 0)].of(model.kind)

    def items_of(self, model: ModelPlan) -> Callable[[int], Sequence[Any]]:
        """Return a function epoch -> training items."""
        return self.data_of(model).items_by_epoch(model.kind, model.seed)

    def record(self, kind: Kind) -> KindRecord:
        """Return what is stored of a kind that is trained on copies."""
        return KindRecord(
            name=kind.name,
            attacks=[part.label for part in kind.attacks],
            redrawn=kind.is_redrawn,
            **names_met(self.prepared, [*self.data.values()], kind),
        )

    def least_gains(self) -> Iterator[str]:
        """Yield the least gain under attack that could be shown; nothing for too few seeds."""
        n_kinds, n_seeds = sum(bool(kind.attacks) for kind in self.kinds), len(self.table.seeds)
        if not n_kinds or n_seeds < ENOUGH_SEEDS:
            return
        items = self.prepared.datasets[0].questions
        n_units = len(set(clusters_of(items).values()))
        unit = "sentences" if n_units == len(items) else "documents"
        unit = "pairs" if self.prepared.kind is SIMILARITY else unit
        error = _DEVIATIONS[unit] / sqrt(n_units)

        def least(n: int) -> str:
            gains = (least_gain(n_seeds, sd, error, n_kinds=n) for sd in ASSUMED)
            return " or ".join(f"{gain:.3f}".removeprefix("0") for gain in gains)

        best = f"; for the best of {n_kinds} kinds {least(n_kinds)}" if n_kinds > 1 else ""
        spreads = " or ".join(f"{sd:g}".removeprefix("0") for sd in ASSUMED)
        yield (
            f"the least gain that {n_seeds} training seeds and {n_units:,} {unit} show with power "
            f".8: {least(1)}, if the standard deviation over seeds is {spreads}{best}"
        )

    def victim(self, model: ModelPlan, folder: Path) -> config.Victim:
        """Return the trained model as a victim."""
        is_bi = self.prepared.kind is SIMILARITY and self.table.encoder == "bi_encoder"
        return config.Victim(
            name=model.label,
            model=str(folder.resolve()),
            device=self.table.device,
            backend="sentence_transformers" if is_bi else "transformers",
        )

    def stage(
        self, models: Sequence[ModelPlan], folder: Path, curves: Mapping[str, Any]
    ) -> Prepared:
        """Prepare the run that attacks some of the models, each on what it is not trained on.

        Args:
            models: the models to attack.
            folder: folder with the models' folders.
            curves: label -> measure and learning curve of the training.
        """
        kinds = {model.kind.name: model.kind for model in models if model.kind.attacks}
        notes = {
            "model": self.table.model,
            "n_train": max(len(data.train) for data in self.data.values()),
            "n_dev": max(len(data.dev) for data in self.data.values()),
            **({"folds": self.table.folds} if self.table.folds else {}),
            "adversarial": [asdict(self.record(kind)) for kind in kinds.values()],
            "models": [
                {
                    "victim": m.name,
                    "model": m.kind.name,
                    "seed": m.seed,
                    **({"fold": m.fold} if m.fold else {}),
                    **curves[m.label],
                }
                for m in models
            ],
            "cautions": list(self.cautions),
        }
        portion = Portion(notes={"training": notes})
        if self.table.folds:
            tested = {m.label: self.data_of(m).tested for m in models if m.fold}
            portion = replace(
                portion,
                asks=lambda label, item: label not in tested or item.id in (tested[label] or ()),
                names={model.label: model.name for model in models if model.fold},
                settings={"folds": self.table.folds},
            )
        victims = tuple(self.victim(model, folder / model.folder) for model in models)
        experiment = self.prepared.experiment.model_copy(update={"victim": victims})
        return replace(self.prepared, experiment=experiment, portion=portion, victims=[])

    def hash_of(self, model: ModelPlan, start: Start) -> str:
        """Hash everything that determines a model's weights, except libraries and hardware."""
        if not model.is_trained:
            return content_hash({"start": start.files.content})
        return content_hash(
            {
                "settings": self.table.model_dump(mode="json", exclude=_NOT_HASHED),
                "start": start.files.content,
                # With their copies, so that adding or removing other kinds does not change it.
                "train": [item.hash for item in self.items_of(model)(0)],
                "dev": [item.hash for item in self.data_of(model).dev],
                "attacks": [part.attack.spec() for part in model.kind.attacks],
                "redrawn": model.kind.is_redrawn,
                "types": list(self.prepared.classes),
                "seed": model.seed,
            }
        )


def plan_training(
    experiment: str | Path | Mapping[str, Any] | Experiment | Source,
    *,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
) -> TrainingPlan:
    """Read and check a training experiment, and load everything but the models.

    Args:
        experiment: as in `train_experiment`.
        limit: most items of the attacked data, and of the training data.
        overrides: as for `--set` on the command line.
        watcher: receives progress.

    Raises:
        UsageError, DataError: the experiment or its data are invalid.
    """
    watcher = watcher or Watcher()
    prepared = prepare(
        experiment,
        limit=limit,
        overrides=overrides,
        watcher=watcher,
        complete=_put_victim,
        needs=("train", *NEEDS),
    )
    table = prepared.experiment.train
    assert table is not None
    if prepared.kind not in (TAGGING, SIMILARITY):
        raise UsageError(
            f"medstress train is for {TAGGING.name} and {SIMILARITY.name}, not for "
            f"{prepared.kind.name}"
        )
    kinds = [Kind(name=ORIGINAL), *_adversarial(prepared, table)]
    if table.twice:
        kinds.insert(1, Kind(name=ORIGINAL_TWICE, n_plain=2))
    models = tuple(_models(prepared, table, kinds))
    if len({model.folder for model in models}) < len(models):
        raise UsageError("[train] adversarial: labels must differ in more than punctuation")
    watcher.note("data to train on")
    data, overlaps = training_data(prepared, table, kinds, limit)
    return TrainingPlan(
        prepared=prepared,
        table=table,
        models=models,
        data=data,
        cautions=(*overlaps, *_cautions(prepared, table)),
    )


def _put_victim(raw: dict[str, Any]) -> None:
    """Add a placeholder for the victims, which are the models to be trained."""

    def used(key: str) -> list[Any]:
        tables = raw.get(key)
        rows = tables if isinstance(tables, list) else [tables]
        return [row for row in rows if isinstance(row, dict) and row.get("use", True)]

    if "train" not in raw:
        return  # which is refused with the name of the file
    if used("victim"):
        raise UsageError(
            "medstress train attacks the models that it trains; remove [[victim]], or attack "
            "others with medstress run"
        )
    if len(used("dataset")) > 1:
        raise UsageError(
            "medstress train: expected one [[dataset]], the attacked one; give the training data "
            "as [train] data"
        )
    raw["victim"] = [{"backend": "transformers", "model": "trained"}]


def _adversarial(prepared: Prepared, table: Train) -> Iterator[Kind]:
    by_label = {part.label: part for part in prepared.attacks}
    for entry in table.adversarial:
        for name in entry.attack:
            if name not in by_label:
                raise UsageError(
                    f"[train] adversarial: there is no [[attack]] {name!r}"
                    f"{did_you_mean(name, by_label)} (there are: {', '.join(by_label)})"
                )
        parts = tuple(by_label[name] for name in entry.attack)
        check_perturbed_alone(parts)
        if entry.held_out_names and not all(isinstance(p.attack, Synonym) for p in parts):
            raise UsageError(
                "[train] adversarial: held_out_names works with synonym attacks only, got "
                f"{', '.join(entry.attack)}"
            )
        yield Kind(
            name=entry.name,
            attacks=parts,
            is_redrawn=entry.redraw == "epoch",
            has_held_out_names=entry.held_out_names,
        )


def _models(prepared: Prepared, table: Train, kinds: Sequence[Kind]) -> Iterator[ModelPlan]:
    """Yield the untrained model if requested, then every kind with every seed and fold."""
    if table.untrained:
        if prepared.kind is not SIMILARITY or table.encoder != "bi_encoder":
            raise UsageError(
                '[train] untrained = true is for sentence pairs with encoder = "bi_encoder"; every '
                "other model has a head that must be trained"
            )
        yield ModelPlan(kind=Kind(name=UNTRAINED), seed=0)
    folds = range(1, table.folds + 1) if table.folds else (0,)
    for kind in kinds:
        for seed in table.seeds:
            for fold in folds:
                yield ModelPlan(kind=kind, seed=seed, fold=fold)


def _cautions(prepared: Prepared, table: Train) -> Iterator[str]:
    """Yield warnings for readers of the results."""
    n_seeds = len(table.seeds)
    if n_seeds < ENOUGH_SEEDS:
        yield (
            f"{n_seeds} training seed{'s' * (n_seeds > 1)}: intervals say nothing of other seeds, "
            f"so no gain of a kind of model can be shown; train at least {ENOUGH_SEEDS}, better 5"
        )
    if table.adversarial and not table.twice:
        yield (
            "models trained on copies read twice as much as the original ones, so that a part of "
            "what they gain may be longer training; twice = true trains models that tell them apart"
        )
    for part in prepared.attacks:
        near = part.attack if isinstance(part.attack, Synonym) else None
        if near and near.mode == "related" and near.embedding == table.model:
            yield (
                f"attack {part.label!r} takes the nearest names by {near.embedding}, which is the "
                "model under attack; choose another embedding, such as ngram"
            )


def training_costs(plan: TrainingPlan) -> DryRun:
    """Return the most that the attacks on the trained models can cost."""
    # The models of all folds together get as many queries as one model without folds.
    models = [model for model in plan.models if model.fold <= 1]
    victims = tuple(plan.victim(model, Path(model.folder)) for model in models)
    experiment = plan.prepared.experiment.model_copy(update={"victim": victims})
    return dry_run(replace(plan.prepared, experiment=experiment))


def training_lines(plan: TrainingPlan) -> Iterator[str]:
    """Yield lines about the models to train, and what could be shown of them."""
    table = plan.table
    for kind in plan.kinds:
        members = [model for model in plan.models if model.kind == kind]
        if not members[0].is_trained:
            yield f"{kind.name}: the model as it comes"
            continue
        data = plan.data_of(members[0])
        items = len(data.train) * (2 if kind.attacks else kind.n_plain)
        steps = -(-items // table.batch_size)
        yield (
            f"{kind.name}: {len(members)} models, {items:,} items an epoch, about {steps:,} "
            f"steps, at most {table.epochs} epochs, {len(data.dev):,} dev items"
        )
    if table.twice:
        yield "twice: no training stops early (patience = 0), so that kinds differ in items only"
    yield from on_names(plan.record(kind) for kind in plan.kinds if kind.attacks)
    yield from plan.least_gains()
    for caution in plan.cautions:
        yield f"! {caution}"


def train_experiment(
    experiment: str | Path | Mapping[str, Any] | Experiment | Source,
    out: str | Path | None = None,
    *,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
) -> Path:
    """Fine-tune models, attack them, train adversarial ones, attack those; resumes a folder.

    Trained models are not trained again. An interrupted training continues from its last
    checkpoint and ends with the weights of an uninterrupted one.

    Args:
        experiment: a TOML file or the name of a shipped recipe, a dict of the same shape, or a
            checked `Experiment`.
        out: the folder; default ``runs/<name>-trained``. It is a run folder with the models in
            ``models`` and the comparison in ``training.json``.
        limit: most items of the attacked data, and of the training data.
        overrides: as for `--set` on the command line.
        watcher: receives progress, and the least gain that could be shown.

    Returns:
        The folder; its run is not complete if a limit of the experiment ended the attacks.

    Raises:
        UsageError, DataError, StoreError, BackendError: the training cannot start or continue;
            nothing stored is lost.
    """
    watcher = watcher or Watcher()
    plan = plan_training(experiment, limit=limit, overrides=overrides, watcher=watcher)
    folder = run_folder(plan.prepared, out, suffix="-trained")
    with locked(folder, others=(MODELS, RESULT_FILE)) as lock:
        start = find_start(plan.table.model, plan.table.device, plan.prepared.base)
        check_folder(plan, folder, start)
        if any(_result(folder / MODELS, model) is None for model in plan.models):
            for line in (*plan.least_gains(), *plan.cautions):
                watcher.announce(line)
        results: dict[str, Any] = {}
        for models in _stages(plan, folder):
            for model in models:
                results[model.label] = trained(plan, model, start, folder / MODELS, watcher.note)
            prepared = plan.stage(models, folder / MODELS, results)
            with opened_victims(prepared, watcher.note):
                execute(prepared, folder, lock=lock, watcher=watcher)
            if not stored_manifest(folder)["complete"]:
                return folder
    _write(folder / RESULT_FILE, {"format": 1, **as_json(Run.open(folder).of(TRAINING))})
    return folder


def check_folder(plan: TrainingPlan, folder: Path, start: Start) -> None:
    """Refuse a folder of another training before anything is trained.

    Raises:
        StoreError: the folder has no training, or a model with another hash; names the model.
    """
    models = folder / MODELS
    manifest = stored_manifest(folder)
    if manifest and "training" not in manifest:
        raise StoreError(f"{folder} holds a run without training; choose another {setting('out')}")
    for model in plan.models:
        begun = _read(models / f"{model.folder}{_CHECKPOINTS}" / "training.json")
        stored = _result(models, model) or begun
        if stored is not None and stored["hash"] != plan.hash_of(model, start):
            raise StoreError(
                f"{folder} holds a model {model.label!r} that was trained on other data or with "
                f"other settings; choose another folder with {setting('out')}, or delete this one"
            )


def trained(
    plan: TrainingPlan, model: ModelPlan, start: Start, folder: Path, note: Callable[[str], None]
) -> dict[str, Any]:
    """Train a model unless it exists, or go on with its last checkpoint.

    Args:
        plan: of all models.
        model: this one.
        start: what it is made from.
        folder: of all models.
        note: receives lines on progress.

    Returns:
        Its measure and learning curve.
    """
    done = _result(folder, model)
    if done is None:
        checkpoints = folder / f"{model.folder}{_CHECKPOINTS}"
        own, table = {"hash": plan.hash_of(model, start)}, plan.table
        with translated(folder):
            for place in (folder, checkpoints):
                make_folder(place)
            refuse_link(folder / model.folder)
        _write(checkpoints / "training.json", own)
        note(f"{model.label}: opening {start.name}")
        learner = (
            Tagger(start, plan.prepared.classes, model.seed, table.max_length)
            if plan.prepared.kind is TAGGING
            else PairScorer(start, table.encoder == "bi_encoder", model.seed, table.max_length)
        )
        curve = []
        if model.is_trained:
            dev = plan.data_of(model).dev_items(model.kind, model.seed)
            curve = fit(
                learner,
                plan.items_of(model),
                dev,
                table,
                model.seed,
                checkpoints,
                lambda line: note(f"{model.label}: {line}"),
            )
        with translated(folder):
            # A folder of this name is complete.
            building = Path(mkdtemp(prefix=".medstress-", suffix=".part", dir=folder))
            try:
                learner.save(building)
                make_private(building)
                if (folder / model.folder).is_dir():
                    shutil.rmtree(folder / model.folder)
                building.rename(folder / model.folder)
            finally:
                shutil.rmtree(building, ignore_errors=True)
        done = {**own, "measure": learner.measure, "curve": curve}
        # Outside the model's folder, whose content must not change its identity.
        _write(folder / f"{model.folder}.json", done)
        shutil.rmtree(checkpoints, ignore_errors=True)
    return {"measure": done["measure"], "curve": done["curve"]}


def _stages(plan: TrainingPlan, folder: Path) -> list[tuple[ModelPlan, ...]]:
    """Return the original models, then all models; all at once if the folder is past that."""
    originals = tuple(model for model in plan.models if not model.kind.attacks)
    held = set(stored_manifest(folder).get("victims", ()))
    if held - {model.label for model in originals} or len(originals) == len(plan.models):
        return [plan.models]
    return [originals, plan.models]


def _result(folder: Path, model: ModelPlan) -> dict[str, Any] | None:
    """Return hash, measure and curve of a model in the folder of models; None if there is none."""
    return _read(folder / f"{model.folder}.json")


def _read(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    with reading(lambda why: f"cannot read {path} ({why}); remove it to train again", StoreError):
        content: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return content


def _write(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file that is complete or absent."""
    with translated(path.parent):
        write_text(path, json.dumps(dict(content), indent=1, allow_nan=False) + "\n")
