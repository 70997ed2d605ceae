"""Stored reviews: experts' judgements of successes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

# Folders of earlier versions lack the table, so it is made when it is first written.
TABLE = """
CREATE TABLE IF NOT EXISTS reviews (
    trial_id TEXT NOT NULL, reviewer TEXT NOT NULL, human_valid INTEGER, answers TEXT NOT NULL,
    note TEXT NOT NULL, time TEXT NOT NULL, PRIMARY KEY (trial_id, reviewer)) WITHOUT ROWID
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """One reviewer's judgement of one success."""

    trial_id: str
    """The trial."""
    reviewer: str
    """Who judged."""
    human_valid: bool | None
    """Whether the key still holds; None if not answered."""
    answers: dict[str, Any]
    """Further answers of the form."""
    note: str
    """Free text."""
    time: str
    """When it was imported, UTC."""


def write(db: sqlite3.Connection, reviews: Iterable[Review]) -> None:
    """Store reviews; a reviewer's earlier review of the same trial is replaced."""
    db.execute(TABLE)
    db.executemany(
        "INSERT OR REPLACE INTO reviews VALUES (?, ?, ?, ?, ?, ?)",
        [
            (
                one.trial_id,
                one.reviewer,
                one.human_valid,
                json.dumps(one.answers, ensure_ascii=False),
                one.note,
                one.time,
            )
            for one in reviews
        ],
    )


def read(db: sqlite3.Connection) -> Iterator[Review]:
    """Yield all reviews, ordered by trial and reviewer."""
    known = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'reviews'").fetchone()
    if known is None:
        return
    rows = db.execute("SELECT * FROM reviews ORDER BY trial_id, reviewer")
    for trial_id, reviewer, valid, answers, note, time in rows:
        yield Review(
            trial_id=trial_id,
            reviewer=reviewer,
            human_valid=None if valid is None else bool(valid),
            answers=json.loads(answers),
            note=note,
            time=time,
        )
