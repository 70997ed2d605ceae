"""Run significance tests on a run whose victims are open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

from medstress.analyses.families import settings_key
from medstress.analyses.run import Run
from medstress.analyses.significance import PURPOSE
from medstress.attacks.medfuzz.attack import MedFuzz
from medstress.core.errors import UsageError
from medstress.core.trials import Trial
from medstress.engine.progress import Progress
from medstress.engine.scheduler import Scheduler
from medstress.engine.study import Study
from medstress.experiment.file.config import LIMITS, SignificanceTable
from medstress.experiment.plan.free_group import free_group
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.plan.spending import limits_of
from medstress.significance.families import scope_of, with_refusal, with_scope
from medstress.significance.mentions import mention_studies
from medstress.significance.plan import Tools, outlook, studies
from medstress.significance.settings import Settings, settings_of
from medstress.store.reader import RunReader
from medstress.store.run_store import RunStore

_HASH = "blake2b-128:"
Note = Callable[[str], None]
OnProgress = Callable[[Progress], None]
Start = Callable[[], Scheduler]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which successes are tested; all by default."""

    items: tuple[str, ...] = ()
    """Item identifiers; empty selects no items."""
    trial: str | None = None
    """One trial, by its identifier or an unambiguous beginning of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """Functions that receive messages and progress."""

    note: Note
    """Receives what is being done."""
    announce: Note
    """Receives costs, to be read before they are paid."""
    progress: OnProgress
    """Receives counts of conversations."""

    def say(self, message: str) -> None:
        """Send a message about work that costs something to both `note` and `announce`."""
        self.note(message)
        self.announce(message)


def finish_tests(
    store: RunStore, prepared: Prepared, trials: Sequence[Trial], listeners: Listeners
) -> bool:
    """Test all successes of a run, if its experiment has a `[test]` table.

    Returns:
        True if everything was asked, False if a limit of the run stopped it.
    """
    table = prepared.experiment.test
    if table is None:
        return True
    tools, settings = _tools(prepared), settings_of(table)
    start = _starter(store, prepared, listeners.progress)
    if not _faithfulness(table, store, trials, tools, start, listeners):
        return False
    if not table.significance:
        return True
    try:
        successes = _to_test(store, trials, tools, settings, Selection(), listeners)
    except UsageError as error:
        store.write_manifest(with_refusal(store.manifest(), settings, str(error)))
        listeners.say(str(error))
        return True
    return _ask(store, trials, tools, settings, successes, start, listeners)


def conduct_tests(
    store: RunStore,
    prepared: Prepared,
    selection: Selection,
    listeners: Listeners,
    *,
    dry_run: bool = False,
) -> str | None:
    """Test the selected successes of a run whose victims and roles are open.

    Args:
        store: the run.
        prepared: the experiment.
        selection: which successes to test.
        listeners: receive messages and progress.
        dry_run: announce what would be asked, and ask nothing.

    Returns:
        Sentence on why not everything was tested; None if it was.

    Raises:
        UsageError: the selection cannot be tested; nothing was asked.
    """
    table = prepared.experiment.test
    assert table is not None
    tools, start = _tools(prepared), _starter(store, prepared, listeners.progress)
    settings, trials = settings_of(table), _trials(store)
    successes = _to_test(store, trials, tools, settings, selection, listeners)
    if dry_run:
        if successes:
            _announce(store, trials, tools, settings, successes, listeners)
        else:
            listeners.say(f"significance: {_no_success(store)}")
        _announce_judged(_judged(table, trials, tools), listeners)
        return None
    if _faithfulness(table, store, trials, tools, start, listeners) and _ask(
        store, trials, tools, settings, successes, start, listeners
    ):
        return None if successes else f"nothing was tested: {_no_success(store)}"
    done = _done(store, settings)
    n_done = sum(trial.id in done for trial in successes)
    own = prepared.experiment.experiment
    limits = {name: getattr(own, name) for name in LIMITS if getattr(own, name) is not None}
    reached = " or ".join(f"{name} = {value:g}" for name, value in limits.items()) or "a limit"
    return (
        f"stopped at {reached}: {n_done} of {len(successes)} successes are tested, the others have "
        f"no p-value; raise the limit (--set experiment.{next(iter(limits), 'max_queries')}=...) "
        "and repeat the command to continue"
    )


def _no_success(store: RunStore) -> str:
    """Return why there is nothing to test."""
    if store.manifest().get("complete"):
        return "there is no success to test"
    return (
        "there is no success to test yet, and the run is not complete: repeat the command that "
        "began it, with a higher limit if a limit stopped it"
    )


def _announce_judged(judged: Sequence[Study], listeners: Listeners) -> None:
    """Say what the questions about reasonings cost."""
    if judged:
        listeners.say(
            f"faithfulness: the judge is asked about the reasonings of {len(judged)} trials"
        )


def _faithfulness(
    table: SignificanceTable,
    store: RunStore,
    trials: Sequence[Trial],
    tools: Tools,
    start: Start,
    listeners: Listeners,
) -> bool:
    """Ask what reasonings say; return False if a limit of the run stopped it."""
    judged = _judged(table, trials, tools)
    _announce_judged(judged, listeners)
    return not judged or _conduct(store, judged, start)


def _judged(table: SignificanceTable, trials: Sequence[Trial], tools: Tools) -> list[Study]:
    return mention_studies(trials, tools) if table.faithfulness else []


def _conduct(store: RunStore, planned: Sequence[Study], start: Start) -> bool:
    """Conduct studies; return False if a limit of the run stopped them."""
    progress = start().run(planned, len(planned))
    store.commit()
    return progress.n_done + progress.n_skipped == len(planned)


def _trials(store: RunStore) -> Sequence[Trial]:
    store.commit()
    return Run.open(store.folder).trials


def _to_test(
    store: RunStore,
    trials: Sequence[Trial],
    tools: Tools,
    settings: Settings,
    selection: Selection,
    listeners: Listeners,
) -> list[Trial]:
    """Return the selected successes; by default those of the family."""
    ours = [trial for trial in trials if tools.tests(trial)]
    if refused := [trial.item.id for trial in ours if trial.is_refused]:
        listeners.note(
            f"significance: left out because experts find them not valid: {', '.join(refused)}"
        )
    successes = [trial for trial in ours if not trial.is_refused]
    if selection == Selection():
        scope = scope_of(settings, store.manifest())
        return [trial for trial in successes if scope.holds(trial)]
    return _choose(successes, selection, trials)


def _done(store: RunStore, settings: Settings) -> set[str]:
    """Return the trials that were tested with these settings before."""
    key = settings_key(settings.as_json())
    with closing(RunReader(store.folder)) as reader:
        return {
            one.spec["trial"]
            for one in reader.inquiries()
            if one.purpose == PURPOSE and one.findings and settings_key(one.spec) == key
        }


def _ended(store: RunStore) -> set[str]:
    """Return the identifiers of all studies that have ended."""
    with closing(RunReader(store.folder)) as reader:
        return set(reader.trials_of_analyses())


def _announce(
    store: RunStore,
    trials: Sequence[Trial],
    tools: Tools,
    settings: Settings,
    successes: Sequence[Trial],
    listeners: Listeners,
) -> None:
    """Announce what the tests ask at most, and what they could show, before they run."""
    if not successes:
        listeners.say("significance: there is no success to test")
        return
    scope, done = scope_of(settings, store.manifest()), _done(store, settings)
    ended_studies = _ended(store)
    planned = zip(successes, studies(successes, trials, tools, settings), strict=True)
    ended = {trial.id for trial, study in planned if study.id in ended_studies}
    for line in outlook(trials, successes, tools, settings, scope, done, ended):
        listeners.say(line)


def _ask(
    store: RunStore,
    trials: Sequence[Trial],
    tools: Tools,
    settings: Settings,
    successes: Sequence[Trial],
    start: Start,
    listeners: Listeners,
) -> bool:
    _announce(store, trials, tools, settings, successes, listeners)
    if not successes:
        return True
    manifest = store.manifest()
    store.write_manifest(with_scope(manifest, settings, scope_of(settings, manifest)))
    return _conduct(store, studies(successes, trials, tools, settings), start)


def _choose(
    successes: Sequence[Trial], selection: Selection, trials: Sequence[Trial]
) -> list[Trial]:
    if selection.trial is not None:
        start = _bare(selection.trial)
        matching = [trial for trial in trials if _bare(trial.id).startswith(start)]
        if len(matching) != 1:
            n = f"{len(matching)} trials have an" if matching else "no trial has this"
            problem = f"{n} id that begins so" if matching else f"{n} id"
            raise UsageError(
                f"--trial {selection.trial}: {problem}; list the ids (column trial_id) with: "
                "medstress export DIR --table trials --to trials.csv"
            )
        if matching[0].is_refused:
            raise UsageError(
                f"--trial {selection.trial}: experts find that the key no longer holds after this "
                "success (medstress review); only valid successes are tested"
            )
        if matching[0] not in successes:
            raise UsageError(
                f"--trial {selection.trial}: it ended as {matching[0].verdict.value!r}; only "
                "successes of medfuzz are tested"
            )
        return matching
    if not selection.items:
        return list(successes)
    tested = {trial.item.id for trial in successes}
    for name in selection.items:
        if name not in tested:
            others = f" (items with one: {', '.join(sorted(tested)[:8])})" if tested else ""
            refused = any(trial.item.id == name and trial.is_refused for trial in trials)
            kind = "success that experts find valid" if refused else "success of medfuzz"
            raise UsageError(f"--item {name}: no {kind} on this item{others}")
    return [trial for trial in successes if trial.item.id in selection.items]


def _bare(trial_id: str) -> str:
    """Return an id, or its beginning, without the mark of its hash."""
    return trial_id.removeprefix(_HASH)


def _tools(prepared: Prepared) -> Tools:
    free = free_group(prepared.attacks)
    attacks = {part.label: part.attack for part in prepared.attacks}
    tested = {label: one for label, one in attacks.items() if isinstance(one, MedFuzz)}
    return Tools(
        victims={victim.label: victim for victim in prepared.victims},
        attacks=tested,
        roles={part.name: part.decoding for part in prepared.roles},
        items={
            (part.label, item.id): item for part in prepared.datasets for item in part.questions
        },
        names_in=free[0].resources.names_in if free else None,
    )


def _starter(store: RunStore, prepared: Prepared, on_progress: OnProgress) -> Start:
    """Return a function that starts a scheduler within what is left of the run's limits."""

    def start() -> Scheduler:
        return Scheduler(
            store,
            roles={part.name: part.backend for part in prepared.roles},
            limits=limits_of(store, prepared),
            shared=prepared.shared,
            on_progress=on_progress,
        )

    return start
