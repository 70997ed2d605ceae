"""Trials that have begun, whether they have ended or not."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

INQUIRIES = "('asked', 'unanswered')"
"""Verdicts of inquiries and studies; a trial has another one, or none while it runs."""
_BEGUN = f"""
SELECT t.id, a.dataset, a.grp, a.victim, a.attack, i.item_id
FROM trials t JOIN arms a ON a.id = t.arm JOIN items i ON i.id = t.item
WHERE t.verdict IS NULL OR t.verdict NOT IN {INQUIRIES} ORDER BY t.id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunInOrder:
    """One trial that has begun."""

    trial: int
    """Its place in the plan."""
    dataset: str
    """Label of the data set."""
    group: str
    """Label of the group."""
    victim: str
    """Label of the victim."""
    attack: str
    """Label of the attack."""
    item_id: str
    """The item's id in its data set."""


def read(db: sqlite3.Connection) -> list[BegunInOrder]:
    """Return all trials that have begun, in the plan's order.

    An inquiry or study that has not ended cannot be told from a trial; they come after all trials.
    """
    names = BegunInOrder.__slots__
    return [BegunInOrder(**dict(zip(names, row, strict=True))) for row in db.execute(_BEGUN)]
