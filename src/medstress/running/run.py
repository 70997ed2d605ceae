"""Prepare, run, resume and extend an experiment."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medstress.attacks.noise.attack import SentenceAttack
from medstress.comparison.primary import fixed_primary
from medstress.core.errors import StoreError, UsageError
from medstress.engine.progress import DRAIN_SECONDS, Progress
from medstress.engine.scheduler import Scheduler
from medstress.experiment.file.config import Experiment
from medstress.experiment.file.reading import (
    NEEDS,
    apply_overrides,
    check_experiment,
    read_experiment,
    require_tables,
)
from medstress.experiment.file.sources import find_source
from medstress.experiment.plan import manifest as manifests
from medstress.experiment.plan.attack_checks import check_budgets, check_scores
from medstress.experiment.plan.controls import (
    began_without,
    control_arms,
    fitting_arms,
    named_on_sentences,
    noise_controls,
)
from medstress.experiment.plan.free_group import free_group, with_names
from medstress.experiment.plan.frozen_sets import frozen_attacks, live_attacks, without_stored
from medstress.experiment.plan.mentions import GIVEN, recognise_mentions
from medstress.experiment.plan.old_rules import keep_labels, keep_prompts, keep_rules
from medstress.experiment.plan.old_synonyms import keep_synonyms
from medstress.experiment.plan.parts import (
    load_datasets,
    load_groups,
    make_attacks,
    used_tables,
)
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.plan.roles import check_roles, with_roles
from medstress.experiment.plan.sensitivity import (
    SensitivityPlan,
    check_formats,
    in_all_formats,
)
from medstress.experiment.plan.sentence_groups import (
    SentenceGroupPart,
    check_kind,
    kind_of_datasets,
    sentence_resources,
)
from medstress.experiment.plan.spending import Usage, check_prices, limits_of, usage_of
from medstress.experiment.plan.targets import (
    check_same_targets,
    claim_answers,
)
from medstress.running import criteria
from medstress.running.analyses import finish
from medstress.running.comparing import check_arms, check_factor, check_primary
from medstress.running.deciding import Decider
from medstress.running.opened import opened_victims
from medstress.running.prompt_similarity import prompt_encoder
from medstress.running.shared_cache import share_again
from medstress.significance.checks import check_items, check_tests
from medstress.significance.families import fixed_family
from medstress.store.run_store import FILE, RunStore, lock_folder
from medstress.store.shared_cache import open_shared

if TYPE_CHECKING:
    from filelock import FileLock

__all__ = [
    "Watcher",
    "opened_victims",
    "prepare",
    "resolve",
    "run_experiment",
    "run_folder",
    "run_prepared",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """Callbacks for progress; every default does nothing."""

    note: Callable[[str], None] = lambda _: None
    """Receives what is being prepared."""
    announce: Callable[[str], None] = lambda _: None
    """Receives what the user should read before it costs money."""
    vectors: Callable[[int, int], None] | None = None
    """Receives (done, all) while vectors are computed."""
    progress: Callable[[Progress], None] = lambda _: None
    """Receives counts while trials run."""
    drain_seconds: float = DRAIN_SECONDS
    """Time for calls in flight after the run is stopped."""


def prepare(
    experiment: str | Path | Mapping[str, Any] | Experiment,
    *,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
    complete: Callable[[dict[str, Any]], None] = lambda _: None,
    formats: bool = False,
) -> Prepared:
    """Read and check an experiment and load everything but the models.

    Args:
        experiment: a TOML file, a dict of the same shape, or a checked `Experiment`.
        limit: most items of each data set.
        overrides: as the command line's --set.
        watcher: callbacks for progress.
        complete: fills in what the command decides, before the tables are checked.
        formats: True for commands that read `[sensitivity]`.

    Raises:
        UsageError, DataError: one sentence.
    """
    watcher = watcher or Watcher()
    checked, given, base = resolve(experiment, overrides, complete=complete)
    asked = SensitivityPlan()
    if formats:
        checked, asked = in_all_formats(checked, base)
        for sentence in asked.left_out:
            watcher.note(sentence)
    given_attacks = make_attacks(checked.attack, base)
    attacks = live_attacks(given_attacks)
    wanted = checked.experiment.controls
    arms, controlled = control_arms(attacks, wanted)
    check_roles(checked.role, [*attacks, *arms], checked.test)
    check_tests(checked, attacks, base)
    check_scores(attacks, checked.victim)
    check_prices(checked)
    prompt_encoder(checked.analysis, base)  # fails now rather than after the last query
    watcher.note("data")
    loaded = load_datasets(checked.dataset, base, limit)
    check_items(checked, loaded)
    stored, beside = frozen_attacks(given_attacks, loaded, checked.experiment.seeds, wanted)
    if stored:
        attacks = [*attacks, *stored]
        more, extended = control_arms(stored, without_stored(stored, beside, wanted))
        arms, controlled = [*arms, *more], controlled.joined(extended)
    kind = kind_of_datasets(loaded)
    classes = kind.classes(item for part in loaded for item in part.all_items)
    check_kind(checked, attacks, kind, classes)
    check_formats(asked, kind)
    if not kind.draws_names:
        named_on_sentences(wanted, kind)
        if wanted:
            attacks = [*attacks, *noise_controls(attacks, kind)]
        sentences = Prepared(
            experiment=checked,
            given={"experiment": given, "overrides": list(overrides)},
            base=base,
            datasets=loaded,
            groups=[SentenceGroupPart(resources=sentence_resources(attacks, loaded, base))],
            attacks=attacks,
            recognisers=[GIVEN],
            kind=kind,
            classes=classes,
        )
        return criteria.checked(sentences)
    recognised = recognise_mentions(checked.entities, base, loaded, watcher.note)
    datasets = recognised.datasets
    groups = load_groups(checked.entities, base, datasets, watcher.note, watcher.vectors)
    is_noisy = any(isinstance(part.attack, SentenceAttack) for part in attacks)
    noise = sentence_resources(attacks, datasets, base) if is_noisy else None
    unnamed = free_group([*attacks, *arms], noise)
    groups = with_names([*groups, *unnamed], [*attacks, *arms])
    groups = with_roles(groups, checked.role)
    check_budgets(attacks, groups)
    arms, controlled = fitting_arms(arms, controlled, datasets, groups, wanted)
    for sentence in controlled.notes():
        watcher.note(sentence)
    prepared = Prepared(
        experiment=checked,
        given={"experiment": given, "overrides": list(overrides)},
        base=base,
        datasets=datasets,
        groups=groups,
        attacks=[*attacks, *beside, *arms],
        controls=controlled,
        sensitivity=asked,
        kind=kind,
        recognisers=[*recognised.recognisers, *({} for _ in unnamed)],
    )
    check_primary(prepared)
    return criteria.checked(prepared)


def resolve(
    experiment: str | Path | Mapping[str, Any] | Experiment,
    overrides: Sequence[str] = (),
    needs: Sequence[str] = NEEDS,
    complete: Callable[[dict[str, Any]], None] = lambda _: None,
) -> tuple[Experiment, Any, Path]:
    """Read and check an experiment in any of its forms.

    Args:
        experiment: a TOML file, a dict of the same shape, or a checked `Experiment`.
        overrides: as the command line's --set.
        needs: the tables that the command needs.
        complete: as in `prepare`.

    Returns:
        The checked experiment; what the user gave, for the manifest; the folder that relative
        paths start from.

    Raises:
        UsageError: one sentence.
    """
    if isinstance(experiment, str | Path):
        source = find_source(experiment)
        checked = read_experiment(Path(experiment), overrides, needs, complete)
        return checked, source.text, source.base
    base = Path.cwd()
    if isinstance(experiment, Experiment):
        require_tables(used_tables(experiment), needs)
        return experiment, used_tables(experiment), base
    if not isinstance(experiment, Mapping):
        raise UsageError(
            f"experiment: expected a TOML file, a dict or an Experiment, got {experiment!r}"
        )
    raw = copy.deepcopy(dict(experiment))
    apply_overrides(raw, overrides)
    complete(raw)
    return check_experiment(raw, needs=needs), experiment, base


def run_experiment(
    experiment: str | Path | Mapping[str, Any] | Experiment,
    out: str | Path | None = None,
    *,
    fresh: bool = False,
    retry_failed: bool = False,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
) -> Path:
    """Run, resume or extend an experiment, and return the folder of the run.

    Args:
        experiment: a TOML file or the name of a shipped recipe, a dict of the same shape, or a
            checked `Experiment`.
        out: the run folder; default ``runs/<name>``.
        fresh: throw away what the folder holds.
        retry_failed: run failed trials again.
        limit: most items of each data set.
        overrides: as the command line's --set.
        watcher: callbacks for progress.

    Raises:
        UsageError, DataError, StoreError, BackendError: one sentence; nothing stored is lost.
    """
    watcher = watcher or Watcher()
    prepared = prepare(experiment, limit=limit, overrides=overrides, watcher=watcher, formats=True)
    check_arms(prepared)
    folder = run_folder(prepared, out)
    if fresh and folder.exists() and not (folder / FILE).is_file():
        raise StoreError(f"--fresh: {folder} holds files but no run, so it is left as it is")
    lock = lock_folder(folder, prepared.experiment.experiment.access)
    try:
        # Victims come before the store: if one cannot be opened, --fresh has deleted nothing.
        with opened_victims(prepared, watcher.note):
            run_prepared(
                prepared, folder, lock=lock, fresh=fresh, retry_failed=retry_failed, watcher=watcher
            )
    finally:
        lock.release()
    return folder


def run_folder(prepared: Prepared, out: str | Path | None) -> Path:
    """Return the folder of a run; default ``runs/<name>``."""
    return Path(out) if out is not None else Path("runs") / prepared.experiment.experiment.name


def run_prepared(
    prepared: Prepared,
    folder: Path,
    *,
    lock: FileLock | None = None,
    fresh: bool = False,
    retry_failed: bool = False,
    watcher: Watcher,
) -> Usage:
    """Run, resume or extend a prepared experiment with open victims in a folder.

    Returns:
        What the folder's run has used up.
    """
    settings = prepared.experiment.experiment
    with (
        open_shared(settings.cache, prepared.base) as shared,
        RunStore(folder, lock=lock, fresh=fresh, access=settings.access) as store,
    ):
        prepared.shared = shared
        claim_answers(prepared)
        _start(store, prepared)
        share_again(store, prepared)
        if retry_failed:
            store.forget_failed()
        _drive(store, prepared, watcher)
        return usage_of(store, prepared)


def _start(store: RunStore, prepared: Prepared) -> None:
    """Write the manifest before the first call; refuse a folder with another experiment."""
    known = store.manifest()
    if known:
        if began_without(prepared.controls, known):
            prepared.drop_controls()
        keep_synonyms(prepared, known["attacks"])
        keep_prompts(prepared, known["parts"]["attacks"])
        keep_labels(prepared, known["parts"]["attacks"])
        check_same_targets(prepared, known, store.folder)
        keep_rules(prepared, known)
    parts = manifests.fingerprint_parts(prepared)
    former = manifests.former_victims(known, parts, prepared.portion.may_lack)
    if known:
        parts["victims"] |= {label: known["parts"]["victims"][label] for label in former}
        manifests.check_same_run(store.folder, known, parts)
        manifests.expect_same_models([*prepared.victims, *prepared.roles], known)
        if not prepared.kind.keeps_metadata:
            for part in prepared.datasets:
                # Documents may be named later; they do not change a sentence's identity.
                store.renew_items(part.label, part.questions)
    described = manifests.describe(prepared, parts)
    check_factor(prepared, described)
    # The trials of former victims stay readable.
    described["victims"] |= {label: known["victims"][label] for label in former}
    store.write_manifest(
        {
            **described,
            **({} if known else fixed_family(prepared.experiment.test)),
            **({} if known else fixed_primary(prepared.experiment.experiment.primary)),
            **criteria.fixed(store, prepared, known),
            "started": known.get("started") or manifests.now(),
            "finished": None,
            "complete": False,
            "n_planned": prepared.n_trials(len(prepared.victims)),
            "command": manifests.command_line(),
            "performance": known.get("performance") or {"wall_seconds": 0.0},
        }
    )
    store.commit()


def _drive(store: RunStore, prepared: Prepared, watcher: Watcher) -> None:
    settings = prepared.experiment.experiment
    prepared.started, prepared.drain_seconds = time.monotonic(), watcher.drain_seconds
    encoder = prompt_encoder(prepared.experiment.analysis, prepared.base)
    roles = {part.name: part.backend for part in prepared.roles}
    scheduler = Scheduler(
        store,
        roles=roles,
        limits=limits_of(store, prepared),
        shared=prepared.shared,
        on_progress=watcher.progress,
    )
    n_planned = prepared.n_trials(len(prepared.victims))
    before = [dict(backend.counters) for backend in prepared.backends]
    decider = Decider(store, prepared) if settings.stop_when else None
    try:
        progress = scheduler.run((decider or prepared).trials(), n_planned)
        if decider is not None:
            store.write_manifest(decider.entry(is_limited=progress.stopped))
        done = progress.n_done + progress.n_skipped == n_planned and finish(
            store, prepared, encoder, watcher.note, watcher.announce, watcher.progress
        )
    finally:
        _account(store, prepared, time.monotonic() - prepared.started, before)
    if done:
        store.write_manifest({"complete": True, "finished": manifests.now()})


def _account(
    store: RunStore, prepared: Prepared, seconds: float, before: Sequence[Mapping[str, int]]
) -> None:
    """Add this process's time and tokens to the run's; `before` holds its first counters."""
    performance = store.manifest()["performance"]
    performance["wall_seconds"] += seconds
    for backend, at_start in zip(prepared.backends, before, strict=True):
        for name, count in backend.counters.items():
            performance[name] = performance.get(name, 0) + count - at_start.get(name, 0)
    endpoints = manifests.endpoints([*prepared.victims, *prepared.roles])
    store.write_manifest({"performance": performance, "endpoints": endpoints})
