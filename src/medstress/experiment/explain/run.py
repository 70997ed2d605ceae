"""The stage that explains trials of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from medstress.analyses.explanations import PURPOSE
from medstress.analyses.run import Run
from medstress.core.trials import Trial
from medstress.core.words import plural
from medstress.engine.work import Purpose
from medstress.experiment.asking import ask
from medstress.experiment.explain.explanation import Explanation, Settings
from medstress.experiment.explain.plan import Selection, choose, explanations, most_calls
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.prepare import Watcher
from medstress.experiment.stages import Stage
from medstress.store.codec import edits_text
from medstress.store.reader import RunReader


def run_explanations(
    folder: Path,
    experiment: str | Path | Mapping[str, Any] | None,
    selection: Selection,
    settings: Settings,
    watcher: Watcher,
    overrides: Sequence[str] = (),
    *,
    confirm: Callable[[Sequence[str]], None] = lambda _: None,
    dry_run: bool = False,
) -> str | None:
    """Explain trials of a run; stored answers are used again.

    Args:
        folder: the run.
        experiment: the file, recipe or dict that the folder is a run of; see `ask`.
        selection: which trials to explain.
        settings: how.
        watcher: receives notes on what is being done, and progress.
        overrides: as the command line's --set.
        confirm: as for `ask`.
        dry_run: announce what would be asked, and ask nothing.

    Returns:
        Sentence on why not everything was explained; None if it was.

    Raises:
        UsageError: the selection cannot be explained.
        StoreError: the folder is a run of another experiment.
    """
    chosen = choose(Run.open(folder).trials, selection)  # before any model is loaded
    n = 2 * settings.evaluations * len(chosen)
    return ask(
        folder,
        [explaining(selection, settings)],
        experiment,
        overrides=overrides,
        confirm=confirm,
        most=lambda _: f"at most {n:,} masked texts",
        dry_run=dry_run,
        watcher=watcher,
    )


def explaining(selection: Selection, settings: Settings) -> Stage:
    """Return the stage that explains trials; what was explained more finely before is left out.

    Args:
        selection: which trials.
        settings: how.
    """

    def all_works(bench: Prepared, run: Run) -> list[Explanation]:
        trials = choose(run.trials, selection)
        edits = run.folder.read(lambda reader: last_edits(reader, trials))
        return explanations(trials, edits, bench, settings)

    def works(bench: Prepared, run: Run) -> list[Explanation]:
        finest = _finest(run)
        return [
            one
            for one in all_works(bench, run)
            if finest.get((one.spec["trial"], settings.mask), 0) <= settings.evaluations
        ]

    def words(bench: Prepared, run: Run) -> Iterator[str]:
        own, ended = works(bench, run), run.folder.read(RunReader.answered_follow_ups)
        trials = choose(run.trials, selection)
        yield _outlook(trials, [one for one in own if one.id not in ended])
        if n := len(trials) - len(own):
            yield (
                f"explain: {plural(n, 'trial')} explained before with a larger --max-calls: the "
                "finer values stay"
            )

    def most(_: Prepared, work: Explanation) -> int:
        return 2 * work.settings.evaluations

    def choice(bench: Prepared, run: Run) -> Mapping[str, Any]:
        own = [str(one.spec["trial"]) for one in works(bench, run)]
        return {"settings": settings.as_json(), "trials": own} if own else {}

    return Stage(
        name="explain",
        works=works,
        purposes=frozenset({Purpose.EXPLAIN}),
        most=most,
        words=words,
        choice=choice,
    )


def _finest(run: Run) -> dict[tuple[str, str], int]:
    """Return (trial id, mask) -> most evaluations of an explanation that has findings."""
    finest: dict[tuple[str, str], int] = {}
    for one in run.folder.inquiries:
        if one.purpose == PURPOSE and one.findings:
            place = (one.spec["trial"], one.spec["mask"])
            finest[place] = max(finest.get(place, 0), one.spec["evaluations"])
    return finest


def _outlook(chosen: Sequence[Trial], left: Sequence[Explanation]) -> str:
    n_successes = sum(trial.first is not None for trial in chosen)
    n_failed, before = len(chosen) - n_successes, len(chosen) - len(left)
    parts = [plural(n_successes, "success", "successes")] if n_successes else []
    parts += [plural(n_failed, "failed attack")] if n_failed else []
    done = f", {before} of them explained before" if before else ""
    calls = f"at most {most_calls(left):,} calls" if left else "nothing to ask"
    return f"explain: {' and '.join(parts)}{done}, {calls}"


def last_edits(reader: RunReader, trials: Iterable[Trial]) -> dict[str, str]:
    """Return trial id -> edits, as JSON: of the first success, else of the last query asked."""
    edits_of: dict[str, str] = {}
    others: dict[int, str] = {}
    for trial in trials:
        if trial.first is not None:
            edits_of[trial.id] = edits_text(trial.first.edits)
        else:
            others[trial.number] = trial.id
    if others:
        probes = reader.probes()
        for number, query, edits in reader.attack_edits():
            if number in others and (number, query) not in probes:
                edits_of[others[number]] = edits
    return edits_of
