"""Planning a training: data, kinds of models and settings; models are not loaded yet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medstress.analyses.training import Kind as KindRecord
from medstress.analyses.training import on_names
from medstress.attacks.noise import Synonym
from medstress.core.errors import UsageError, did_you_mean
from medstress.core.hashing import content_hash
from medstress.experiment.dry_run import DryRun, dry_run
from medstress.experiment.file.config import (
    ORIGINAL,
    ORIGINAL_TWICE,
    UNTRAINED,
    Experiment,
    TrainTable,
    VictimTable,
)
from medstress.experiment.file.reading import Source
from medstress.experiment.perturb import check_perturbed_alone
from medstress.experiment.plan.parts import used_tables
from medstress.experiment.plan.plan import Portion, Prepared
from medstress.experiment.prepare import Watcher, prepare
from medstress.tasks.kinds import CHOICE, SIMILARITY
from medstress.training.cautions import cautions
from medstress.training.choice import head_template
from medstress.training.copies import Kind, items_by_epoch
from medstress.training.data import (
    TrainingData,
    folded_data,
    other_data,
)
from medstress.training.held_out import n_left_out, share_met, with_held_out
from medstress.training.learner import LEARNERS, Learner, Start, Wanted, open_learner
from medstress.training.loop import Schedule

_NOT_HASHED = {
    *("adversarial", "seeds", "data", "dev", "device", "model", "choices", "folds", "untrained"),
    "twice",
}
"""Keys of [train] that do not change a model, or that its hash covers in another form."""


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
    table: TrainTable
    """`[train]`."""
    models: tuple[ModelPlan, ...]
    """All models, those trained on original data first."""
    data: Mapping[tuple[int, int], TrainingData]
    """(seed, fold) -> training data; without folds, (0, 0) -> the data of all models."""
    cautions: tuple[str, ...]
    """Warnings for readers of the results."""

    def schedule(self, model: ModelPlan) -> Schedule:
        """Return the hyper-parameters of a model."""
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

    def data_of(self, model: ModelPlan) -> TrainingData:
        """Return the data that a model is trained and tested on."""
        return self.data[(model.seed, model.fold) if model.fold else (0, 0)].of(model.kind)

    def items_of(self, model: ModelPlan) -> Callable[[int], Sequence[Any]]:
        """Return a function epoch -> training items."""
        data = self.data_of(model)
        return items_by_epoch(data.train, data.perturber, model.kind, model.seed)

    def dev_of(self, model: ModelPlan) -> Sequence[Any]:
        """Return the items that score its epochs, with perturbed copies if training has them."""
        data, kind = self.data_of(model), replace(model.kind, n_plain=1)
        return items_by_epoch(data.dev, data.perturber, kind, model.seed)(0)

    def learner(self, model: ModelPlan, start: Start) -> Learner:
        """Open a model for training on the task of the data."""
        wanted = Wanted(
            start=start,
            seed=model.seed,
            max_length=self.table.max_length,
            encoder=self.table.encoder,
            prompt=self.table.prompt,
            classes=self.prepared.classes,
            base=self.prepared.base,
        )
        return open_learner(self.prepared.kind, wanted)

    def victim(self, model: ModelPlan, folder: Path) -> VictimTable:
        """Return the trained model as a victim."""
        keys: dict[str, Any] = {"backend": "transformers"}
        if self.prepared.kind is CHOICE:
            keys |= {"answer_by": "head", "prompt": self.table.prompt}
        elif self.prepared.kind is SIMILARITY and self.table.encoder == "bi_encoder":
            keys = {"backend": "sentence_transformers"}
        return VictimTable(
            name=model.label,
            model=str(folder.resolve()),
            device=self.table.device,
            **keys,
        )

    def stage(
        self, models: Sequence[ModelPlan], folder: Path, curves: Mapping[str, Any]
    ) -> Prepared:
        """Prepare the run that attacks some of the models.

        Args:
            models: the models to attack.
            folder: folder with the models' folders.
            curves: label -> measure and learning curve of the training.
        """
        victims = tuple(self.victim(model, folder / model.folder) for model in models)
        notes = {
            "model": self.table.model,
            "n_train": max(len(data.train) for data in self.data.values()),
            "n_dev": max(len(data.dev) for data in self.data.values()),
            **({"folds": self.table.folds} if self.table.folds else {}),
            "adversarial": [
                {
                    "name": kind.name,
                    "attacks": [part.label for part in kind.attacks],
                    "redrawn": kind.is_redrawn,
                    **self.names_met(kind),
                }
                for kind in {m.kind.name: m.kind for m in models}.values()
                if kind.attacks
            ],
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
        experiment = self.prepared.experiment.model_copy(update={"victim": victims})
        portion = self._portion(models, {"training": notes})
        return replace(self.prepared, experiment=experiment, portion=portion, victims=[])

    def names_met(self, kind: Kind) -> dict[str, Any]:
        """Return by attack the share of replaced mentions whose new name is in the training data.

        For a kind with held-out names also how many items it leaves out, over all folds.
        """
        met = {
            part.label: share_met(part.attack, self.prepared, self.data.values(), kind)
            for part in kind.attacks
            if isinstance(part.attack, Synonym) and not self.prepared.kind.draws_names
        }
        found: dict[str, Any] = {"names_met": met} if met else {}
        if kind.has_held_out_names:
            n, n_offered = n_left_out(self.data.values(), kind)
            found |= {"n_left_out": n, "n_offered": n_offered}
        return found

    def _portion(self, models: Sequence[ModelPlan], notes: Mapping[str, Any]) -> Portion:
        """Return each model's share of the items; with folds, those it is not trained on."""
        if not self.table.folds:
            return Portion(notes=notes)
        tested = {m.label: self.data_of(m).tested for m in models if m.fold}
        return Portion(
            notes=notes,
            asks=lambda label, item: label not in tested or item.id in (tested[label] or ()),
            names={model.label: model.name for model in models if model.fold},
            settings={"folds": self.table.folds},
        )

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
        experiment: as in `medstress.training.train.train_experiment`.
        limit: most items of the attacked data, and of the training data.
        overrides: as for `--set` on the command line.
        watcher: receives progress.

    Raises:
        UsageError, DataError: the experiment or its data are invalid.
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
    if table.twice:
        kinds.insert(1, Kind(name=ORIGINAL_TWICE, n_plain=2))
    models = tuple(_models(prepared, table, kinds))
    if len({model.folder for model in models}) < len(models):
        raise UsageError("[train] adversarial: labels must differ in more than punctuation")
    if prepared.kind.name not in LEARNERS:
        raise UsageError(f"medstress train trains no model for {prepared.kind.name}")
    if prepared.kind is CHOICE:
        head_template(table.prompt, prepared.base)
    watcher.note("data to train on")
    overlaps: tuple[str, ...] = ()
    if table.folds:
        data = folded_data(prepared, table, kinds, watcher)
    else:
        found, overlaps = other_data(prepared, table, kinds, limit, watcher)
        data = {(0, 0): found}
    return TrainingPlan(
        prepared=prepared,
        table=table,
        models=models,
        data={key: with_held_out(prepared, kinds, one) for key, one in data.items()},
        cautions=(*overlaps, *cautions(prepared, table)),
    )


