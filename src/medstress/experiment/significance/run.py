"""Running significance tests: at the end of a run, or on a folder that holds one."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medstress.attacks.medfuzz import MedFuzz
from medstress.errors import StoreError, UsageError
from medstress.experiment import manifest as manifests
from medstress.experiment.config import Experiment, SignificanceTable
from medstress.experiment.conversations import check_conversations
from medstress.experiment.free_group import free_group
from medstress.experiment.parts import AttackPart, make_attacks, open_victims
from medstress.experiment.prepared import Prepared
from medstress.experiment.reading import apply_overrides, check_experiment
from medstress.experiment.roles import RolePart, open_roles
from medstress.experiment.rows import trial_rows
from medstress.experiment.significance.checks import check_tests
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
from medstress.hashing import content_hash
from medstress.items import Question
from medstress.metrics.counts import is_refused
from medstress.metrics.success_tests import settings_key
from medstress.rows import TrialRow
from medstress.scheduler.lane import release
from medstress.scheduler.progress import Progress
from medstress.scheduler.ready_queue import Scheduler
from medstress.scheduler.study import Study
from medstress.store.reader import RunReader
from medstress.store.run_store import RunStore, lock_folder
from medstress.store.shared_cache import open_shared
from medstress.victim import Victim

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
    items = {(part.label, item.id): item for part in prepared.datasets for item in part.questions}
    tools = _tools(prepared.victims, prepared.attacks, prepared.roles, items)
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


def run_tests(
    folder: Path,
    chosen: Chosen,
    changes: Mapping[str, Any],
    note: Note,
    on_progress: OnProgress,
) -> None:
    """Test successes of a run; what was asked before is not asked again.

    Opens victims and roles as the run's experiment names them; relative paths start from where
    the experiment file was.

    Args:
        folder: the run.
        chosen: which successes.
        changes: keys of `[test]` that the command line gives.
        note: told what is being done.
        on_progress: told the counts of tests.

    Raises:
        UsageError: nothing to test, or a family in which nothing could be found.
        StoreError: a victim, role or attack is another one than the run's.
    """
    reader = RunReader(folder)
    try:
        manifest = reader.manifest
        items = {(label, item.id): item for label, item in reader.items().values()}
    finally:
        reader.close()
    experiment = _experiment(manifest, changes)
    base = Path(manifest.get("base") or ".")
    assert experiment.test is not None
    attacks = make_attacks(experiment.attack, base)
    check_tests(experiment, attacks)
    lock = lock_folder(folder)
    seconds = experiment.experiment.timeout_seconds
    victims: list[Victim] = []
    roles: list[RolePart] = []
    try:
        victims = open_victims(experiment.victim, base, note, timeout_seconds=seconds)
        check_conversations(victims, attacks)
        pairs = list(zip(experiment.victim, victims, strict=True))
        roles = open_roles(experiment.role, base, note, pairs, seconds)
        _check_same(manifest, victims, roles, folder)
        manifests.expect_same_models([*victims, *roles], manifest)
        tools = _tools(victims, _labelled(attacks, manifest), roles, items)
        prepared = Prepared(
            experiment=experiment,
            given=manifest["given"],
            base=base,
            datasets=[],
            groups=[],
            attacks=attacks,
            victims=victims,
            roles=roles,
        )
        cache = experiment.experiment.cache
        with open_shared(cache, base) as shared, RunStore(folder, lock=lock) as store:
            prepared.shared = shared
            start = _starter(store, prepared, on_progress)
            settings = settings_of(experiment.test)
            successes = _to_test(store, tools, settings, chosen, note)
            if _faithfulness(experiment.test, store, tools, start, note):
                _ask(store, tools, settings, successes, start, note)
    finally:
        own = [part.backend for part in roles if not part.is_shared]
        for backend in [*(victim.backend for victim in victims), *own]:
            release(backend)
        lock.release()


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


def _experiment(manifest: Mapping[str, Any], changes: Mapping[str, Any]) -> Experiment:
    """The run's experiment with the keys that the command line changes in `[test]`."""
    given = manifest["given"]["experiment"]
    raw = tomllib.loads(given) if isinstance(given, str) else copy.deepcopy(dict(given))
    apply_overrides(raw, manifest["given"]["overrides"])
    raw["test"] = {**(raw.get("test") or {}), **changes}
    return check_experiment(raw)


def _labelled(attacks: Sequence[AttackPart], manifest: Mapping[str, Any]) -> list[AttackPart]:
    """The attacks under the labels that the run knows them by."""
    from dataclasses import replace

    labels = {content_hash(spec): label for label, spec in manifest["attacks"].items()}
    known = [(part, labels.get(content_hash(part.attack.spec()))) for part in attacks]
    return [replace(part, label=label) for part, label in known if label is not None]


def _tools(
    victims: Sequence[Victim],
    attacks: Sequence[AttackPart],
    roles: Sequence[RolePart],
    items: Mapping[tuple[str, str], Question],
) -> Tools:
    free = free_group(attacks)
    return Tools(
        victims={victim.label: victim for victim in victims},
        attacks={part.label: part.attack for part in attacks if isinstance(part.attack, MedFuzz)},
        roles={part.name: part.decoding for part in roles},
        items=items,
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


def _check_same(
    manifest: Mapping[str, Any],
    victims: Sequence[Victim],
    roles: Sequence[RolePart],
    folder: Path,
) -> None:
    """Refuse to test a success with another model than it was found with."""
    parts = manifest["parts"]
    now = {victim.label: content_hash(victim.spec()) for victim in victims}
    wrong = [
        f"victim {name!r}" for name, known in parts["victims"].items() if now.get(name) != known
    ]
    asked = {part.name: part.hash for part in roles}
    wrong += [
        f"role {name!r}"
        for name, known in parts.get("roles", {}).items()
        if asked.get(name) != known
    ]
    if wrong:
        raise StoreError(
            f"{wrong[0]} is another one than when {folder} was run (model, prompt or source "
            "changed), so its successes cannot be tested with it"
        )
