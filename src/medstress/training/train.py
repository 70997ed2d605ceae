"""Fine-tune, attack, train on perturbed copies as well, attack again; one folder holds it all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from medstress.clusters import Clustered
from medstress.errors import StoreError
from medstress.experiment.config import Experiment
from medstress.experiment.old_synonyms import old_settings
from medstress.experiment.run import Watcher, opened_victims, run_prepared
from medstress.experiment.summary import summarise_run
from medstress.input_files import reading
from medstress.results.load import open_run, stored_manifest
from medstress.store.database import translated
from medstress.store.run_store import lock_folder
from medstress.training.learner import Learner, Start, find_start
from medstress.training.loop import Point, fit
from medstress.training.plan import ModelPlan, TrainingPlan, plan_training
from medstress.writing import Access, give_access, make_folder, refuse_link, write_text

if TYPE_CHECKING:
    from filelock import FileLock

MODELS = "models"
RESULT_FILE = "training.json"
_CHECKPOINTS = ".checkpoints"
_PARTED = (
    "pairs that share a sentence may be both trained on and attacked: the folder was begun by an "
    "earlier version, which kept only documents together"
)
_MINGLED = (
    "sentences of no document are parted like the document that has the same number: the folder "
    "was begun by an earlier version"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedFolder:
    """The folder that a training left behind."""

    folder: Path
    """The run: the attacks on all models, before and after."""
    is_complete: bool
    """False where a limit of the experiment ended the attacks."""


def train_experiment(
    experiment: str | Path | Mapping[str, Any] | Experiment,
    out: str | Path | None = None,
    *,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
) -> TrainedFolder:
    """Fine-tune models, attack them, train adversarial ones, attack those; or go on with it.

    Models that are trained are not trained again. One that was being trained goes on from its
    last checkpoint and ends with the weights of an unbroken training.

    Args:
        experiment: a TOML file or the name of a shipped recipe, a dict of the same shape, or a
            checked `Experiment`.
        out: the folder; default ``runs/<name>-trained``. It is a run folder with the models in
            ``models`` and the comparison in ``training.json``.
        limit: at most so many items of the data attacked, and of those trained on.
        overrides: as the command line's --set.
        watcher: who is told about progress.

    Raises:
        UsageError, DataError, StoreError, BackendError: one sentence; nothing stored is lost.
    """
    watcher = watcher or Watcher()
    plan_by = partial(plan_training, experiment, limit=limit, overrides=overrides, watcher=watcher)
    plan = plan_by()
    name = plan.prepared.experiment.experiment.name
    folder = Path(out) if out is not None else Path("runs") / f"{name}-trained"
    if old := _old_settings(plan, folder):
        given = [*overrides, *old]
        plan = plan_training(experiment, limit=limit, overrides=given, watcher=watcher)
    access = plan.prepared.experiment.experiment.access
    lock = lock_folder(folder, access, others=(MODELS, RESULT_FILE))
    try:
        start = find_start(plan.table.model, plan.table.device, plan.prepared.base)
        plan = _as_begun(plan, plan_by, folder, start)
        results: dict[str, Any] = {}
        for models in _stages(plan, folder):
            for model in models:
                results[model.label] = _trained(plan, model, start, folder / MODELS, watcher.note)
            _attack(plan, models, folder, results, lock, watcher)
            if not stored_manifest(folder)["complete"]:
                return TrainedFolder(folder=folder, is_complete=False)
    finally:
        lock.release()
    with open_run(folder) as stored:
        comparison = summarise_run(stored)["training"]
    _write(folder / RESULT_FILE, {"format": 1, **comparison})
    return TrainedFolder(folder=folder, is_complete=True)


def _old_settings(plan: TrainingPlan, folder: Path) -> list[str]:
    """Overrides with which the plan is that of a folder which an earlier version began."""
    manifest = stored_manifest(folder)
    return old_settings(plan.prepared, manifest.get("attacks", {}))


def _stages(plan: TrainingPlan, folder: Path) -> list[tuple[ModelPlan, ...]]:
    """The original models first, then all of them; at once where the folder is past that."""
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
    """Attack models: a run, or more victims for the one there is."""
    prepared = plan.stage(models, folder / MODELS, results)
    with opened_victims(prepared, watcher.note):
        lock.acquire(timeout=0)  # the store gives one hold back when it closes
        run_prepared(prepared, folder, lock=lock, watcher=watcher)


def _trained(
    plan: TrainingPlan, model: ModelPlan, start: Start, folder: Path, note: Callable[[str], None]
) -> dict[str, Any]:
    """Train a model unless it is there; returns its learning curve."""
    done = _result(folder, model)
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
        _write(_result_file(folder, model), done, access)
        shutil.rmtree(checkpoints, ignore_errors=True)
    return {"measure": done["measure"], "curve": done["curve"]}


def _save(learner: Learner, folder: Path, access: Access) -> None:
    """Write a model's folder beside its place: it is complete, or what it was."""
    with translated(folder):
        building = Path(mkdtemp(prefix=".medstress-", suffix=".part", dir=folder.parent))
        try:
            learner.save(building)
            give_access(building, access)
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
        lambda said: note(f"{model.label}: {said}"),
    )


def _is_by_number(folder: Path) -> bool:
    """Whether a folder's noise chose words by their number, as in the first edition."""
    manifest = stored_manifest(folder)
    groups = manifest.get("groups", {}).values()
    return any(group.get("n_lexicon") and "lexicon" not in group for group in groups)


def _as_begun(
    plan: TrainingPlan, plan_by: Callable[..., TrainingPlan], folder: Path, start: Start
) -> TrainingPlan:
    """The plan by the rules that the folder began with.

    They may count words for noise by their number, part pairs that share a sentence, and take an
    item of no document for part of a document that is called like it.

    Raises:
        StoreError: the folder is of another training.
    """
    by_number = _is_by_number(folder)
    plan = plan.chosen_by_number() if by_number else plan
    try:
        _check_folder(plan, folder, start)
    except StoreError as refused:
        older = plan_by(clusters=_documents_by_name)
        older = older.chosen_by_number() if by_number else older
        try:
            _check_folder(older, folder, start)
        except StoreError:
            raise refused from None
        items = plan.prepared.datasets[0].questions
        caution = _PARTED if any(item.shared_texts for item in items) else _MINGLED
        return replace(older, cautions=(*older.cautions, caution))
    return plan


def _documents_by_name(items: Iterable[Clustered]) -> dict[str, str]:
    return {item.id: str(item.metadata.get("document") or item.id) for item in items}


def _check_folder(plan: TrainingPlan, folder: Path, start: Start) -> None:
    """Refuse, before anything is trained, a folder of another training.

    Raises:
        StoreError: naming the model that is another one.
    """
    models = folder / MODELS
    manifest = stored_manifest(folder)
    if manifest and "training" not in manifest:
        raise StoreError(f"{folder} holds a run that was not trained; choose another --out")
    for model in plan.models:
        begun = _read(models / f"{model.folder}{_CHECKPOINTS}" / "training.json")
        known = _result(models, model) or begun
        if known is not None and known["hash"] != plan.hash_of(model, start):
            raise StoreError(
                f"{folder} holds a model {model.label!r} that was trained on other data or with "
                "other settings; choose another folder with --out, or remove this one"
            )


def _result(folder: Path, model: ModelPlan) -> dict[str, Any] | None:
    return _read(_result_file(folder, model))


def _result_file(folder: Path, model: ModelPlan) -> Path:
    """Beside the model's folder, whose files are its identity."""
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
