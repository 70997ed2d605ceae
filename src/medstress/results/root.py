"""The root of a run, as it stands in the summary, on the first screen and below every table."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

from medstress.results.formats import plural
from medstress.results.load import StoredRun
from medstress.store.chain import DIGEST_BYTES
from medstress.store.review_store import reviews_digests

ROOT, ROOT_NOTE, UNVERIFIED = "root", "root_note", "unverified"
"""Keys of the summary."""
IN_PROGRESS = "the run, or a test or explanation of it, is not complete"
NO_CHAIN = "no chain: an earlier format of medstress wrote the folder"
BEGINS = (
    "an earlier format began the run: its first {first} came before the chain, which begins with "
    "them as they were when the run went on"
)
BEGINS_WITH_NONE = "an earlier format began the run, and no answer came before the chain"


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
        note = _begins(begins)
    elif root is None and not run.doubt:
        note = IN_PROGRESS
    return {ROOT: root, ROOT_NOTE: note, UNVERIFIED: run.doubt}


def _begins(begins: Mapping[str, Any]) -> str:
    """Say what came before the chain.

    >>> _begins({"answers": 2, "verdicts": 1})[:54]
    'an earlier format began the run: its first 2 answers a'
    """
    counted = ((begins["answers"], "answer"), (begins["verdicts"], "verdict"))
    first = [plural(n, noun) for n, noun in counted if n]
    return BEGINS.format(first=" and ".join(first)) if first else BEGINS_WITH_NONE


def root_line(told: Mapping[str, Any]) -> str:
    """Return the line on the root at the end of a text; empty if nothing is known of it.

    Args:
        told: a summary, or what `describe_root` returns.

    >>> root_line({"root": "0f3a"}), root_line({"root": None, "root_note": "no chain: old"})
    ('root 0f3a', 'no root: no chain: old')
    """
    root, note, doubt = told.get(ROOT), told.get(ROOT_NOTE), told.get(UNVERIFIED)
    if doubt or root is None:
        why = f"unverified: {doubt}" if doubt else note
        return f"no root: {why}" if why else ""
    return f"root {root}" + (f"; {note}" if note else "")


def root_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return what stands below every table and figure: the root, and what is to be known of it.

    >>> root_sentences({"root": "0f3a"})
    ['Root of the run: 0f3a.']
    """
    root = summary.get(ROOT)
    is_shown = root and not summary.get(UNVERIFIED)
    return [*([f"Root of the run: {root}."] if is_shown else []), *chain_sentences(summary)]


def chain_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return why the numbers may not be those that were measured: a doubt, or no chain."""
    note, doubt = summary.get(ROOT_NOTE), summary.get(UNVERIFIED)
    if doubt:
        return [f"Unverified: {doubt}."]
    # That a run is not complete is said elsewhere.
    return [f"{note[0].upper()}{note[1:]}."] if note and note != IN_PROGRESS else []
