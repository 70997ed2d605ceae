"""Ask more about the trials of a run, as the user's own experiment says: `test`, `explain`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from medstress.analyses.run import Run
from medstress.attacks.medfuzz.attack import NAME
from medstress.experiment.file.config import LIMITS, Experiment
from medstress.experiment.file.reading import Source
from medstress.experiment.follow_ups import FollowUp, Stage
from medstress.experiment.opening import Wish, check_whole
from medstress.experiment.own_runs import OwnRun, own_run, who_is_asked
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.prepare import Watcher, opened_victims, prepare, resolve
from medstress.experiment.run import execute
from medstress.experiment.significance.plan import FAITHFULNESS, SIGNIFICANCE, nothing_tested
from medstress.store.reader import RunReader, read
from medstress.store.run_store import lock_folder
from medstress.store.shards import shard_of


def ask(
    folder: Path,
    stages: Sequence[Stage],
    experiment: str | Path | Mapping[str, Any] | None = None,
    *,
    overrides: Sequence[str] = (),
    complete: Callable[[dict[str, Any]], None] = lambda _: None,
    confirm: Callable[[Sequence[str]], None] = lambda _: None,
    most: Callable[[Experiment], str] = lambda _: "",
    dry_run: bool = False,
    watcher: Watcher | None = None,
) -> str | None:
    """Ask more of the trials of a run; what was asked before is not asked again.

    Models, servers and keys come from the experiment, never from the folder. The folder must be a
    run of this experiment: its items, victims, roles and attacks are compared by content first.

    Args:
        folder: the run.
        stages: what is asked.
        experiment: the file, recipe or dict that the folder is a run of; default: what this user
            ran in this folder on this machine.
        overrides: as the command line's --set.
        complete: fills in what the command decides, before the tables are checked.
        confirm: is shown who is asked, where the experiment is not given; raises to refuse.
        most: says how much is asked at most.
        dry_run: say what would be asked, and ask nothing.
        watcher: callbacks for progress.

    Returns:
        A sentence on the limit that ended it; None if everything was asked.

    Raises:
        UsageError: the experiment cannot be used, or is not known.
        StoreError: the folder is a run of another experiment.
    """
    watcher = watcher or Watcher()
    given: str | Path | Mapping[str, Any] | Source | None = experiment

    def who_ran(reader: RunReader) -> Any:
        check_whole(folder, shard_of(reader.manifest))
        return given or own_run(folder, reader.manifest, reader.commits_after)

    own = read(folder, who_ran)
    if isinstance(own, OwnRun):
        own.check_targets()
        given, overrides = own.experiment, (*own.overrides, *overrides)
        if not dry_run:
            checked, _, _ = resolve(given, overrides, complete=complete)
            lines = [*who_is_asked(checked), most(checked)]
            if own.n_later:
                lines.append(f"{own.n_later} commits were added since the run last ended well")
            confirm(lines)
    assert given is not None
    bench = prepare(given, overrides=overrides, watcher=watcher, complete=complete)
    wish = Wish(asks_again=True, dry_run=dry_run)
    lock = lock_folder(folder)
    try:
        with opened_victims(bench, watcher.note, baselines=False):
            stop = execute(bench, folder, wish, stages, lock=lock, watcher=watcher).stop
    finally:
        lock.release()
    if stop is None:
        return None
    table = bench.experiment.experiment
    limits = {name: getattr(table, name) for name in LIMITS if getattr(table, name) is not None}
    which = " or ".join(f"{name} = {value:g}" for name, value in limits.items()) or "a limit"
    return (
        f"stopped at {which}: {stop.stage} is done for {stop.n_ended} of {stop.n_planned}; raise "
        f"the limit (--set experiment.{next(iter(limits), 'max_queries')}=...) and repeat the "
        "command to continue"
    )


def run_tests(
    folder: Path,
    experiment: str | Path | Mapping[str, Any] | None,
    watcher: Watcher,
    overrides: Sequence[str] = (),
    *,
    confirm: Callable[[Sequence[str]], None] = lambda _: None,
    dry_run: bool = False,
) -> str | None:
    """Test the successes of a run; what was tested before is not asked again.

    Args:
        folder: the run.
        experiment: the file, recipe or dict that the folder is a run of; see `ask`.
        watcher: receives notes on what is being done, and progress.
        overrides: as the command line's --set.
        confirm: as for `ask`.
        dry_run: announce what would be asked, and ask nothing.

    Returns:
        Sentence on why not everything was tested; None if it was.

    Raises:
        UsageError: the tests cannot be made.
        StoreError: the folder is a run of another experiment.
    """

    def complete(raw: dict[str, Any]) -> None:
        raw.setdefault("test", {})

    def most(checked: Experiment) -> str:
        trials = [one for one in Run.open(folder).trials if not one.arm.is_control]
        n = sum(one.arm.attack.name == NAME and one.first is not None for one in trials)
        assert checked.test is not None
        return f"{n:,} successes, together at most {n * checked.test.max_calls:,} calls"

    nothing = list[str]()

    def works(bench: Prepared, run: Run) -> list[FollowUp]:
        planned = list(SIGNIFICANCE.works(bench, run))
        nothing.extend([] if planned else [f"nothing was tested: {nothing_tested(bench, run)}"])
        return planned

    stopped = ask(
        folder,
        [FAITHFULNESS, replace(SIGNIFICANCE, works=works)],
        experiment,
        overrides=overrides,
        complete=complete,
        confirm=confirm,
        most=most,
        dry_run=dry_run,
        watcher=watcher,
    )
    return stopped or next(iter(nothing), None)
