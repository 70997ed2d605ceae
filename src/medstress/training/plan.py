"""What is to be trained: data, kinds of models, settings; everything but the models loaded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medstress.attacks.noise import NoiseResources
from medstress.attacks.protocol import PAIRS, QUESTIONS, TAGGED
from medstress.attacks.sentence_attack import SentenceAttack
from medstress.errors import UsageError, did_you_mean
from medstress.experiment.config import Experiment, VictimTable
from medstress.experiment.noise_resources import noise_resources
from medstress.experiment.parts import (
    GroupPart,
    load_datasets,
    load_groups,
    used_tables,
)
from medstress.experiment.perturb import check_perturbed_alone
from medstress.experiment.prepared import Portion, Prepared
from medstress.experiment.reading import check_table
from medstress.experiment.recognising import recognise_mentions
from medstress.experiment.run import Watcher, prepare
from medstress.experiment.sentence_cost import sentence_cost
from medstress.experiment.sentence_groups import asked_of
from medstress.experiment.training_table import ORIGINAL, TrainTable
from medstress.hashing import content_hash
from medstress.training.choice import ChoiceLearner, head_template
from medstress.training.copies import Kind, Perturber, items_by_epoch, shared_with, split_off
from medstress.training.learner import Learner, Start
from medstress.training.loop import Schedule
from medstress.training.pairs import BiEncoderLearner, CrossEncoderLearner
from medstress.training.tagging import TaggingLearner

_OF_TESTED = ("label", "limit", "sample_seed", "use")
"""Keys of the attacked data set that do not hold for the data trained on."""
_NOT_HASHED = {"adversarial", "seeds", "data", "dev", "device", "model", "choices"}
"""Keys of [train] that a model's own description has otherwise, or that change nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlan:
    """One model to be trained."""

    kind: Kind
    """On what."""
    seed: int
    """Of head, order, dropout and perturbed copies."""

    @property
    def label(self) -> str:
        """The victim's name in results."""
        return f"{self.kind.name}-{self.seed}"

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return re.sub(r"[^A-Za-z0-9._+-]+", "_", self.label)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """A training with everything loaded but the models."""

    prepared: Prepared
    """The attacks on the data that are attacked; its victims are put in later."""
    table: TrainTable
    """`[train]`."""
    models: tuple[ModelPlan, ...]
    """The original ones first."""
    train: tuple[Any, ...]
    """Items to train on."""
    dev: tuple[Any, ...]
    """Items to choose the epoch by."""
    perturber: Perturber
    """Of both."""
    cautions: tuple[str, ...]
    """What a reader of the results should know."""

    def schedule(self, model: ModelPlan) -> Schedule:
        """How a model is trained."""
        table = self.table
        return Schedule(
            epochs=table.epochs,
            batch_size=table.batch_size,
            learning_rate=table.learning_rate,
            warmup=table.warmup,
            patience=table.patience,
            seed=model.seed,
            dtype=table.dtype,
        )

    def items_of(self, model: ModelPlan) -> Callable[[int], Sequence[Any]]:
        """What a model is trained on in each epoch."""
        return items_by_epoch(self.train, self.perturber, model.kind, model.seed)

    def dev_of(self, model: ModelPlan) -> Sequence[Any]:
        """What its epochs are scored on: perturbed as well where it is trained so."""
        return items_by_epoch(self.dev, self.perturber, model.kind, model.seed)(0)

    def learner(self, model: ModelPlan, start: Start) -> Learner:
        """Open a model to be trained for the task of the data."""
        kind, length = self.prepared.asked.kind, self.table.max_length
        if kind == TAGGED:
            return TaggingLearner(start, self.prepared.asked.types, model.seed, length)
        if kind == QUESTIONS:
            return ChoiceLearner(start, model.seed, length, self.table.prompt, self.prepared.base)
        made = BiEncoderLearner if self.table.encoder == "bi_encoder" else CrossEncoderLearner
        return made(start, model.seed, length)

    def victim(self, model: ModelPlan, folder: Path) -> VictimTable:
        """The model as a victim."""
        questions = self.prepared.asked.kind == QUESTIONS
        is_vectors = self.prepared.asked.kind == PAIRS and self.table.encoder == "bi_encoder"
        extra: dict[str, Any] = {"answer_by": "head", "prompt": self.table.prompt}
        return VictimTable(
            name=model.label,
            backend="sentence_transformers" if is_vectors else "transformers",
            model=str(folder.resolve()),
            device=self.table.device,
            **(extra if questions else {}),
        )

    def stage(
        self, models: Sequence[ModelPlan], folder: Path, curves: Mapping[str, Any]
    ) -> Prepared:
        """The run that attacks some of the models.

        Args:
            models: which.
            folder: that holds theirs.
            curves: label -> what became of the training.
        """
        victims = tuple(self.victim(model, folder / model.folder) for model in models)
        notes = {
            "model": self.table.model,
            "n_train": len(self.train),
            "n_dev": len(self.dev),
            "adversarial": [
                {
                    "name": kind.name,
                    "attacks": [part.label for part in kind.attacks],
                    "redrawn": kind.is_redrawn,
                }
                for kind in {m.kind.name: m.kind for m in models}.values()
                if kind.attacks
            ],
            "models": [
                {"victim": m.label, "model": m.kind.name, "seed": m.seed, **curves[m.label]}
                for m in models
            ],
            "cautions": list(self.cautions),
        }
        experiment = self.prepared.experiment.model_copy(update={"victim": victims})
        portion = Portion(notes={"training": notes})
        return replace(self.prepared, experiment=experiment, portion=portion, victims=[])

    def hash_of(self, model: ModelPlan, start: Start) -> str:
        """What decides a model's weights, but for versions of libraries and the machine."""
        return content_hash(
            {
                "settings": self.table.model_dump(mode="json", exclude=_NOT_HASHED),
                "start": start.files.content,
                # With its copy: what else perturbs may join or leave without changing it.
                "train": [item.hash for item in self.items_of(model)(0)],
                "dev": [item.hash for item in self.dev],
                "attacks": [part.attack.spec() for part in model.kind.attacks],
                "redrawn": model.kind.is_redrawn,
                "types": list(self.prepared.asked.types),
                "seed": model.seed,
            }
        )


