"""`tune` on many machines: the split's trials, n chosen on this machine, then the report's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from medstress.analyses.as_json import as_json
from medstress.experiment.file.sources import Source
from medstress.fleet.leasing import Fleet, opened_once, shards_of
from medstress.fleet.order import REPORT, TUNING
from medstress.fleet.phases import Phase, tuning_of
from medstress.fleet.run import Spread, Spreading, order_of
from medstress.running.prepare import Watcher
from medstress.running.run import run_folder
from medstress.tuning.tune import (
    SPLIT_FOLDER,
    TunedFolders,
    check_choices,
    check_folder,
    chosen,
    report_of,
    split_folder,
    split_of,
    write_result,
)


def tune_on_workers(
    experiment: str | Path | Source,
    out: str | Path | None,
    fleet: Fleet,
    *,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
) -> tuple[TunedFolders | None, Spread]:
    """Choose n and report, as `tune_experiment` does, with the trials of both on many machines.

    The same call goes on with the phase that an earlier one was in.

    Args:
        experiment: a TOML file or the name of a shipped recipe, or its text as a `Source`.
        out: the folder of the report; default ``runs/<name>-tuned``. Its shards stand in
            ``<out>-shards``, those of the tuning split in the folder `tuning` in it.
        fleet: workers and shards of each phase.
        limit: most items of each data set.
        overrides: as the command line's --set.
        watcher: callbacks for progress.

    Returns:
        The folders, None if a limit ended a phase; and how the last phase ended.

    Raises:
        UsageError, DataError, StoreError, BackendError: one sentence; what was shipped is kept.
    """
    watcher = watcher or Watcher()
    order = replace(order_of(experiment, fleet, limit, overrides), phase={"name": TUNING})
    plan = tuning_of(order, watcher)
    folder = run_folder(plan.prepared, out, suffix="-tuned")
    check_folder(plan, folder)
    split, shards = split_folder(plan, folder), shards_of(folder)
    with opened_once(fleet) as fleet:
        phase = Phase(whole=plan.prepared, part=lambda: split_of(plan, split))
        place = shards if plan.same_items else shards / SPLIT_FOLDER
        tuning = Spreading(fleet, order, phase, split, place, watcher)
        spread = tuning.go()
        if not spread.is_merged:
            return None, spread
        if plan.same_items:
            write_result(folder)
            return TunedFolders(tuning=split, report=split), spread
        best = chosen(plan, split)
        if best is None:
            return TunedFolders(tuning=split, report=None), spread
        check_choices(folder, best.choices)
        usage = tuning.used()
        order = replace(order, phase={"name": REPORT, "tuning": as_json(best)})
        phase = Phase(whole=plan.prepared, part=lambda: report_of(plan, best, usage))
        spread = Spreading(fleet, order, phase, folder, shards, watcher).go()
    if not spread.is_merged:
        return None, spread
    write_result(folder)
    return TunedFolders(tuning=split, report=folder), spread
