"""`train` on many machines: models, the attacks on them, more models, and the attacks on all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from medstress.core.errors import OtherRunError, StoreError
from medstress.experiment.file.sources import Source
from medstress.files.writing import Access, make_folder, refuse_link
from medstress.fleet.leasing import Fleet, Leasing, opened_once, shards_of
from medstress.fleet.models import digest_of_model, unpack_to
from medstress.fleet.order import ATTACK, TRAINING, Order
from medstress.fleet.outcome import model_line
from medstress.fleet.phases import attack_phase, training_of
from medstress.fleet.run import Spread, Spreading, check_begun_here, order_of
from medstress.fleet.training_work import training_digests
from medstress.running.prepare import Watcher
from medstress.running.run import run_folder
from medstress.store.database import translated
from medstress.training.learner import Start, find_start
from medstress.training.plan import ModelPlan, TrainingPlan
from medstress.training.train import (
    MODELS,
    TrainedFolder,
    check_folder,
    result_file,
    result_of,
    write_comparison,
)


def train_on_workers(
    experiment: str | Path | Source,
    out: str | Path | None,
    fleet: Fleet,
    *,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
) -> tuple[TrainedFolder | None, Spread]:
    """Train and attack as `train_experiment` does, on many machines.

    Each model is trained by one worker and attacked by all. The same call goes on with the phase
    that an earlier one was in; a model that is there is not trained again.

    Args:
        experiment: a TOML file or the name of a shipped recipe, or its text as a `Source`.
        out: the folder; default ``runs/<name>-trained``. Its shards stand in ``<out>-shards``.
        fleet: workers, and the shards of the attacks.
        limit: most items of the attacked data, and of the training data.
        overrides: as the command line's --set.
        watcher: callbacks for progress.

    Returns:
        The folder, None if a limit ended a phase of attacks; and how the last one ended.

    Raises:
        UsageError, DataError, StoreError, BackendError: one sentence; what was shipped is kept.
    """
    watcher = watcher or Watcher()
    order = order_of(experiment, fleet, limit, overrides)
    plan = training_of(order, watcher)
    folder = run_folder(plan.prepared, out, suffix="-trained")
    # Nothing is trained here, so the workers' device need not be here.
    start = find_start(plan.table.model, "cpu", plan.prepared.base)
    check_begun_here(folder, shards_of(folder))
    check_folder(plan, folder, start)
    with opened_once(fleet) as fleet:
        training = _Training(fleet, order, plan, start, folder, watcher)
        spread, before = None, None
        for name, models in _stages(plan):
            training.train(name, models)
            is_last = len(models) == len(plan.models)
            spread, before = training.attack(models, before, is_last=is_last)
            if not spread.is_merged:
                return None, spread
    assert spread is not None
    write_comparison(folder)
    return TrainedFolder(folder=folder, is_complete=True), spread


def _stages(plan: TrainingPlan) -> Iterator[tuple[str, tuple[ModelPlan, ...]]]:
    """Yield the original models, then all."""
    originals = tuple(model for model in plan.models if not model.kind.attacks)
    if len(originals) < len(plan.models):
        yield "original", originals
    yield "all", plan.models


@dataclass(frozen=True, slots=True)
class _Training:
    """One call of `train_on_workers`."""

    fleet: Fleet
    order: Order
    plan: TrainingPlan
    start: Start
    folder: Path
    watcher: Watcher

    @property
    def _models(self) -> Path:
        return self.folder / MODELS

    @property
    def _access(self) -> Access:
        return self.plan.prepared.experiment.experiment.access

    def train(self, name: str, models: Sequence[ModelPlan]) -> None:
        """Have those models trained that are not there yet, each by one worker."""
        done = [
            number
            for number, model in enumerate(models, 1)
            if result_of(self._models, model) is not None
        ]
        if len(done) == len(models):
            return
        with translated(self.folder):
            make_folder(self._models, self._access)
        leasing = Leasing(
            fleet=self.fleet,
            order=replace(
                self.order,
                n_shards=len(models),
                phase={"name": TRAINING, "models": [model.label for model in models]},
            ),
            place=shards_of(self.folder) / f"{name}-models",
            watcher=self.watcher,
            plan=training_digests(self.plan, tuple(models), self.start),
            n_planned=len(models),
            promise=partial(model_line, len(models) - len(done)),
            done=done,
        )
        try:
            outcome, _ = leasing.run(lambda number, data: self._keep(models[number - 1], data))
        except OtherRunError as error:
            raise OtherRunError(
                f"{self.folder} was begun on workers with other models, data or settings; add "
                "models without --ray, which trains and attacks none twice, or choose another "
                "folder with --out",
                self.folder,
            ) from error
        if outcome.n_deaths:
            self.watcher.announce(
                "trainings that ended with their worker, and that others began anew: "
                f"{outcome.n_deaths}"
            )

    def _keep(self, model: ModelPlan, data: bytes) -> None:
        """Put a model that a worker has trained where training puts it; what says so comes last.

        Raises:
            StoreError: the archive is not of this model, or cannot be written.
        """
        if result_of(self._models, model) is not None:
            return
        final = self._models / model.folder
        with (
            translated(self.folder),
            TemporaryDirectory(prefix=".medstress-", suffix=".part", dir=self._models) as scratch,
        ):
            came = Path(scratch) / "came"
            unpack_to(came, data, self._access)
            told = result_of(came, model)
            own = self.plan.hash_of(model, self.start)
            if told is None or told["hash"] != own or not (came / model.folder).is_dir():
                raise StoreError(f"{model.label}: what the worker sent holds no such model")
            refuse_link(final)
            if final.is_dir():  # an earlier driver ended before it said that it is there
                shutil.rmtree(final)
            (came / model.folder).rename(final)
            result_file(came, model).rename(result_file(self._models, model))

    def attack(
        self, models: Sequence[ModelPlan], before: Mapping[str, str] | None, *, is_last: bool
    ) -> tuple[Spread, Mapping[str, str]]:
        """Share out the attacks on models; shards go on with those of the phase before.

        Returns:
            How they ended, and the plan of this phase.
        """
        phase: dict[str, Any] = {
            "name": ATTACK,
            "folder": str(self._models.resolve()),
            "models": {m.label: digest_of_model(self._models / m.folder) for m in models},
            "results": {m.label: self._result(m) for m in models},
        }
        order = replace(self.order, phase=phase)
        spreading = Spreading(
            self.fleet,
            order,
            attack_phase(order, self.plan),
            self.folder,
            shards_of(self.folder),
            self.watcher,
            extends=before,
            is_last=is_last,
        )
        return spreading.go(), spreading.plan

    def _result(self, model: ModelPlan) -> dict[str, Any]:
        found = result_of(self._models, model)
        assert found is not None
        return {"measure": found["measure"], "curve": found["curve"]}
