"""The cheap check of every reader: does a file agree with its chain?

It covers everything but answers and exchanges, which `medstress verify` reads: every link of the
commits, the digest of every trial, the number of rows, and the root.
"""

from __future__ import annotations

import sqlite3

from medstress.store.chain import REVIEW_CHAIN, RUN_CHAIN, Chained, first_break
from medstress.store.known_schema import REVIEWS, RUN, Schema
from medstress.store.root import compute_root, current_root
from medstress.store.trial_digest import wrong_rows

_CHAINS: dict[Schema, Chained] = {RUN: RUN_CHAIN, REVIEWS: REVIEW_CHAIN}


def disagreement(db: sqlite3.Connection, schema: Schema) -> str | None:
    """Return where a file does not agree with its chain; None if it does, or has none.

    Args:
        db: the file, checked for its schema, pages and types.
        schema: what it holds.
    """
    chained = _CHAINS.get(schema)
    if chained is None:
        return None
    if schema is RUN:  # first, for it names the row
        for row, stored, expected in wrong_rows(db):
            return (
                f"table verdicts, row {row}: expected digest {stored or 'none'}, found {expected}"
            )
    if (broken := first_break(db, chained, whole=False)) is not None:
        return str(broken)
    return _of_run(db) if schema is RUN else None


def _of_run(db: sqlite3.Connection) -> str | None:
    kept = current_root(db)
    if kept is not None and (root := compute_root(db)) != kept.root:
        return f"table manifest, row {kept.row}: expected root {kept.root}, found {root}"
    return None
