"""Keep the summary of a complete run in its folder, with the root that it belongs to."""

from __future__ import annotations

import json
from pathlib import Path

from medstress.analyses.run import Run
from medstress.analyses.summary import summary
from medstress.files.writing import access_of, write_text
from medstress.results.load import StoredRun, open_run
from medstress.results.root import all_roots, root_of
from medstress.store.database import translated
from medstress.store.run_store import FILE, SUMMARY


def renew_summary(run: StoredRun) -> None:
    """Write the summary of a run anew if reviews came after the one that is kept.

    A room that is open, or was killed, adds reviews without it. One that is missing or cannot be
    read is left alone, because `medstress verify` says so.

    Raises:
        StoreError: it cannot be written.
    """
    try:
        kept = json.loads((run.folder / SUMMARY).read_text("utf-8"))["root"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return
    if kept != root_of(run) and kept in all_roots(run):
        _keep(run)


def keep_summary(folder: Path) -> None:
    """Write the summary of a run as `medstress summary --json` prints it, if it is complete.

    Raises:
        StoreError: it cannot be written.
    """
    with open_run(folder) as run:
        _keep(run)


def _keep(run: StoredRun) -> None:
    if run.root() is None:
        return
    text = json.dumps(summary(Run.open(run.folder)), indent=1, allow_nan=False)
    with translated(run.folder):
        write_text(run.folder / SUMMARY, f"{text}\n", access_of(run.folder / FILE))
