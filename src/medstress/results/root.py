"""The root of a run, as it stands in the summary, on the first screen and below every table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medstress.results.load import StoredRun
from medstress.store.review_store import reviews_digests, with_reviews

ROOT, ROOT_NOTE, UNVERIFIED = "root", "root_note", "unverified"
"""Keys of the summary."""
IN_PROGRESS = "the run, or a test or explanation of it, is not complete"


def root_of(run: StoredRun) -> str | None:
    """Return the root of a complete run with its reviews; None while it goes on.

    Without reviews it is the root of `medstress.store.root`.
    """
    kept = run.root()
    if kept is None:
        return None
    digests = reviews_digests(run.folder)
    return with_reviews(kept, digests[-1] if digests else None)


def all_roots(run: StoredRun) -> list[str]:
    """Return every root that the folder once had or could have shown, the earliest first."""
    digests = [None, *reviews_digests(run.folder)]
    return [with_reviews(kept.root, reviews) for kept in run.roots() for reviews in digests]


def describe_root(run: StoredRun) -> dict[str, Any]:
    """Return the entries of the summary: the root, why there is none, and what is in doubt."""
    root = None if run.doubt else root_of(run)
    note = IN_PROGRESS if root is None and not run.doubt else None
    return {ROOT: root, ROOT_NOTE: note, UNVERIFIED: run.doubt}


def root_line(told: Mapping[str, Any]) -> str:
    """Return the line on the root at the end of a text; empty if nothing is known of it.

    Args:
        told: a summary, or what `describe_root` returns.

    >>> root_line({"root": "0f3a"}), root_line({"root": None, "root_note": "not complete"})
    ('root 0f3a', 'no root: not complete')
    """
    root, note, doubt = told.get(ROOT), told.get(ROOT_NOTE), told.get(UNVERIFIED)
    if doubt or root is None:
        why = f"unverified: {doubt}" if doubt else note
        return f"no root: {why}" if why else ""
    return f"root {root}"


def root_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return what stands below every table and figure: the root, and what is to be known of it.

    >>> root_sentences({"root": "0f3a"})
    ['Root of the run: 0f3a.']
    """
    root = summary.get(ROOT)
    is_shown = root and not summary.get(UNVERIFIED)
    return [*([f"Root of the run: {root}."] if is_shown else []), *chain_sentences(summary)]


def chain_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return why the numbers may not be those that were measured."""
    doubt = summary.get(UNVERIFIED)
    return [f"Unverified: {doubt}."] if doubt else []
