"""Running significance tests on a run whose victims are open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

from medstress.attacks.medfuzz import MedFuzz
from medstress.errors import UsageError
from medstress.experiment.config import LIMITS, SignificanceTable
from medstress.experiment.free_group import free_group
from medstress.experiment.prepared import Prepared
from medstress.experiment.rows import trial_rows
from medstress.experiment.significance.families import (
    KEY,
    earlier_key,
    scope_of,
    with_refusal,
    with_scope,
)
from medstress.experiment.significance.mentions import mention_studies
from medstress.experiment.significance.plan import (
    Tools,
    fixed_successes,
    outlook,
    studies,
    testable,
)
from medstress.experiment.significance.settings import Settings, settings_of
from medstress.experiment.significance.slopes import slope_cost, slope_studies
from medstress.experiment.spent import limits_of
from medstress.metrics.counts import is_refused
from medstress.metrics.success_families import is_called, settings_key
from medstress.results.load import StoredRun
from medstress.rows import TrialRow
from medstress.scheduler.progress import Progress
from medstress.scheduler.ready_queue import Scheduler
from medstress.scheduler.study import Study
from medstress.store.reader import RunReader
from medstress.store.run_store import RunStore

Note = Callable[[str], None]
OnProgress = Callable[[Progress], None]
Start = Callable[[], Scheduler]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which successes are tested; all by default."""

    items: tuple[str, ...] = ()
    """Item identifiers; empty: not chosen by item."""
    trial: str | None = None
    """One trial, by its identifier or an unambiguous beginning of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tellers:
    """Who is told what."""

    note: Note
    """What is being done."""
    announce: Note
    """What has to be read before it is paid for."""
    progress: OnProgress
    """Counts of conversations."""

    def say(self, what: str) -> None:
        """Tell both: it is what is being done, and it costs something."""
        self.note(what)
        self.announce(what)


def finish_tests(
    store: RunStore, prepared: Prepared, rows: Sequence[TrialRow], tellers: Tellers
) -> bool:
    """Test all successes of a run, given its rows, whose experiment has a `[test]` table.

    Returns:
        Whether everything was asked; False where a limit of the run ended it.
    """
    table = prepared.experiment.test
    if table is None:
        return True
    tools, settings = _tools(prepared), settings_of(table)
    start = _starter(store, prepared, tellers.progress)
    if not _faithfulness(table, store, rows, tools, start, tellers):
        return False
    if not table.significance or _tested_earlier(store, rows, tools, table, tellers):
        return True
    try:
        successes = _to_test(store, rows, tools, settings, Chosen(), tellers)
    except UsageError as error:
        store.write_manifest(with_refusal(store.manifest(), settings, str(error)))
        tellers.say(str(error))
        return True
    return _ask(store, rows, tools, settings, successes, start, tellers)


def conduct_tests(
    store: RunStore, prepared: Prepared, chosen: Chosen, tellers: Tellers, *, dry_run: bool = False
) -> str | None:
    """Test the chosen successes of a run whose victims and roles are open.

    Args:
        store: the run.
        prepared: the experiment.
        chosen: which successes.
        tellers: who is told what.
        dry_run: announce what would be asked, and ask nothing.

    Returns:
        Why not everything was tested, as a sentence; None where it was.

    Raises:
        UsageError: nothing to test; nothing was asked.
    """
    table = prepared.experiment.test
    assert table is not None
    tools, start = _tools(prepared), _starter(store, prepared, tellers.progress)
    settings, rows = settings_of(table), _rows(store)
    successes = _to_test(store, rows, tools, settings, chosen, tellers)
    if dry_run:
        if successes:
            _announce(store, rows, tools, settings, successes, tellers)
        else:
            tellers.say(f"significance: {_no_success(store)}")
        for line in _faithfulness_costs(table, rows, tools):
            tellers.say(line)
        return None
    if _faithfulness(table, store, rows, tools, start, tellers) and _ask(
        store, rows, tools, settings, successes, start, tellers
    ):
        return None if successes else f"nothing was tested: {_no_success(store)}"
    done = _done(store, settings)
    n_done = sum(row.trial_id in done for row in successes)
    own = prepared.experiment.experiment
    limits = {name: getattr(own, name) for name in LIMITS if getattr(own, name) is not None}
    told = " or ".join(f"{name} = {value:g}" for name, value in limits.items()) or "a limit"
    return (
        f"stopped at {told}: {n_done} of {len(successes)} successes are tested, the others have "
        f"no p-value; raise it (--set experiment.{next(iter(limits), 'max_queries')}=...), and the "
        "same command goes on"
    )


def _no_success(store: RunStore) -> str:
    """Why there is nothing to test."""
    if store.manifest().get("complete"):
        return "there is no success to test"
    return (
        "there is no success to test yet, and the run is not complete: the command that began it "
        "goes on with it, with a higher limit where one had ended it"
    )


def _tested_earlier(
    store: RunStore,
    rows: Sequence[TrialRow],
    tools: Tools,
    table: SignificanceTable,
    tellers: Tellers,
) -> bool:
    """Whether an earlier version tested all successes as the table asked it to."""
    if table.exemplars_from is not None or not table.panel:
        return False  # what earlier versions did not ask, or did not tell apart
    key = earlier_key(settings_of(table), table.model_fields_set)
    if key not in store.manifest().get(KEY, {}):
        return False
    done = _tested_with(store, key)
    if not all(row.trial_id in done for row in testable(rows, tools.attacks)):
        return False
    tellers.say(
        "significance: an earlier version tested this run, and its p-values stay; medstress test "
        "tests it by today's rule beside them"
    )
    return True


def _faithfulness_costs(
    table: SignificanceTable, rows: Sequence[TrialRow], tools: Tools
) -> list[str]:
    """What questions about reasonings cost, as sentences."""
    told = []
    judged = mention_studies(rows, tools) if table.faithfulness else []
    if judged:
        told.append(
            f"faithfulness: the judge is asked about the reasonings of {len(judged)} trials"
        )
    if table.faithfulness_slope:
        told.append(slope_cost(rows, tools, table.slope_samples))
    return told


def _faithfulness(
    table: SignificanceTable,
    store: RunStore,
    rows: Sequence[TrialRow],
    tools: Tools,
    start: Start,
    tellers: Tellers,
) -> bool:
    """Ask what reasonings say and, where wanted, what insertions do.

    Returns:
        Whether everything was asked; False where a limit of the run ended it.
    """
    judged = mention_studies(rows, tools) if table.faithfulness else []
    for line in _faithfulness_costs(table, rows, tools):
        tellers.say(line)
    if judged and not _conducted(store, judged, start):
        return False
    if not table.faithfulness_slope:
        return True
    return _conducted(store, slope_studies(rows, tools, table.slope_samples), start)


def _conducted(store: RunStore, planned: Sequence[Study], start: Start) -> bool:
    """Conduct studies; False where a limit of the run ended them."""
    progress = start().run(planned, len(planned))
    store.commit()
    return progress.n_done + progress.n_skipped == len(planned)


def _rows(store: RunStore) -> Sequence[TrialRow]:
    store.commit()
    with closing(StoredRun(store.folder)) as run:
        return trial_rows(run)


def _to_test(
    store: RunStore,
    rows: Sequence[TrialRow],
    tools: Tools,
    settings: Settings,
    chosen: Chosen,
    tellers: Tellers,
) -> list[TrialRow]:
    """The chosen successes; by default those of the family."""
    if left_out := [row.item_id for row in rows if is_refused(row) and row.attack in tools.attacks]:
        tellers.note(
            f"significance: left out, since experts find them not valid: {', '.join(left_out)}"
        )
    successes = testable(rows, tools.attacks)
    if chosen == Chosen():
        return fixed_successes(rows, successes, scope_of(settings, store.manifest()))
    return _choose(successes, chosen, rows)


def _done(store: RunStore, settings: Settings) -> set[str]:
    """Trials that were tested with these settings before."""
    return _tested_with(store, settings_key(settings.as_told()))


def _ended(store: RunStore) -> set[str]:
    """Identifiers of all studies that have ended."""
    with closing(RunReader(store.folder)) as reader:
        return set(reader.trials_of_analyses())


def _tested_with(store: RunStore, key: str) -> set[str]:
    with closing(RunReader(store.folder)) as reader:
        return {
            one.spec["trial"]
            for one in reader.inquiries()
            if one.purpose == "test" and one.findings and settings_key(one.spec) == key
        }


def _announce(
    store: RunStore,
    rows: Sequence[TrialRow],
    tools: Tools,
    settings: Settings,
    successes: Sequence[TrialRow],
    tellers: Tellers,
) -> None:
    """What the tests ask at most and what they could show, before it is paid for."""
    if not successes:
        tellers.say("significance: there is no success to test")
        return
    scope, done = scope_of(settings, store.manifest()), _done(store, settings)
    ended = _ended(store)
    planned = zip(successes, studies(successes, rows, tools, settings), strict=True)
    asked = {row.trial_id for row, study in planned if study.id in ended}
    for line in outlook(rows, successes, tools, settings, scope, done, asked):
        tellers.say(line)


def _ask(
    store: RunStore,
    rows: Sequence[TrialRow],
    tools: Tools,
    settings: Settings,
    successes: Sequence[TrialRow],
    start: Start,
    tellers: Tellers,
) -> bool:
    _announce(store, rows, tools, settings, successes, tellers)
    if not successes:
        return True
    manifest = store.manifest()
    store.write_manifest(with_scope(manifest, settings, scope_of(settings, manifest)))
    return _conducted(store, studies(successes, rows, tools, settings), start)


def _choose(
    successes: Sequence[TrialRow], chosen: Chosen, rows: Sequence[TrialRow]
) -> list[TrialRow]:
    if chosen.trial is not None:
        found = [row for row in rows if is_called(row, chosen.trial)]
        if len(found) != 1:
            many = f"{len(found)} trials begin so" if found else "no trial is called so"
            raise UsageError(
                f"--trial {chosen.trial}: {many}; trial_id stands in: medstress export DIR "
                "--table trials --to trials.csv"
            )
        if is_refused(found[0]):
            raise UsageError(
                f"--trial {chosen.trial}: experts find that the key no longer holds after this "
                "success (medstress review); only valid ones are tested"
            )
        if found[0] not in successes:
            raise UsageError(
                f"--trial {chosen.trial}: it ended as {found[0].verdict.value!r}; only successes "
                "of medfuzz are tested"
            )
        return found
    if not chosen.items:
        return list(successes)
    for name in chosen.items:
        if not any(row.item_id == name for row in successes):
            known = sorted({row.item_id for row in successes})
            shown = f" (items with one: {', '.join(known[:8])})" if known else ""
            refused = any(row.item_id == name and is_refused(row) for row in rows)
            kind = "success that experts leave valid" if refused else "success of medfuzz"
            raise UsageError(f"--item {name}: no {kind} on this item{shown}")
    return [row for row in successes if row.item_id in chosen.items]


def _tools(prepared: Prepared) -> Tools:
    free = free_group(prepared.attacks)
    attacks = {part.label: part.attack for part in prepared.attacks}
    tested = {label: each for label, each in attacks.items() if isinstance(each, MedFuzz)}
    table = prepared.experiment.test
    if table is not None and (file := table.exemplars_from) is not None:
        tested = {label: each.drawing_from(file, prepared.base) for label, each in tested.items()}
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
    """What starts a scheduler for the next phase, within what is left of the run's limits."""

    def start() -> Scheduler:
        return Scheduler(
            store,
            roles={part.name: part.backend for part in prepared.roles},
            limits=limits_of(store, prepared),
            shared=prepared.shared,
            on_progress=on_progress,
        )

    return start
