"""Choose the exponent n on a tuning split, then report on the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medstress.analyses.as_json import as_json
from medstress.analyses.run import Run
from medstress.analyses.tuning import (
    REPORT,
    SAME_ITEMS,
    TUNING,
    Choice,
    Chosen,
    Grid,
    has_n,
    places_without_n,
    regime_of,
    template_of,
)
from medstress.attacks.controls.arm import ControlArm
from medstress.core.arms import Place
from medstress.core.errors import StoreError, UsageError
from medstress.core.outcomes import Verdict
from medstress.costs.experiment import estimate
from medstress.experiment.file.config import Experiment, TuneTable
from medstress.experiment.file.labels import victim_labels
from medstress.experiment.file.sources import Source
from medstress.experiment.plan.parts import AttackPart
from medstress.experiment.plan.plan import Portion, Prepared
from medstress.experiment.plan.spending import NO_USAGE, Usage
from medstress.files.writing import refuse_link, write_text
from medstress.running.opened import opened_victims
from medstress.running.prepare import Watcher, prepare
from medstress.running.run import run_folder, run_prepared
from medstress.store.database import translated
from medstress.store.reader import stored_manifest
from medstress.store.run_store import FILE, lock_folder
from medstress.tuning.plan import TuningPlan, check_plan, tune_every_n

if TYPE_CHECKING:
    from filelock import FileLock

SPLIT_FOLDER = "tuning"
RESULT_FILE = "tune.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedFolders:
    """The run folders of tuning."""

    tuning: Path
    """The trials that n was chosen from."""
    report: Path | None
    """The report with the chosen n; None if the tuning trials are not complete or too many of them
    failed. The same as `tuning` if n is chosen on the reported items."""


def plan_tuning(
    experiment: str | Path | Mapping[str, Any] | Experiment | Source,
    *,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
) -> TuningPlan:
    """Read and check the experiment to tune, and load everything but the models.

    Raises:
        UsageError, DataError: one sentence.
    """
    if isinstance(experiment, Experiment):
        experiment = experiment.model_dump(mode="json", exclude_none=True)
    prepared = prepare(
        experiment, limit=limit, overrides=overrides, watcher=watcher, complete=tune_every_n
    )
    # Only the report has control arms; n is chosen by ASR alone.
    arms = [part for part in prepared.attacks if isinstance(part.attack, ControlArm)]
    prepared.attacks = [part for part in prepared.attacks if part not in arms]
    table = prepared.experiment.tune or TuneTable()
    plan = TuningPlan(prepared=prepared, table=table, controls=tuple(arms))
    check_plan(plan)
    return plan


def tune_experiment(
    experiment: str | Path | Mapping[str, Any] | Experiment,
    out: str | Path | None = None,
    *,
    fresh: bool = False,
    retry_failed: bool = False,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
) -> TunedFolders:
    """Choose n of every `pdws` attack on a tuning split, then report on the rest; or resume.

    For each data set, group, victim and regime (n < 0, n > 0), the n with the largest attack
    success rate on the tuning split is chosen. Only this n runs on the other items.

    *Differs from the paper*, which reports the maximum over n on the items that chose it. So does
    `share = 1` in `[tune]` (`choices = "as_published"`), labelled optimistic.

    Args:
        experiment: a TOML file, a dict of the same shape, or a checked `Experiment`.
        out: folder of the report; default ``runs/<name>-tuned``. The tuning split's run is the
            folder ``tuning`` in it.
        fresh: throw away what the folder holds.
        retry_failed: run failed trials again.
        limit: most items of each data set.
        overrides: as the command line's --set.
        watcher: callbacks for progress.

    Raises:
        UsageError, DataError, StoreError, BackendError: one sentence; nothing stored is lost.
    """
    watcher = watcher or Watcher()
    plan = plan_tuning(experiment, limit=limit, overrides=overrides, watcher=watcher)
    prepared = plan.prepared
    folder = run_folder(prepared, out, suffix="-tuned")
    if fresh:
        _check_is_run(folder)
    access = prepared.experiment.experiment.access
    lock = lock_folder(folder, access, others=(SPLIT_FOLDER, RESULT_FILE))
    try:
        if not fresh:
            check_folder(plan, folder)
        # Victims are opened before anything is deleted or stored.
        with opened_victims(prepared, watcher.note):
            if fresh:
                _throw_away(folder)
            return _tune(plan, folder, lock, retry_failed, watcher)
    finally:
        lock.release()


def tuning_costs(plan: TuningPlan) -> Iterator[str]:
    """Yield lines on the most that tuning and the report would cost."""
    tuning = plan.tuning()
    n = len(plan.table.grid)
    if plan.same_items:
        yield f"{n} values of n over all items, which are also the report:"
        yield from estimate(tuning)
        return
    yield f"tuning split, {n} values of n (shared answers are paid once):"
    yield from (f"  {line}" for line in estimate(tuning))
    yield "report on the rest, with one n of each sign:"
    shown: dict[tuple[str, str | None], AttackPart] = {}
    for part in plan.prepared.attacks:
        spec = part.attack.spec()
        if has_n(spec) and (regime := regime_of(spec["n"])) is not None:
            shown.setdefault((template_of(spec), regime), part)
        elif not has_n(spec):
            shown[part.label, None] = part
    rest = Portion(keep=lambda item: not plan.is_tuned_on(item))
    attacks = plan.with_controls(shown.values())
    report = replace(plan.prepared, attacks=attacks, portion=rest)
    yield from (f"  {line}" for line in estimate(report))


def split_folder(plan: TuningPlan, folder: Path) -> Path:
    """Return the folder of the run that n is chosen from."""
    return folder if plan.same_items else folder / SPLIT_FOLDER


def split_of(plan: TuningPlan, split: Path) -> Prepared:
    """Prepare the run that n is chosen from; its folder may hold victims that were left out."""
    tuned = plan.tuning()
    return replace(tuned, portion=replace(tuned.portion, may_lack=_left_out(split)))


def _tune(
    plan: TuningPlan, folder: Path, lock: FileLock, retry_failed: bool, watcher: Watcher
) -> TunedFolders:
    split = split_folder(plan, folder)
    usage = run_prepared(
        split_of(plan, split),
        split,
        lock=lock if plan.same_items else None,
        retry_failed=retry_failed,
        watcher=watcher,
    )
    if plan.same_items:
        write_result(folder)
        return TunedFolders(tuning=split, report=split)
    best = chosen(plan, split)
    if best is None:
        return TunedFolders(tuning=split, report=None)
    check_choices(folder, best.choices)
    run_prepared(
        report_of(plan, best, usage),
        folder,
        lock=lock,
        retry_failed=retry_failed,
        watcher=watcher,
    )
    write_result(folder)
    return TunedFolders(tuning=split, report=folder)


def chosen(plan: TuningPlan, split: Path) -> Chosen | None:
    """Return the grids of the tuning split's run and the chosen n.

    Returns:
        None if its trials are not complete, or too many of them failed.
    """
    run = Run.open(split)
    tuning = run.of(TUNING)
    if tuning is None or not run.is_complete or _has_failed(run, plan):
        return None
    return Chosen(grids=tuning.grids, choices=tuning.choices)


def report_of(plan: TuningPlan, best: Chosen, usage: Usage = NO_USAGE) -> Prepared:
    """Prepare the run on the other items: the chosen n of each place, and the untuned attacks.

    A victim without a right tuning item in a place has no n and is left out there; its summary
    says so.

    Args:
        plan: its victims need not be open.
        best: what `chosen` returned.
        usage: of the tuning split's run, which counts against the limits.

    Raises:
        UsageError: no victim is left.
    """
    labels = set(victim_labels(plan.prepared.experiment.victim))
    grids = [grid for grid in best.grids if grid.victim in labels]
    without_n = places_without_n(grids)
    if without_n and without_n.keys() == {grid.place for grid in grids if grid.n_items}:
        (dataset, group, victim), n = next(iter(without_n.items()))
        raise UsageError(
            f"victim {victim!r} answered none of the {n} tuning items of {dataset}/{group} "
            "correctly, so n cannot be tuned: use more items, a larger share in [tune] or another "
            "victim, with --fresh"
        )
    places = {(one.place, template_of(one.template), one.n) for one in best.choices}

    def holds(dataset: str, group: str, victim: str, part: AttackPart) -> bool:
        if isinstance(part.attack, ControlArm):
            part = replace(part, attack=part.attack.of)
        if not has_n(part.attack.spec()):
            return (dataset, group, victim) not in without_n
        attack: Any = part.attack
        return (Place(dataset, group, victim), plan.template(attack), attack.n) in places

    used = {(template, n) for _, template, n in places}

    def is_used(attack: Any) -> bool:
        return not has_n(attack.spec()) or (plan.template(attack), attack.n) in used

    attacks = plan.with_controls(p for p in plan.prepared.attacks if is_used(p.attack))
    results = as_json(Chosen(grids=grids, choices=best.choices))
    portion = replace(
        plan.portion(REPORT),
        keep=lambda item: not plan.is_tuned_on(item),
        holds=holds,
        notes={"tuning": {**plan.notes(REPORT), **results}},
        n_queries=usage.n_queries,
        n_tokens=usage.n_tokens,
        usd=usage.usd,
        seconds=usage.seconds,
    )
    prepared = plan.prepared.without_victims(labels & _victims_without_n(grids))
    return replace(prepared, attacks=attacks, portion=portion)


def _left_out(split: Path) -> frozenset[str]:
    """Return the victims of a finished tuning split that have no part in the report."""
    if not (split / FILE).is_file():
        return frozenset()
    if not stored_manifest(split).get("complete"):
        return frozenset()
    tuning = Run.open(split).of(TUNING)
    return frozenset() if tuning is None else _victims_without_n(tuning.grids)


def _victims_without_n(grids: Sequence[Grid]) -> frozenset[str]:
    """Return the victims that were asked and had no item right in any place."""
    without = places_without_n(grids)
    others = {grid.victim for grid in grids if grid.n_items and grid.place not in without}
    return frozenset(place.victim for place in without) - others


def _has_failed(run: Run, plan: TuningPlan) -> bool:
    """True if more trials failed than the experiment allows, so that no n is chosen."""
    failed = sum(
        trial.verdict is Verdict.FAILED or not trial.is_asked_clean for trial in run.trials
    )
    return failed > plan.prepared.experiment.experiment.max_failed


def _check_is_run(folder: Path) -> None:
    """Refuse to throw away a folder without a run."""
    runs = [each for each in (folder, folder / SPLIT_FOLDER) if (each / FILE).is_file()]
    if folder.exists() and not runs:
        raise StoreError(f"--fresh: {folder} holds files but no run, so it is left as it is")


def check_folder(plan: TuningPlan, folder: Path) -> None:
    """Check, before anything is asked, that the folder holds no run of another kind.

    Raises:
        StoreError: it does.
    """
    expected = SAME_ITEMS if plan.same_items else REPORT
    if (folder / FILE).is_file():
        found = (stored_manifest(folder).get("tuning") or {}).get("part")
    elif (folder / SPLIT_FOLDER / FILE).is_file():
        found = REPORT
    else:
        return
    if found != expected:
        other = "a run that was not tuned" if found is None else "a run tuned with another share"
        raise StoreError(
            f"{folder} holds {other}. Choose another folder with --out, or throw the old run away "
            "with --fresh"
        )


def check_choices(folder: Path, choices: Sequence[Choice]) -> None:
    """Check that the chosen n are those of the report in the folder.

    Raises:
        StoreError: they are not.
    """
    if not (folder / FILE).is_file():
        return
    now = {(one.place, template_of(one.template), one.regime): one.n for one in choices}
    for one in Chosen.read(stored_manifest(folder)["tuning"]).choices:
        n = now.get((one.place, template_of(one.template), one.regime))
        if n != one.n:
            raise StoreError(
                f"{folder} holds a report with n = {one.n:g} ({one.dataset}/{one.group}, "
                f"{one.victim}, {one.regime}), but now the best n is "
                f"{n if n is None else f'{n:g}'}. Choose another folder with --out, or throw the "
                "old run away with --fresh"
            )


def _throw_away(folder: Path) -> None:
    files = [path for each in (folder / SPLIT_FOLDER, folder) for path in each.glob(f"{FILE}*")]
    with translated(folder):
        for path in files:
            refuse_link(path)
        for path in files:
            path.unlink()
        (folder / RESULT_FILE).unlink(missing_ok=True)


def write_result(folder: Path) -> None:
    """Write the numbers of tuning beside the report."""
    path = folder / RESULT_FILE
    tuning = as_json(Run.open(folder).of(TUNING))
    text = json.dumps({"format": 1, **tuning}, indent=1, allow_nan=False)
    try:
        write_text(path, text + "\n")
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from error
