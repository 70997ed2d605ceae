"""Answers that a run computed, with who asked for them and who answered."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from medstress.core.calls import Answer
from medstress.store.codec import decode_answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """An answer computed by this run."""

    key: bytes
    """Its cache key."""
    victim: str
    """Label of the victim of the trial that asked."""
    role: str | None
    """Who answered: `victim` or another role; None if no trial has consumed it yet."""
    answer: Answer
    """The answer."""
    seconds: float
    """Time that a worker spent on it."""


def read_computed(db: sqlite3.Connection, rows: Sequence[int]) -> list[Computed]:
    """Return the computed answers in these rows of `answers`."""
    chosen, listed = "SELECT value FROM json_each(?)", (json.dumps(list(rows)),)
    asked = f"SELECT answer, role FROM exchanges WHERE answer IN ({chosen})"
    roles = dict(db.execute(asked, listed).fetchall())
    found = db.execute(
        "SELECT s.id, s.key, a.victim, s.body, s.tokens_in, s.tokens_out, s.seconds "
        "FROM answers s JOIN trials t ON t.id = s.trial JOIN arms a ON a.id = t.arm "
        f"WHERE s.id IN ({chosen})",
        listed,
    )
    return [
        Computed(
            key=key,
            victim=victim,
            role=roles.get(row),
            answer=decode_answer(body, t_in, t_out),
            seconds=seconds,
        )
        for row, key, victim, body, t_in, t_out, seconds in found
    ]
