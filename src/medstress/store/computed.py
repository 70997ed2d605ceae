"""Answers that a run computed, with who asked for them and who answered."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from medstress.core.calls import FROM_CACHE, Answer
from medstress.store.codec import decode_answer

_KEYS = "SELECT id, key FROM answers WHERE id > ? AND trial > ? ORDER BY id LIMIT ?"
_PAGE = 20_000
"""Answers that are fetched together."""


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


def computed_keys(
    run: Callable[[Callable[[sqlite3.Connection], list[Any]]], list[Any]],
) -> Iterator[dict[bytes, int]]:
    """Yield key -> row of the computed answers in the ledger, page by page.

    Args:
        run: does work with the ledger's connection.
    """
    last = 0
    while rows := run(partial(_page, after=last)):
        last = rows[-1][0]
        yield {key: row for row, key in rows}


def _page(db: sqlite3.Connection, after: int) -> list[tuple[int, bytes]]:
    return db.execute(_KEYS, (after, FROM_CACHE, _PAGE)).fetchall()
