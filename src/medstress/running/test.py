"""Run significance tests on a finished run, as the user's own experiment file says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from medstress.running.prepare import Watcher
from medstress.running.reopened import reopened
from medstress.significance.run import Listeners, Selection, conduct_tests


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

    What is asked comes from the experiment, which the folder must be a run of: see `reopened`.

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

    def complete(raw: dict[str, Any]) -> None:
        table = raw.setdefault("test", {})
        if isinstance(table, dict):
            table.update(changes)

    with reopened(folder, experiment, watcher, overrides, complete) as (store, prepared):
        listeners = Listeners(
            note=watcher.note, announce=watcher.announce, progress=watcher.progress
        )
        return conduct_tests(store, prepared, selection, listeners, dry_run=dry_run)