def training_costs(plan: TrainingPlan) -> DryRun:
    """Return the most that the attacks on the trained models can cost."""
    # The models of all folds together get as many queries as one model without folds.
    asked = [model for model in plan.models if model.fold <= 1]
    victims = tuple(plan.victim(model, Path(model.folder)) for model in asked)
    for part in plan.prepared.attacks:
        if "turns" in part.attack.needs:
            raise UsageError(
                f"attack {part.label!r} holds a conversation, as no trained model does"
            )
    experiment = plan.prepared.experiment.model_copy(update={"victim": victims})
    return dry_run(replace(plan.prepared, experiment=experiment))


def training_lines(plan: TrainingPlan) -> Iterator[str]:
    """Yield lines about the models to train."""
    table = plan.table
    for kind in {model.kind.name: model.kind for model in plan.models}.values():
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
    kinds = {model.kind.name: model.kind for model in plan.models if model.kind.attacks}
    yield from on_names(
        KindRecord(name=kind.name, attacks=(), **plan.names_met(kind)) for kind in kinds.values()
    )
    for caution in plan.cautions:
        yield f"! {caution}"


def _put_victim(raw: dict[str, Any]) -> None:
    """Add a placeholder for the victims, which are the models to be trained."""
    if "train" not in raw:
        raise UsageError("experiment: the table [train] is missing")
    if any(victim.get("use", True) for victim in _tables(raw.get("victim"))):
        raise UsageError(
            "medstress train attacks the models that it trains; remove [[victim]], or attack "
            "others with medstress run"
        )
    if len([d for d in _tables(raw.get("dataset")) if d.get("use", True)]) > 1:
        raise UsageError(
            "medstress train: expected one [[dataset]], the attacked one; give the training data "
            "as [train] data"
        )
    raw["victim"] = [{"backend": "transformers", "model": "trained"}]


def _models(prepared: Prepared, table: TrainTable, kinds: Sequence[Kind]) -> Iterator[ModelPlan]:
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
