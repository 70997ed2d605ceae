"""Finished inquiries and studies of a run."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

INQUIRIES = "('asked', 'unanswered')"
"""Verdicts of inquiries and studies; a trial has another one, or none while it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredInquiry:
    """One finished inquiry or study of an analysis; see `medstress.engine.inquiry`."""

    dataset: str
    group: str
    victim: str
    attack: str
    seed: int | None
    item_id: str
    purpose: str
    spec: dict[str, Any]
    outcomes: list[str]
    reached: bool | None
    note: str | None
    findings: dict[str, Any] | None
    calls: int = 0
    """Calls that it consumed, of models and roles."""


def read_inquiries(db: sqlite3.Connection) -> Iterator[StoredInquiry]:
    """Yield all finished inquiries and studies, answered or not, in the order of asking."""
    rows = db.execute(
        "SELECT a.dataset, a.grp, a.victim, a.attack, a.seed, i.item_id, "
        "(SELECT COUNT(*) FROM exchanges e WHERE e.trial = t.id), t.result "
        "FROM trials t JOIN arms a ON a.id = t.arm JOIN items i ON i.id = t.item "
        f"WHERE t.verdict IN {INQUIRIES} ORDER BY t.id"
    )
    for *place, result in rows:
        record = json.loads(result)
        yield StoredInquiry(
            dataset=place[0],
            group=place[1],
            victim=place[2],
            attack=place[3],
            seed=place[4],
            item_id=place[5],
            purpose=record["purpose"],
            spec=record["told"],
            outcomes=record["outcomes"],
            reached=record.get("reached"),
            note=record.get("note"),
            findings=record.get("found"),
            calls=place[6],
        )
