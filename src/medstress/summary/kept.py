"""Keep the summary of a complete run in its folder, with the root that it belongs to."""

from __future__ import annotations

import json
from pathlib import Path

from medstress.files.writing import access_of, write_text
from medstress.results.load import open_run
from medstress.results.root import all_roots, root_of
from medstress.store.database import translated
from medstress.store.run_store import FILE, SUMMARY
from medstress.summary.summary import summarise_run


def renew_summary(folder: Path) -> None:
    """Write the summary of a run anew if reviews came after the one that is kept.

    A room that is open, or was killed, adds reviews without it. One that is missing or cannot be
    read is left alone, because `medstress verify` says so.

    Raises:
        StoreError: it cannot be written.
    """
    try:
        kept = json.loads((folder / SUMMARY).read_text("utf-8"))["root"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return
    with open_run(folder) as run:
        is_earlier = kept != root_of(run) and kept in all_roots(run)
    if is_earlier:
        keep_summary(folder)


def keep_summary(folder: Path) -> None:
    """Write the summary of a run as `medstress summary --json` prints it, if it is complete.

    Raises:
        StoreError: it cannot be written.
    """
    with open_run(folder) as run:
        if run.root() is None:
            return
        text = json.dumps(summarise_run(run), indent=1, allow_nan=False)
    with translated(folder):
        write_text(folder / SUMMARY, f"{text}\n", access_of(folder / FILE))
