"""The root of a run, as it stands in the summary, on the first screen and below every table."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

from medstress.results.load import StoredRun
from medstress.store.chain import DIGEST_BYTES
from medstress.store.review_store import reviews_digests

ROOT, ROOT_NOTE, UNVERIFIED = "root", "root_note", "unverified"
"""Keys of the summary."""
IN_PROGRESS = "the run is not complete, or something was added that is not"
NO_CHAIN = "no chain: an earlier format of medstress wrote the folder"
BEGINS = (
    "an earlier format began the run: its first {answers} answers and {verdicts} verdicts came "
    "before the chain, which begins with them as they were when the run went on"
)


def root_of(run: StoredRun) -> str | None:
    """Return the root of a complete run with its reviews; None while it goes on, or has no chain.

    Without reviews it is the root of `medstress.store.root`.
    """
    kept = run.root()
    if kept is None:
        return None
    digests = reviews_digests(run.folder)
    return with_reviews(kept, digests[-1] if digests else None)


def with_reviews(root: str, reviews: str | None) -> str:
    """Return the root of a run that experts have reviewed.

    Args:
        root: the root of the run alone.
        reviews: the digest of all reviews; None without any.
    """
    if reviews is None:
        return root
    return hashlib.blake2b(orjson.dumps([root, reviews]), digest_size=DIGEST_BYTES).hexdigest()


def all_roots(run: StoredRun) -> list[str]:
    """Return every root that the folder once had or could have shown, the earliest first."""
    digests = [None, *reviews_digests(run.folder)]
    return [with_reviews(kept.root, reviews) for kept in run.roots() for reviews in digests]


def describe_root(run: StoredRun) -> dict[str, Any]:
    """Return the entries of the summary: the root, why there is none, and what is in doubt."""
    root, begins = None if run.doubt else root_of(run), run.chain_begins
    note = None
    if not run.has_chain:
        note = NO_CHAIN
    elif begins is not None:
        note = BEGINS.format(**begins)
    elif root is None:
        note = IN_PROGRESS
    return {ROOT: root, ROOT_NOTE: note, UNVERIFIED: run.doubt}


def root_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return what stands below every table and figure: the root, and a warning if it is in doubt.

    >>> root_sentences({"root": "0f3a"})
    ['Root of the run: 0f3a.']
    """
    root, doubt = summary.get(ROOT), summary.get(UNVERIFIED)
    return [
        *([f"Root of the run: {root}."] if root and not doubt else []),
        *([f"Unverified: {doubt}."] if doubt else []),
    ]
