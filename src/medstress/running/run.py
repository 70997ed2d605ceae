"""Run, resume and extend an experiment."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medstress.core.errors import StoreError, UsageError
from medstress.core.shards import Shard
from medstress.engine.scheduler import Scheduler
from medstress.experiment.file.config import Experiment
from medstress.experiment.file.sources import Source
from medstress.experiment.plan import manifest as manifests
from medstress.experiment.plan.parts import used_tables
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.plan.sharding import check_shard, take_shard
from medstress.experiment.plan.spending import Usage, limits_of, reached, usage_of
from medstress.experiment.plan.targets import (
    check_same_targets,
    claim_answers,
)
from medstress.running import criteria
from medstress.running.analyses import finish
from medstress.running.opened import opened_victims
from medstress.running.prepare import Watcher, prepare
from medstress.running.prompt_similarity import prompt_encoder
from medstress.running.shared_cache import share_again
from medstress.significance.families import fixed_family
from medstress.store.run_store import FILE, LOCK, RunStore, lock_folder
from medstress.store.shards import STOPPED_BY
from medstress.store.shared_cache import open_shared

if TYPE_CHECKING:
    from filelock import FileLock


def run_experiment(
    experiment: str | Path | Mapping[str, Any] | Experiment | Source,
    out: str | Path | None = None,
    *,
    fresh: bool = False,
    retry_failed: bool = False,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
    shard: Shard | None = None,
    wait: float = 0.0,
) -> Path:
    """Run, resume or extend an experiment or a shard of it, and return the folder of the run.

    Args:
        experiment: a TOML file or the name of a shipped recipe, its text as a `Source`, a dict of
            the same shape, or a checked `Experiment`.
        out: the run folder; default ``runs/<name>``.
        fresh: throw away what the folder holds.
        retry_failed: run failed trials again.
        limit: most items of each data set.
        overrides: as the command line's --set.
        watcher: callbacks for progress.
        shard: the part of the plan to run, trials only; the default folder is then
            ``runs/<name>-shards/<number>``.
        wait: seconds to wait for another process that works in the folder.

    Raises:
        UsageError, DataError, StoreError, BackendError: one sentence; nothing stored is lost.
    """
    watcher = watcher or Watcher()
    prepared = prepare(experiment, limit=limit, overrides=overrides, watcher=watcher)
    if shard is not None:
        check_can_be_cut(prepared)
    folder = run_folder(prepared, out, shard)
    is_new = not folder.exists()
    if fresh and not is_new and not (folder / FILE).is_file() and _holds_anything(folder):
        raise StoreError(f"--fresh: {folder} holds files but no run, so it is left as it is")
    lock = lock_folder(folder, prepared.experiment.experiment.access, wait=wait)
    try:
        # Victims come before the store: if one cannot be opened, --fresh has deleted nothing.
        with opened_victims(prepared, watcher.note):
            if shard is not None:
                take_shard(prepared, shard)
            run_prepared(
                prepared, folder, lock=lock, fresh=fresh, retry_failed=retry_failed, watcher=watcher
            )
    finally:
        # Refused before its first trial: the lock alone is left.
        is_refused = not (folder / FILE).exists()
        if is_refused:
            with suppress(PermissionError):  # Windows keeps an open file, and removes it afterwards
                (folder / LOCK).unlink(missing_ok=True)
        lock.release()
        if is_refused and is_new:
            with suppress(OSError):  # somebody has put a file there
                folder.rmdir()
    return folder


def check_can_be_cut(prepared: Prepared) -> None:
    """Refuse shards of an experiment that is tuned.

    Raises:
        UsageError: it is tuned.
    """
    if prepared.experiment.tune is not None:
        raise UsageError(
            "--shard: [tune] chooses n by the answers to a split of all items, so it comes before "
            "shards: run `medstress tune`, or write the chosen n (tune.json) into [[attack]] and "
            "leave [tune] out"
        ).with_flag("--shard", None)


def _holds_anything(folder: Path) -> bool:
    """Return whether a folder holds more than the lock of a run that was killed early."""
    return any(path.name != LOCK for path in folder.iterdir())


def run_folder(
    prepared: Prepared, out: str | Path | None, shard: Shard | None = None, suffix: str = ""
) -> Path:
    """Return the folder of a run; default ``runs/<name><suffix>``, of a shard
    ``runs/<name>-shards/<number>``.

    Raises:
        UsageError: the path is empty, which would mean the working folder.
    """
    if out is None:
        if shard is not None:
            suffix = f"-shards/{shard.number}"
        return Path("runs") / f"{prepared.experiment.experiment.name}{suffix}"
    if not str(out).strip():
        raise UsageError("--out: expected a folder, got an empty text")
    return Path(out)


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

    Args:
        prepared: the experiment.
        folder: of the run.
        lock: of the folder, if the caller holds it.
        fresh: throw away what the folder holds.
        retry_failed: run failed trials again.
        watcher: callbacks for progress.

    Returns:
        What the folder's run has used up.
    """
    settings = prepared.experiment.experiment
    with (
        open_shared(settings.cache, prepared.base) as shared,
        RunStore(
            folder,
            lock=lock,
            fresh=fresh,
            access=settings.access,
            alone=prepared.portion.shard is not None,
        ) as store,
    ):
        prepared.shared = shared
        claim_answers(prepared)
        _start(store, prepared)
        share_again(store, prepared)
        for line in (line for part in prepared.datasets for line in part.understood):
            watcher.announce(line)  # rows that are misread are paid for as well
        if retry_failed:
            store.forget_failed()
        _drive(store, prepared, watcher)
        return usage_of(store, prepared)


