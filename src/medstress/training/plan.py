"""What is to be trained: data, kinds of models, settings; everything but the models loaded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medstress.attacks.noise import Synonym
from medstress.attacks.sentence_attack import SentenceAttack
from medstress.clusters import clusters_of
from medstress.errors import UsageError, did_you_mean
from medstress.experiment.config import Experiment, VictimTable
from medstress.experiment.parts import used_tables
from medstress.experiment.perturb import check_perturbed_alone
from medstress.experiment.prepared import Portion, Prepared
from medstress.experiment.run import Watcher, prepare
from medstress.experiment.sentence_cost import sentence_cost
from medstress.experiment.training_table import ORIGINAL, ORIGINAL_TWICE, UNTRAINED, TrainTable
from medstress.hashing import content_hash
from medstress.metrics.surrogate_lines import met_lines
from medstress.training.cautions import cautions
from medstress.training.copies import Kind, items_by_epoch
from medstress.training.data import (
    Clusters,
    TrainingData,
    chosen_by_number,
    folded_data,
    other_data,
)
from medstress.training.held_out import n_left_out, share_met, with_held_out
from medstress.training.learner import Learner, Start, Wanted, open_learner
from medstress.training.loop import Schedule

_NOT_HASHED = {
    *("adversarial", "seeds", "data", "dev", "device", "model", "choices", "folds", "untrained"),
    "twice",
}
"""Keys of [train] that a model's own description has otherwise, or that change nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlan:
    """One model to be trained."""

    kind: Kind
    """On what."""
    seed: int
    """Of head, order, dropout, perturbed copies and folds."""
    fold: int = 0
    """The fold it is tested on, from 1; 0 where it is tested on all data."""

    @property
    def is_trained(self) -> bool:
        """False for the model as it comes."""
        return self.kind.name != UNTRAINED

    @property
    def name(self) -> str:
        """The victim's name in results; the models of the folds share it."""
        return f"{self.kind.name}-{self.seed}" if self.is_trained else UNTRAINED

    @property
    def label(self) -> str:
        """Its own name."""
        return f"{self.name}, fold {self.fold}" if self.fold else self.name

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
    data: Mapping[tuple[int, int], TrainingData]
    """(seed, fold) -> what is trained on; (0, 0) -> the same for all, without folds."""
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

    def data_of(self, model: ModelPlan) -> TrainingData:
        """What a model is trained on and asked about."""
        return self.data[(model.seed, model.fold) if model.fold else (0, 0)].of(model.kind)

    def items_of(self, model: ModelPlan) -> Callable[[int], Sequence[Any]]:
        """What a model is trained on in each epoch."""
        data = self.data_of(model)
        return items_by_epoch(data.train, data.perturber, model.kind, model.seed)

    def dev_of(self, model: ModelPlan) -> Sequence[Any]:
        """What its epochs are scored on: perturbed as well where it is trained so."""
        data, kind = self.data_of(model), replace(model.kind, n_plain=1)
        return items_by_epoch(data.dev, data.perturber, kind, model.seed)(0)

    def learner(self, model: ModelPlan, start: Start) -> Learner:
        """Open a model to be trained for the task of the data."""
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
        """The model as a victim."""
        keys = self.prepared.kind.trained_victim(self.table.encoder, self.table.prompt)
        return VictimTable(
            name=model.label,
            model=str(folder.resolve()),
            device=self.table.device,
            **keys,
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
        """By attack: the share of replaced mentions whose new name the kind is trained on.

        Of a kind with held-out names also how many items are left out for it, over all folds.
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
        """Each model's part of the items; with folds they are asked about those not trained on."""
        if not self.table.folds:
            return Portion(notes=notes)
        tested = {m.label: self.data_of(m).tested for m in models if m.fold}
        return Portion(
            notes=notes,
            asks=lambda label, item: label not in tested or item.id in (tested[label] or ()),
            names={model.label: model.name for model in models if model.fold},
            settings={"folds": self.table.folds},
        )

    def chosen_by_number(self) -> TrainingPlan:
        """The same for a folder of the first edition, whose noise chose words by their number."""
        parts = [part for model in self.models for part in model.kind.attacks]
        noises = [part.attack for part in parts if isinstance(part.attack, SentenceAttack)]
        data = {
            key: chosen_by_number(found, noises, self.prepared.base)
            for key, found in self.data.items()
        }
        return replace(self, data=data)

    def hash_of(self, model: ModelPlan, start: Start) -> str:
        """What decides a model's weights, but for versions of libraries and the machine."""
        if not model.is_trained:
            return content_hash({"start": start.files.content})
        return content_hash(
            {
                "settings": self.table.model_dump(mode="json", exclude=_NOT_HASHED),
                "start": start.files.content,
                # With its copy: what else perturbs may join or leave without changing it.
                "train": [item.hash for item in self.items_of(model)(0)],
                "dev": [item.hash for item in self.data_of(model).dev],
                "attacks": [part.attack.spec() for part in model.kind.attacks],
                "redrawn": model.kind.is_redrawn,
                "types": list(self.prepared.classes),
                "seed": model.seed,
            }
        )


def plan_training(
    experiment: str | Path | Mapping[str, Any] | Experiment,
    *,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
    clusters: Clusters = clusters_of,
) -> TrainingPlan:
    """Read and check what is to be trained and attacked, and load everything but the models.

    Args:
        experiment: as in `medstress.training.train.train_experiment`.
        limit: at most so many items of the data attacked, and of those trained on.
        overrides: as the command line's --set.
        watcher: who is told about progress.
        clusters: which items are never parted.

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
    if table.twice:
        kinds.insert(1, Kind(name=ORIGINAL_TWICE, n_plain=2))
    models = tuple(_models(prepared, table, kinds))
    if len({model.folder for model in models}) < len(models):
        raise UsageError("[train] adversarial: labels must differ in more than punctuation")
    prepared.kind.check_training(table.prompt, prepared.base)
    watcher.note("data to train on")
    told: tuple[str, ...] = ()
    if table.folds:
        data = folded_data(prepared, table, kinds, watcher, clusters)
    else:
        found, told = other_data(prepared, table, kinds, limit, watcher, clusters)
        data = {(0, 0): found}
    data = {key: with_held_out(prepared, kinds, one) for key, one in data.items()}
    told = (*told, *cautions(prepared, table))
    return TrainingPlan(prepared=prepared, table=table, models=models, data=data, cautions=told)


def training_costs(plan: TrainingPlan) -> Iterator[str]:
    """Lines: what would be trained, and the most that the attacks can cost."""
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
        yield "twice: no training ends early (patience = 0), so that kinds differ by items alone"
    kinds = {model.kind.name: model.kind for model in plan.models if model.kind.attacks}
    told = [{"name": kind.name, **plan.names_met(kind)} for kind in kinds.values()]
    yield from met_lines({"adversarial": told})
    for caution in plan.cautions:
        yield f"! {caution}"
    if plan.prepared.kind.draws_names:
        yield "queries: bounded once the models are trained (medstress run --dry-run)"
        return
    # The models of the folds together are asked what one model without folds is.
    asked = [model for model in plan.models if model.fold <= 1]
    victims = tuple(plan.victim(model, Path(model.folder)) for model in asked)
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


def _models(prepared: Prepared, table: TrainTable, kinds: Sequence[Kind]) -> Iterator[ModelPlan]:
    """The model as it comes where it is wanted, then every kind with every seed and fold."""
    if table.untrained:
        if not prepared.kind.may_be_vectors or table.encoder != "bi_encoder":
            raise UsageError(
                '[train] untrained = true is for sentence pairs with encoder = "bi_encoder": every '
                "other model has a head that has to be trained"
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
        check_perturbed_alone(parts, prepared.kind)
        if entry.held_out_names and not all(isinstance(p.attack, Synonym) for p in parts):
            raise UsageError(
                "[train] adversarial: held_out_names is for synonyms, not for "
                f"{', '.join(entry.attack)}"
            )
        yield Kind(
            name=entry.name,
            attacks=parts,
            is_redrawn=entry.redraw == "epoch",
            has_held_out_names=entry.held_out_names,
        )
