"""Running significance tests on a run whose victims are open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from medstress.attacks.medfuzz import MedFuzz
from medstress.errors import UsageError
from medstress.experiment.config import SignificanceTable
from medstress.experiment.free_group import free_group
from medstress.experiment.prepared import Prepared
from medstress.experiment.rows import trial_rows
from medstress.experiment.significance.mentions import mention_studies
from medstress.experiment.significance.plan import (
    Tools,
    check_family,
    n_conversations,
    n_votes,
    studies,
    testable,
)
from medstress.experiment.significance.settings import Settings, settings_of
from medstress.experiment.significance.slopes import slope_cost, slope_studies
from medstress.experiment.spent import limits_of
from medstress.metrics.counts import is_refused
from medstress.metrics.success_tests import settings_key
from medstress.rows import TrialRow
from medstress.scheduler.progress import Progress
from medstress.scheduler.ready_queue import Scheduler
from medstress.scheduler.study import Study
from medstress.store.reader import RunReader
from medstress.store.run_store import RunStore

Note = Callable[[str], None]
OnProgress = Callable[[Progress], None]
Start = Callable[[], Scheduler]
KEY = "tests"
"""Manifest entry: settings of tests -> their family, or why they were refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which successes are tested; all by default."""

    items: tuple[str, ...] = ()
    """Item identifiers; empty: not chosen by item."""
    trial: str | None = None
    """One trial, by its identifier or an unambiguous beginning of it."""


def finish_tests(store: RunStore, prepared: Prepared, note: Note, on_progress: OnProgress) -> bool:
    """Test all successes of a run whose experiment has a `[test]` table.

    A family in which nothing could be found is noted in the manifest and not asked.

    Returns:
        Whether everything was asked; False where a limit of the run ended it.
    """
    table = prepared.experiment.test
    if table is None:
        return True
    tools = _tools(prepared)
    start = _starter(store, prepared, on_progress)
    if not _faithfulness(table, store, tools, start, note):
        return False
    if not table.significance:
        return True
    try:
        successes = _to_test(store, tools, settings_of(table), Chosen(), note)
        return _ask(store, tools, settings_of(table), successes, start, note)
    except UsageError as error:
        told = settings_key(settings_of(table).as_told())
        store.write_manifest({KEY: {**store.manifest().get(KEY, {}), told: f"refused: {error}"}})
        note(str(error))
        return True


def conduct_tests(
    store: RunStore, prepared: Prepared, chosen: Chosen, note: Note, on_progress: OnProgress
) -> None:
    """Test the chosen successes of a run whose victims and roles are open.

    Raises:
        UsageError: nothing to test, or a family in which nothing could be found; nothing was asked.
    """
    table = prepared.experiment.test
    assert table is not None
    tools, start = _tools(prepared), _starter(store, prepared, on_progress)
    settings = settings_of(table)
    successes = _to_test(store, tools, settings, chosen, note)
    if _faithfulness(table, store, tools, start, note):
        _ask(store, tools, settings, successes, start, note)


def _faithfulness(
    table: SignificanceTable, store: RunStore, tools: Tools, start: Start, note: Note
) -> bool:
    """Ask what reasonings say and, where wanted, what insertions do.

    Returns:
        Whether everything was asked; False where a limit of the run ended it.
    """
    rows = _rows(store)
    judged = mention_studies(rows, tools) if table.faithfulness else []
    if judged:
        note(f"faithfulness: the judge is asked about the reasonings of {len(judged)} trials")
        if not _conducted(store, judged, start):
            return False
    if not table.faithfulness_slope:
        return True
    note(slope_cost(rows, tools, table.slope_samples))
    return _conducted(store, slope_studies(rows, tools, table.slope_samples), start)


def _conducted(store: RunStore, planned: Sequence[Study], start: Start) -> bool:
    """Conduct studies; False where a limit of the run ended them."""
    progress = start().run(planned, len(planned))
    store.commit()
    return progress.n_done + progress.n_skipped == len(planned)


def _rows(store: RunStore) -> list[TrialRow]:
    store.commit()
    reader = RunReader(store.folder)
    try:
        return trial_rows(reader)
    finally:
        reader.close()


def _to_test(
    store: RunStore, tools: Tools, settings: Settings, chosen: Chosen, note: Note
) -> list[TrialRow]:
    """The chosen successes, refused before anything is asked where nothing could be found."""
    rows = _rows(store)
    if left_out := [row.item_id for row in rows if is_refused(row) and row.attack in tools.attacks]:
        note(f"significance: left out, since experts find them not valid: {', '.join(left_out)}")
    successes = _choose(testable(rows, tools.attacks), chosen, rows)
    if successes:
        check_family(rows, successes, settings, _done(store, settings))
    return successes


def _done(store: RunStore, settings: Settings) -> list[str]:
    """Trials that were tested with these settings before."""
    told, reader = settings_key(settings.as_told()), RunReader(store.folder)
    try:
        return [
            one.told["trial"]
            for one in reader.inquiries()
            if one.purpose == "test" and one.found and settings_key(one.told) == told
        ]
    finally:
        reader.close()


def _ask(
    store: RunStore,
    tools: Tools,
    settings: Settings,
    successes: Sequence[TrialRow],
    start: Start,
    note: Note,
) -> bool:
    if not successes:
        note("significance: there is no success to test")
        return True
    planned = studies(successes, tools, settings)
    most = n_conversations(successes, tools, settings)
    votes = n_votes(successes, tools, settings)
    note(
        f"significance: {len(planned)} successes, {settings.null.value} controls, at most "
        f"{most:,} conversations with the victims"
        + (f" and {votes:,} votes of judges on controls" if votes else "")
    )
    told = settings_key(settings.as_told())
    families = {**store.manifest().get(KEY, {}), told: settings.family.value}
    store.write_manifest({KEY: families})
    return _conducted(store, planned, start)


def _choose(
    successes: Sequence[TrialRow], chosen: Chosen, rows: Sequence[TrialRow]
) -> list[TrialRow]:
    if chosen.trial is not None:
        found = [row for row in rows if _names(row, chosen.trial)]
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


def _names(row: TrialRow, given: str) -> bool:
    return row.trial_id.removeprefix("blake2b-128:").startswith(given.removeprefix("blake2b-128:"))


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
