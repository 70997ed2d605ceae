"""Run significance tests on a finished run, as the user's own experiment file says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from medstress.core.errors import StoreError
from medstress.experiment.plan import manifest as manifests
from medstress.experiment.plan.controls import began_without
from medstress.experiment.plan.old_rules import keep_labels, keep_prompts, keep_rules
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.plan.targets import check_same_targets, claim_answers
from medstress.running.opened import opened_victims
from medstress.running.prepare import Watcher, prepare
from medstress.significance.run import Listeners, Selection, conduct_tests
from medstress.store.odd_rows import interpreting
from medstress.store.reader import RunReader
from medstress.store.run_store import FILE, RunStore, lock_folder
from medstress.store.shared_cache import open_shared


def run_tests(
    folder: Path,
    experiment: str | Path | Mapping[str, Any],
    selection: Selection,
    changes: Mapping[str, Any],
    watcher: Watcher,
    overrides: Sequence[str] = (),
    *,
    dry_run: bool = False,
) -> str | None:
    """Test successes of a run; stored answers are used again.

    Models, servers and keys come from the experiment, never from the folder. The folder must be a
    run of this experiment: its items, victims, roles and attacks are compared by content first.

    Args:
        folder: the run.
        experiment: the file, recipe or dict that the folder is a run of.
        selection: which successes to test.
        changes: keys of `[test]` that the command line sets.
        watcher: receives notes on what is being done, and progress.
        overrides: as the command line's --set.
        dry_run: announce what would be asked, and ask nothing.

    Returns:
        Sentence on why not everything was tested; None if it was.

    Raises:
        UsageError: the selection cannot be tested.
        StoreError: the folder is a run of another experiment.
    """
    with interpreting(folder / FILE):
        reader = RunReader(folder)
        try:
            manifest = reader.manifest
        finally:
            reader.close()

    def complete(raw: dict[str, Any]) -> None:
        table = raw.setdefault("test", {})
        if isinstance(table, dict):
            table.update(changes)

    prepared = prepare(
        experiment, overrides=overrides, watcher=watcher, complete=complete, formats=True
    )
    if began_without(prepared.controls, manifest):
        prepared.drop_controls()
    keep_prompts(prepared, manifest["parts"]["attacks"])
    keep_labels(prepared, manifest["parts"]["attacks"])
    lock = lock_folder(folder)
    try:
        with opened_victims(prepared, watcher.note):
            check_same_targets(prepared, manifest, folder)
            keep_rules(prepared, manifest)
            _check_agrees(manifest, prepared, folder)
            manifests.expect_same_models([*prepared.victims, *prepared.roles], manifest)
            cache = prepared.experiment.experiment.cache
            with (
                open_shared(cache, prepared.base) as shared,
                RunStore(folder, lock=lock) as store,
            ):
                prepared.shared = shared
                claim_answers(prepared)
                listeners = Listeners(
                    note=watcher.note, announce=watcher.announce, progress=watcher.progress
                )
                return conduct_tests(store, prepared, selection, listeners, dry_run=dry_run)
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
    differing = manifests.differences({**known, "settings": settings}, now)
    if differing:
        raise StoreError(
            f"{folder} is a run of another experiment: {'; '.join(differing)}"
            f"{manifests.older_functions(manifest)}. Give --experiment the file that the folder "
            "was run with, and the same --set"
        )
