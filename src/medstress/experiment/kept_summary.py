"""Keep the summary of a complete run in its folder, with the root that it belongs to."""

from __future__ import annotations

import json
from pathlib import Path

from medstress.analyses.run import Run
from medstress.analyses.summary import summary
from medstress.core.reading import read_inside
from medstress.core.writing import write_text
from medstress.store.database import SUMMARY, translated
from medstress.store.reader import stored_manifest
from medstress.store.reviews import reviews_digests, with_reviews

_LARGE = 50_000
"""Trials of a run whose summary gets the room of the tables of names."""


def renew_summary(run: Run) -> None:
    """Write the summary of a run again if reviews came after the one that is kept.

    A room that is open, or was killed, adds reviews without it. One that is missing or cannot be
    read is left alone, because `medstress verify` says so.

    Raises:
        StoreError: it cannot be written.
    """
    folder = run.folder.path
    try:
        kept = json.loads(read_inside(folder / SUMMARY))["root"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return
    roots = run.folder.read(lambda reader: [reader.root(), *(one.root for one in reader.roots())])
    reviews = reviews_digests(folder)
    if roots[0] is None:
        return
    now = with_reviews(roots[0], reviews[-1] if reviews else None)
    earlier = {with_reviews(root, one) for root in roots[1:] if root for one in (None, *reviews)}
    if kept != now and kept in earlier:
        _keep(run)


def keep_summary(folder: Path) -> Run:
    """Write the summary of a run as `medstress summary --json` prints it, if it is complete.

    Returns:
        The run, with the results that the summary has.

    Raises:
        StoreError: it cannot be written.
    """
    if stored_manifest(folder).get("n_planned", 0) > _LARGE:
        from medstress.entities.alike import disease_names, drug_names
        from medstress.entities.names import fold_word
        from medstress.entities.recognisers import shipped_gazetteer
        from medstress.entities.vocabularies import shipped_lines, shipped_synonyms

        words = (disease_names, drug_names, shipped_gazetteer, shipped_lines, shipped_synonyms)
        for table in (*words, fold_word):  # 100 MB, read in 2 s
            table.cache_clear()
    run = Run.open(folder)
    if run.folder.root is not None:
        _keep(run)
    return run


def _keep(run: Run) -> None:
    folder = run.folder.path
    text = json.dumps(summary(run), indent=1, allow_nan=False)
    with translated(folder):
        write_text(folder / SUMMARY, f"{text}\n")
