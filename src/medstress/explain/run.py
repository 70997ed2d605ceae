"""Explain trials of a finished run, as the user's own experiment file says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from medstress.analyses.explanations import PURPOSE
from medstress.analyses.run import Run
from medstress.core.trials import Trial
from medstress.engine.progress import Progress
from medstress.engine.scheduler import Scheduler
from medstress.experiment.file.config import LIMITS
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.plan.spending import limits_of
from medstress.explain.explanation import Explanation, Settings
from medstress.explain.plan import Selection, choose, explanations, most_calls
from medstress.explain.shapley import check_installed
from medstress.running.prepare import Watcher
from medstress.running.reopened import reopened
from medstress.store.codec import edits_text
from medstress.store.reader import RunReader
from medstress.store.run_store import RunStore

Say = Callable[[str], None]


def run_explanations(
    folder: Path,
    experiment: str | Path | Mapping[str, Any],
    selection: Selection,
    settings: Settings,
    watcher: Watcher,
    overrides: Sequence[str] = (),
    *,
    dry_run: bool = False,
) -> str | None:
    """Explain trials of a run; stored answers are used again.

    What is asked comes from the experiment, which the folder must be a run of: see `reopened`.

    Args:
        folder: the run.
        experiment: the file, recipe or dict that the folder is a run of.
        selection: which trials to explain.
        settings: how.
        watcher: receives notes on what is being done, and progress.
        overrides: as the command line's --set.
        dry_run: announce what would be asked, and ask nothing.

    Returns:
        Sentence on why not everything was explained; None if it was.

    Raises:
        UsageError: shap is missing, or the selection cannot be explained.
        StoreError: the folder is a run of another experiment.
    """
    check_installed()
    # Before any model is loaded.
    chosen = choose(Run.open(folder).trials, selection)

    def say(message: str) -> None:
        watcher.note(message)
        watcher.announce(message)

    with reopened(folder, experiment, watcher, overrides) as (store, prepared):
        return _conduct(store, prepared, chosen, settings, say, watcher.progress, dry_run=dry_run)


def _conduct(
    store: RunStore,
    prepared: Prepared,
    chosen: Sequence[Trial],
    settings: Settings,
    say: Say,
    on_progress: Callable[[Progress], None],
    *,
    dry_run: bool = False,
) -> str | None:
    """Explain trials of a run that is open; what was explained or answered before is not asked."""
    store.commit()
    with closing(RunReader(store.folder)) as reader:
        work = explanations(chosen, _last_edits(reader, chosen), prepared, settings)
        ended = reader.trials_of_analyses()
        finest = _finest(reader)
    n_finer = len(work)
    work = [
        one
        for one in work
        if finest.get((one.spec["trial"], settings.mask), 0) <= settings.evaluations
    ]
    n_finer -= len(work)
    left = [one for one in work if one.id not in ended]
    say(_outlook(chosen, len(chosen) - len(left), left))
    if n_finer:
        say(
            f"explain: {n_finer:,} {'trial' if n_finer == 1 else 'trials'} explained before with a "
            "larger --max-calls: the finer values stay"
        )
    if dry_run or not work:
        return None
    scheduler = Scheduler(
        store,
        limits=limits_of(store, prepared),
        shared=prepared.shared,
        on_progress=on_progress,
    )
    progress = scheduler.run(work, len(work))
    store.commit()
    n_done = progress.n_done + progress.n_skipped
    if n_done == len(work):
        return None
    own = prepared.experiment.experiment
    limits = {name: getattr(own, name) for name in LIMITS if getattr(own, name) is not None}
    reached = " or ".join(f"{name} = {value:g}" for name, value in limits.items()) or "a limit"
    return (
        f"stopped at {reached}: {n_done} of {len(work)} trials are explained; raise the limit "
        f"(--set experiment.{next(iter(limits), 'max_queries')}=...) and repeat the command to "
        "continue"
    )


def _finest(reader: RunReader) -> dict[tuple[str, str], int]:
    """Return (trial id, mask) -> most evaluations of an explanation that has findings."""
    finest: dict[tuple[str, str], int] = {}
    for one in reader.inquiries():
        if one.purpose == PURPOSE and one.findings:
            place = (one.spec["trial"], one.spec["mask"])
            finest[place] = max(finest.get(place, 0), one.spec["evaluations"])
    return finest


def _outlook(chosen: Sequence[Trial], before: int, left: Sequence[Explanation]) -> str:
    n_successes = sum(trial.first is not None for trial in chosen)
    n_failed = len(chosen) - n_successes
    parts = [
        f"{n} {one if n == 1 else many}"
        for n, one, many in (
            (n_successes, "success", "successes"),
            (n_failed, "failed attack", "failed attacks"),
        )
        if n
    ]
    done = f", {before} of them explained before" if before else ""
    asked = f"at most {most_calls(left):,} calls" if left else "nothing to ask"
    return f"explain: {' and '.join(parts)}{done}, {asked}"


def _last_edits(reader: RunReader, trials: Iterable[Trial]) -> dict[str, str]:
    """Return trial id -> edits, as JSON: of the first success, else of the last query asked."""
    edits_of: dict[str, str] = {}
    others: dict[int, str] = {}
    for trial in trials:
        if trial.first is not None:
            edits_of[trial.id] = edits_text(trial.first.edits)
        else:
            others[trial.number] = trial.id
    if others:
        # Queries that rank spans are no attack.
        probes = {(number, query) for number, _, own in reader.probes() for query in own or ()}
        for number, query, edits in reader.attack_edits():
            if number in others and (number, query) not in probes:
                edits_of[others[number]] = edits
    return edits_of