def plan_training(
    experiment: str | Path | Mapping[str, Any] | Experiment,
    *,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
) -> TrainingPlan:
    """Read and check what is to be trained and attacked, and load everything but the models.

    Raises:
        UsageError, DataError: one sentence.
    """
    watcher = watcher or Watcher()
    if isinstance(experiment, Experiment):
        experiment = used_tables(experiment)
    prepared = prepare(
        experiment, limit=limit, overrides=overrides, watcher=watcher, complete=_put_victim
    )
    table = prepared.experiment.train
    assert table is not None
    kinds = [Kind(name=ORIGINAL), *_kinds(prepared, table)]
    models = tuple(ModelPlan(kind=kind, seed=seed) for kind in kinds for seed in table.seeds)
    if len({model.folder for model in models}) < len(models):
        raise UsageError("[train] adversarial: labels must differ in more than punctuation")
    if prepared.asked.kind == QUESTIONS:
        head_template(table.prompt, prepared.base)
    watcher.note("data to train on")
    train, dev = _data(prepared, table, limit)
    attacked = prepared.datasets[0].questions
    n_shared = shared_with((*train, *dev), attacked)
    if n_shared == len(attacked):
        raise UsageError(
            "[train] data: every item that is attacked is among those trained on; say where "
            'other data are, e.g. data = {split = "train"} or data = {path = "train.iob"}'
        )
    told = f"{n_shared} of {len(attacked)} attacked items are in the data trained on as well"
    return TrainingPlan(
        prepared=prepared,
        table=table,
        models=models,
        train=train,
        dev=dev,
        perturber=_perturber(prepared, kinds, train, dev, watcher),
        cautions=(told,) if n_shared else (),
    )


