"""Take back what a run has begun: trials that failed, or a whole run that no model has answered."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from medstress.store.inquiries import INQUIRIES
from medstress.store.root import SUPERSEDED_IDS
from medstress.store.views import make_views

UNFINISHED = ("failed", "unanswered", "cut_short")
"""Verdicts of trials that may begin again."""
_LOST = f"""
FROM trials WHERE verdict IN {UNFINISHED} AND trial_id NOT IN ({SUPERSEDED_IDS})
AND (verdict != 'unanswered'
     OR json_extract(result, '$.purpose') IN (SELECT value FROM json_each(:purposes)))
"""
_CHILDREN_FIRST = (
    "exchanges",
    "dispatched",
    "interrupted",
    "findings",
    "verdicts",
    "trials",
    "arms",
    "renewals",
    "items",
    "manifest",
    "commits",
)
"""All tables of a run but the answers."""


def attempts(db: sqlite3.Connection) -> dict[int, int]:
    """Return trial -> how often it began again, of the trials that did."""
    query = "SELECT trial, COUNT(*) FROM verdicts WHERE verdict IS NULL GROUP BY trial"
    return dict(db.execute(query).fetchall())


def forget_failed(db: sqlite3.Connection, purposes: Iterable[str]) -> dict[int, int]:
    """Begin trials that failed or were cut short again; returns `attempts`.

    Args:
        db: the run.
        purposes: of the follow-ups that may begin again as well.
    """
    again = db.execute(f"SELECT id {_LOST} ORDER BY id", _values(purposes)).fetchall()
    db.executemany("INSERT INTO verdicts (trial) VALUES (?)", again)
    make_views(db)
    return attempts(db)


def ask_again(db: sqlite3.Connection, ids: Iterable[str]) -> dict[int, int]:
    """Begin those of some follow-ups again that could not finish; returns `attempts`."""
    again = db.execute(
        "SELECT id FROM trials WHERE verdict = 'unanswered' AND trial_id IN "
        "(SELECT value FROM json_each(?)) ORDER BY id",
        (json.dumps(sorted(ids)),),
    ).fetchall()
    db.executemany("INSERT INTO verdicts (trial) VALUES (?)", again)
    make_views(db)
    return attempts(db)


def n_lost(db: sqlite3.Connection, purposes: Iterable[str]) -> int:
    """Return how many trials `forget_failed` would begin again."""
    return int(db.execute(f"SELECT COUNT(*) {_LOST}", _values(purposes)).fetchone()[0])


def _values(purposes: Iterable[str]) -> dict[str, Any]:
    return {"manifest": 2**62, "purposes": json.dumps(sorted(purposes))}


def is_unanswered(db: sqlite3.Connection) -> bool:
    """Return whether a run holds no answer of any model."""
    return db.execute("SELECT 1 FROM answers LIMIT 1").fetchone() is None


def forget_all(db: sqlite3.Connection) -> None:
    """Delete everything that a run without answers holds; its chain begins anew."""
    for table in _CHILDREN_FIRST:
        db.execute(f"DELETE FROM main.{table}")


def item_hashes(db: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """Return data set, id and hash of every item whose trials have begun."""
    return db.execute("SELECT dataset, item_id, hash FROM main.items ORDER BY id").fetchall()


@dataclass(frozen=True, slots=True)
class EndedFollowUp:
    """A follow-up that has ended."""

    id: str
    purpose: str
    place: tuple[str, ...]
    """Data set, group, victim, attack and item."""
    spec: dict[str, Any]


def open_ids(db: sqlite3.Connection) -> set[str]:
    """Return the ids of what has begun and not ended."""
    return {own for (own,) in db.execute("SELECT trial_id FROM trials WHERE verdict IS NULL")}


def follow_ups(db: sqlite3.Connection) -> list[EndedFollowUp]:
    """Return every follow-up that has ended."""
    rows = db.execute(
        "SELECT t.trial_id, t.result, a.dataset, a.grp, a.victim, a.attack, i.item_id "
        "FROM trials t JOIN arms a ON a.id = t.arm JOIN items i ON i.id = t.item "
        f"WHERE t.verdict IN {INQUIRIES} ORDER BY t.id"
    )
    ended = ((own, json.loads(result), tuple(place)) for own, result, *place in rows)
    return [EndedFollowUp(own, one["purpose"], place, one["told"]) for own, one, place in ended]
