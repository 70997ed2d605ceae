"""Adversarial training: fine-tune, attack, train on perturbed copies too, attack again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from medstress.analyses.run import Run
from medstress.analyses.shown import as_json
from medstress.analyses.training import TRAINING
from medstress.core.errors import StoreError
from medstress.experiment.file.config import Experiment
from medstress.experiment.prepare import Watcher, opened_victims
from medstress.experiment.run import execute, run_folder
from medstress.files.reading import reading
from medstress.files.writing import Access, make_folder, refuse_link, set_access, write_text
from medstress.store.database import translated
from medstress.store.reader import stored_manifest
from medstress.store.run_store import lock_folder
from medstress.training.learner import Learner, Start, find_start
from medstress.training.loop import Point, fit
from medstress.training.plan import ModelPlan, TrainingPlan, plan_training

if TYPE_CHECKING:
    from filelock import FileLock

MODELS = "models"
RESULT_FILE = "training.json"
_CHECKPOINTS = ".checkpoints"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedFolder:
    """The folder of a training."""

    folder: Path
    """The run: the attacks on all models, original and adversarially trained."""
    is_complete: bool
    """False if a limit of the experiment ended the attacks."""


def train_experiment(
    experiment: str | Path | Mapping[str, Any] | Experiment,
    out: str | Path | None = None,
    *,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
) -> TrainedFolder:
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
        watcher: receives progress.

    Raises:
        UsageError, DataError, StoreError, BackendError: the training cannot start or continue;
            nothing stored is lost.
    """
    watcher = watcher or Watcher()
    plan = plan_training(experiment, limit=limit, overrides=overrides, watcher=watcher)
    folder = run_folder(plan.prepared, out, suffix="-trained")
    access = plan.prepared.experiment.experiment.access
    lock = lock_folder(folder, access, others=(MODELS, RESULT_FILE))
    try:
        start = find_start(plan.table.model, plan.table.device, plan.prepared.base)
        check_folder(plan, folder, start)
        results: dict[str, Any] = {}
        for models in _stages(plan, folder):
            for model in models:
                results[model.label] = trained(plan, model, start, folder / MODELS, watcher.note)
            _attack(plan, models, folder, results, lock, watcher)
            if not stored_manifest(folder)["complete"]:
                return TrainedFolder(folder=folder, is_complete=False)
    finally:
        lock.release()
    write_comparison(folder)
    return TrainedFolder(folder=folder, is_complete=True)


def write_comparison(folder: Path) -> None:
    """Write the comparison of the models beside the run of the attacks on them."""
    comparison = as_json(Run.open(folder).of(TRAINING))
    _write(folder / RESULT_FILE, {"format": 1, **comparison})


def _stages(plan: TrainingPlan, folder: Path) -> list[tuple[ModelPlan, ...]]:
    """Return the original models, then all models; all at once if the folder is past that."""
    originals = tuple(model for model in plan.models if not model.kind.attacks)
    held = set(stored_manifest(folder).get("victims", ()))
    if held - {model.label for model in originals} or len(originals) == len(plan.models):
        return [plan.models]
    return [originals, plan.models]


def _attack(
    plan: TrainingPlan,
    models: Sequence[ModelPlan],
    folder: Path,
    results: Mapping[str, Any],
    lock: FileLock,
    watcher: Watcher,
) -> None:
    """Attack models in a new run, or add them as victims to the existing one."""
    prepared = plan.stage(models, folder / MODELS, results)
    with opened_victims(prepared, watcher.note):
        execute(prepared, folder, lock=lock, watcher=watcher)


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
    done = result_of(folder, model)
    if done is None:
        checkpoints = folder / f"{model.folder}{_CHECKPOINTS}"
        own = plan.hash_of(model, start)
        access = plan.prepared.experiment.experiment.access
        with translated(folder):
            for place in (folder, checkpoints):
                make_folder(place, access)
            refuse_link(folder / model.folder)
        _write(checkpoints / "training.json", {"hash": own}, access)
        note(f"{model.label}: opening {start.name}")
        learner = plan.learner(model, start)
        curve = _fit(plan, model, learner, checkpoints, note) if model.is_trained else []
        _save(learner, folder / model.folder, access)
        done = {
            "hash": own,
            "measure": learner.measure,
            "curve": [asdict(point) for point in curve],
        }
        _write(result_file(folder, model), done, access)
        shutil.rmtree(checkpoints, ignore_errors=True)
    return {"measure": done["measure"], "curve": done["curve"]}


def _save(learner: Learner, folder: Path, access: Access) -> None:
    """Write a model's folder under a temporary name, then rename it."""
    with translated(folder):
        building = Path(mkdtemp(prefix=".medstress-", suffix=".part", dir=folder.parent))
        try:
            learner.save(building)
            set_access(building, access)
            if folder.is_dir():
                shutil.rmtree(folder)
            building.rename(folder)
        finally:
            shutil.rmtree(building, ignore_errors=True)


def _fit(
    plan: TrainingPlan,
    model: ModelPlan,
    learner: Learner,
    checkpoints: Path,
    note: Callable[[str], None],
) -> list[Point]:
    return fit(
        learner,
        plan.items_of(model),
        plan.dev_of(model),
        plan.schedule(model),
        checkpoints,
        lambda line: note(f"{model.label}: {line}"),
    )


def check_folder(plan: TrainingPlan, folder: Path, start: Start) -> None:
    """Refuse a folder of another training before anything is trained.

    Raises:
        StoreError: the folder has no training, or a model with another hash; names the model.
    """
    models = folder / MODELS
    manifest = stored_manifest(folder)
    if manifest and "training" not in manifest:
        raise StoreError(f"{folder} holds a run without training; choose another --out")
    for model in plan.models:
        begun = _read(models / f"{model.folder}{_CHECKPOINTS}" / "training.json")
        known = result_of(models, model) or begun
        if known is not None and known["hash"] != plan.hash_of(model, start):
            raise StoreError(
                f"{folder} holds a model {model.label!r} that was trained on other data or with "
                "other settings; choose another folder with --out, or delete this one"
            )


def result_of(folder: Path, model: ModelPlan) -> dict[str, Any] | None:
    """Return hash, measure and curve of a model in the folder of models; None if there is none."""
    return _read(result_file(folder, model))


def result_file(folder: Path, model: ModelPlan) -> Path:
    """Return a path beside the model's folder, whose content must not change its identity."""
    return folder / f"{model.folder}.json"


def _read(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    with reading(lambda why: f"cannot read {path} ({why}); remove it to train again", StoreError):
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def _write(path: Path, content: Mapping[str, Any], access: Access | None = None) -> None:
    """Write a file that is complete or absent."""
    try:
        write_text(path, json.dumps(dict(content), indent=1, allow_nan=False) + "\n", access)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from error
