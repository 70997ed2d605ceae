"""Open a finished run again, to ask more of its models as the user's own experiment file says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from medstress.core.errors import StoreError
from medstress.experiment.plan import manifest as manifests
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.plan.targets import check_same_targets, claim_answers
from medstress.running.opened import opened_victims
from medstress.running.prepare import Watcher, prepare
from medstress.store.odd_rows import interpreting
from medstress.store.reader import RunReader
from medstress.store.run_store import FILE, RunStore, lock_folder
from medstress.store.shards import shard_of
from medstress.store.shared_cache import open_shared


@contextmanager
def reopened(
    folder: Path,
    experiment: str | Path | Mapping[str, Any],
    watcher: Watcher,
    overrides: Sequence[str] = (),
    complete: Callable[[dict[str, Any]], None] = lambda _: None,
) -> Iterator[tuple[RunStore, Prepared]]:
    """Open a run for writing, with its victims and roles; stored answers are used again.

    Models, servers and keys come from the experiment, never from the folder. The folder must be a
    run of this experiment: its items, victims, roles and attacks are compared by content first.

    Args:
        folder: the run.
        experiment: the file, recipe or dict that the folder is a run of.
        watcher: receives notes on what is being done.
        overrides: as the command line's --set.
        complete: fills in what the command decides, before the tables are checked.

    Raises:
        UsageError: the experiment cannot be used.
        StoreError: the folder is a run of another experiment.
    """
    with interpreting(folder / FILE):
        reader = RunReader(folder)
        try:
            manifest = reader.manifest
        finally:
            reader.close()
    if (shard := shard_of(manifest)) is not None:
        raise StoreError(
            f"{folder} holds shard {shard}, and what this command asks is about all trials; merge "
            "the shards, complete the merged folder with `medstress run`, and give that one"
        )
    prepared = prepare(experiment, overrides=overrides, watcher=watcher, complete=complete)
    prepared.keep_labels(manifest["parts"]["attacks"])
    lock = lock_folder(folder)
    try:
        with opened_victims(prepared, watcher.note):
            check_same_targets(prepared, manifest, folder)
            _check_agrees(manifest, prepared, folder)
            cache = prepared.experiment.experiment.cache
            with (
                open_shared(cache, prepared.base) as shared,
                RunStore(folder, lock=lock) as store,
            ):
                prepared.shared = shared
                claim_answers(prepared)
                manifests.go_on(store, [*prepared.victims, *prepared.roles], manifest)
                yield store, prepared
                if manifest.get("complete"):
                    store.keep_root()
    finally:
        lock.release()


def _check_agrees(manifest: Mapping[str, Any], prepared: Prepared, folder: Path) -> None:
    """Raise a StoreError if the folder is a run of another experiment.

    The experiment may have more than the folder: more items, seeds, victims and attacks.
    """
    now = manifests.fingerprint_parts(prepared)
    known = manifest["parts"]
    # Commands other than `run` record in the settings which part of the experiment they ran.
    settings = {key: known["settings"].get(key) for key in now["settings"]}
    known = {**known, "settings": settings}
    if manifests.differences(known, now):
        changes = manifests.changes_of(None, manifest, now, prepared)
        differing = manifests.differences(known, now, changes)
        raise StoreError(
            f"{folder} is a run of another experiment: {'; '.join(differing)}. Give --experiment "
            "the file that the folder was run with, and the same --set"
        )