def training_costs(plan: TrainingPlan) -> Iterator[str]:
    """Lines: what would be trained, and the most that the attacks can cost."""
    n, table = len(plan.train), plan.table
    for kind in {model.kind.name: model.kind for model in plan.models}.values():
        items = n * (2 if kind.attacks else 1)
        steps = -(-items // table.batch_size)
        yield (
            f"{kind.name}: {len(table.seeds)} models, {items:,} items an epoch, about {steps:,} "
            f"steps, at most {table.epochs} epochs, {len(plan.dev):,} dev items"
        )
    for caution in plan.cautions:
        yield f"! {caution}"
    if plan.prepared.asked.kind == QUESTIONS:
        yield "queries: bounded once the models are trained (medstress run --dry-run)"
        return
    victims = tuple(plan.victim(model, Path(model.folder)) for model in plan.models)
    experiment = plan.prepared.experiment.model_copy(update={"victim": victims})
    yield from sentence_cost(replace(plan.prepared, experiment=experiment))


def _put_victim(raw: dict[str, Any]) -> None:
    """Stand in for the victims, which are the models to be trained."""
    if "train" not in raw:
        raise UsageError("experiment: the table [train] is missing")
    if any(victim.get("use", True) for victim in _tables(raw.get("victim"))):
        raise UsageError(
            "medstress train attacks the models that it trains; take [[victim]] out, or attack "
            "others with medstress run"
        )
    if len([d for d in _tables(raw.get("dataset")) if d.get("use", True)]) > 1:
        raise UsageError(
            "medstress train: expected one [[dataset]], the one that is attacked; [train] data "
            "says how the data trained on differ from it"
        )
    raw["victim"] = [{"backend": "transformers", "model": "trained"}]


def _tables(given: Any) -> list[dict[str, Any]]:
    rows = given if isinstance(given, list) else [given]
    return [row for row in rows if isinstance(row, dict)]


def _kinds(prepared: Prepared, table: TrainTable) -> Iterator[Kind]:
    by_label = {part.label: part for part in prepared.attacks}
    for entry in table.adversarial:
        for name in entry.attack:
            if name not in by_label:
                raise UsageError(
                    f"[train] adversarial: there is no [[attack]] {name!r}"
                    f"{did_you_mean(name, by_label)} (there are: {', '.join(by_label)})"
                )
        parts = tuple(by_label[name] for name in entry.attack)
        check_perturbed_alone(parts, prepared.asked.kind)
        yield Kind(name=entry.name, attacks=parts, is_redrawn=entry.redraw == "epoch")


def _data(
    prepared: Prepared, table: TrainTable, limit: int | None
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Items to train on and to choose the epoch by, of the kind that is attacked."""
    train = _load(prepared, "data", table.data, limit)
    if isinstance(table.dev, dict):
        return train, _load(prepared, "dev", table.dev, limit)
    return split_off(train, table.dev)


def _load(
    prepared: Prepared, key: str, changes: Mapping[str, Any], limit: int | None
) -> tuple[Any, ...]:
    (tested,) = prepared.experiment.dataset
    kept = tested.model_dump(exclude_defaults=True, exclude=set(_OF_TESTED))
    try:
        (part,) = load_datasets([check_table("dataset", {**kept, **changes})], prepared.base, limit)
    except UsageError as error:
        raise UsageError(f"[train] {key}: {error}") from error
    found = asked_of([part])
    if found.kind != prepared.asked.kind:
        raise UsageError(
            f"[train] {key}: expected {prepared.asked.kind} as the data attacked, got {found.kind}"
        )
    if missing := [t for t in found.types if t not in prepared.asked.types]:
        raise UsageError(
            f"[train] {key}: the type {missing[0]!r} does not occur in the data attacked (there: "
            f"{', '.join(prepared.asked.types)})"
        )
    if found.kind == QUESTIONS and prepared.experiment.entities:
        tables = prepared.experiment.entities
        (part,) = recognise_mentions(tables, prepared.base, [part], lambda _: None).datasets
    return part.questions


def _perturber(
    prepared: Prepared, kinds: Sequence[Kind], train: Any, dev: Any, watcher: Watcher
) -> Perturber:
    """What perturbs the data trained on; reads nothing of the data attacked."""
    parts = list({part.label: part for kind in kinds for part in kind.attacks}.values())
    stream = prepared.datasets[0].label
    if prepared.asked.kind != QUESTIONS:
        noises = [part.attack for part in parts if isinstance(part.attack, SentenceAttack)]
        noise = noise_resources([*train, *dev], noises, prepared.base)
        return Perturber(stream=stream, noise=noise)
    groups: list[GroupPart] = []
    if parts:
        whole = replace(prepared.datasets[0], questions=(*train, *dev))
        tables, note = prepared.experiment.entities, watcher.note
        groups = load_groups(tables, prepared.base, [whole], note, watcher.vectors)
    return Perturber(stream=stream, noise=NoiseResources(), groups=tuple(groups))
