"""Take back what a run has begun: trials that failed, or a whole run that no model has answered."""

from __future__ import annotations

import sqlite3

_UNFINISHED = "verdict IN ('failed', 'unanswered', 'cut_short')"
_CHILDREN_FIRST = (
    "exchanges",
    "dispatched",
    "interrupted",
    "trials",
    "arms",
    "items",
    "manifest",
)
"""All tables of a run but the answers."""


def forget_failed(db: sqlite3.Connection) -> int:
    """Reset trials that failed or were cut short; returns how many."""
    db.execute(f"DELETE FROM exchanges WHERE trial IN (SELECT id FROM trials WHERE {_UNFINISHED})")
    cursor = db.execute(f"UPDATE trials SET verdict = NULL, result = NULL WHERE {_UNFINISHED}")
    return cursor.rowcount


def is_unanswered(db: sqlite3.Connection) -> bool:
    """Return whether a run holds no answer of any model."""
    return db.execute("SELECT 1 FROM answers LIMIT 1").fetchone() is None


def forget_all(db: sqlite3.Connection) -> None:
    """Delete everything that a run without answers holds."""
    for table in _CHILDREN_FIRST:
        db.execute(f"DELETE FROM {table}")


def item_hashes(db: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """Return data set, id and hash of every item whose trials have begun."""
    return db.execute("SELECT dataset, item_id, hash FROM items ORDER BY id").fetchall()