def _start(store: RunStore, prepared: Prepared) -> None:
    """Write the manifest before the first call; refuse a folder with another experiment."""
    known = store.manifest()
    check_shard(store.folder, known, prepared, store.item_hashes)
    if known and store.is_unanswered():
        known = _begun_again(store, prepared, known)
    if known:
        prepared.keep_labels(known["parts"]["attacks"])
        check_same_targets(prepared, known, store.folder)
    parts = manifests.fingerprint_parts(prepared)
    former = manifests.former_victims(known, parts, prepared.portion.may_lack)
    if known:
        parts["victims"] |= {label: known["parts"]["victims"][label] for label in former}
        manifests.check_same_run(store, known, parts, prepared)
        if not prepared.kind.keeps_metadata:
            for part in prepared.datasets:
                # Documents may be named later; they do not change a sentence's identity.
                store.renew_items(part.label, part.questions)
    manifests.expect_same_models([*prepared.victims, *prepared.roles], known)
    described = manifests.describe(prepared, parts)
    # The trials of former victims stay readable.
    described["victims"] |= {label: known["victims"][label] for label in former}
    store.write_manifest(
        {
            **described,
            **({} if known else fixed_family(prepared.experiment.test)),
            **criteria.fixed(store, prepared, known),
            "started": known.get("started") or manifests.now(),
            "finished": None,
            "complete": False,
            "n_planned": prepared.n_trials(),
            "command": manifests.command_line(),
            "performance": known.get("performance") or {"wall_seconds": 0.0},
        }
    )
    store.commit()


def _begun_again(store: RunStore, prepared: Prepared, known: dict[str, Any]) -> dict[str, Any]:
    """Let a folder that no model has answered be used by a mended experiment.

    Returns:
        The folder's manifest; empty if the experiment is another, which begins the folder anew.
    """
    if known["config"] != used_tables(prepared.experiment) or manifests.differences(
        known["parts"], manifests.fingerprint_parts(prepared)
    ):
        store.begin_anew()
        return {}
    # What failed before the first answer may be mended since: a key, a server.
    store.forget_failed()
    return known


def _drive(store: RunStore, prepared: Prepared, watcher: Watcher) -> None:
    prepared.started, prepared.drain_seconds = time.monotonic(), watcher.drain_seconds
    is_shard = prepared.portion.shard is not None
    encoder = None if is_shard else prompt_encoder(prepared.experiment.analysis, prepared.base)
    roles = {part.name: part.backend for part in prepared.roles}
    scheduler = Scheduler(
        store,
        roles=roles,
        limits=limits_of(store, prepared),
        shared=prepared.shared,
        on_progress=watcher.progress,
    )
    n_planned = prepared.n_trials()
    before = [dict(backend.counters) for backend in prepared.backends]
    if is_shard:
        store.write_manifest({STOPPED_BY: []})
    try:
        progress = scheduler.run(prepared.trials(), n_planned)
        done = progress.n_done + progress.n_skipped == n_planned and not is_shard
        done = done and finish(
            store, prepared, encoder, watcher.note, watcher.announce, watcher.progress
        )
    finally:
        _account(store, prepared, time.monotonic() - prepared.started, before)
    if is_shard and progress.stopped:
        store.write_manifest({STOPPED_BY: reached(store, prepared)})
    if done:
        store.write_manifest({"complete": True, "finished": manifests.now()})
        store.keep_root()


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
