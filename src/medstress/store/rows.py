"""Rows of a run that are found or added, and what is read of them while it is written."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from medstress.core.calls import Answer
from medstress.core.hashing import canonical_json
from medstress.core.items import Item
from medstress.store.codec import encode_item

PlannedTrial: TypeAlias = tuple[str, int, str, Item, int, int]
"""A trial that is about to begin: (trial_id, row of its arm, dataset, item, repeat, place)."""


class BegunTrial(NamedTuple):
    """A trial that begins, or begins again."""

    row: int
    """Its row."""
    is_finished: bool
    """Whether it has a verdict."""
    journal: dict[int, tuple[bytes, str | None]]
    """Calls consumed before an interrupt: seq -> (key, error); empty for a finished trial."""


@dataclass(frozen=True, slots=True)
class EndedFollowUp:
    """A follow-up that has ended."""

    id: str
    purpose: str
    place: tuple[str, ...]
    """Data set, group, victim, attack and item."""
    spec: dict[str, Any]


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


def find_or_add_arm(
    db: sqlite3.Connection,
    dataset: str,
    group: str,
    victim: str,
    attack: str,
    spec: Any,
    seed: int | None,
) -> int:
    """Return the row of one (data set, group, victim, attack, seed); it is added if new."""
    known = db.execute(
        "SELECT id FROM arms WHERE dataset = ? AND grp = ? AND victim = ? AND attack = ? "
        "AND seed IS ?",
        (dataset, group, victim, attack, seed),
    ).fetchone()
    return _row(
        known,
        lambda: db.execute(
            "INSERT INTO arms (dataset, grp, victim, attack, spec, seed) VALUES (?, ?, ?, ?, ?, ?)",
            (dataset, group, victim, attack, canonical_json(spec), seed),
        ),
    )


def register_trial(db: sqlite3.Connection, planned: PlannedTrial) -> BegunTrial:
    """Return a trial, and add it and its item if new."""
    trial_id, arm, dataset, item, repeat, place = planned
    known = db.execute("SELECT id, verdict FROM trials WHERE trial_id = ?", (trial_id,)).fetchone()
    if known is not None:
        row, verdict = known
        return BegunTrial(
            row, verdict is not None, {} if verdict is not None else _journal(db, row)
        )
    cursor = db.execute(
        "INSERT INTO main.trials (trial_id, arm, item, repeat, place) VALUES (?, ?, ?, ?, ?)",
        (trial_id, arm, _item_row(db, dataset, item), repeat, place),
    )
    return BegunTrial(int(cursor.lastrowid or 0), False, {})


def _item_row(db: sqlite3.Connection, dataset: str, item: Item) -> int:
    known = db.execute(
        "SELECT id FROM main.items WHERE dataset = ? AND item_id = ?", (dataset, item.id)
    ).fetchone()
    return _row(
        known,
        lambda: db.execute(
            "INSERT INTO main.items (dataset, item_id, hash, body) VALUES (?, ?, ?, ?)",
            (dataset, item.id, item.hash, encode_item(item)),
        ),
    )


def update_metadata(db: sqlite3.Connection, dataset: str, items: Iterable[Item]) -> None:
    """Append the metadata of stored items, such as documents, where their data set changed it."""
    stored = {
        (item_id, item_hash): (row, body)
        for row, item_id, item_hash, body in db.execute(
            "SELECT id, item_id, hash, body FROM items WHERE dataset = ?", (dataset,)
        )
    }
    pairs = ((stored.get((item.id, item.hash)), encode_item(item)) for item in items)
    changed = [(old[0], body) for old, body in pairs if old is not None and old[1] != body]
    db.executemany("INSERT INTO renewals (item, body) VALUES (?, ?)", changed)


def append_manifest(db: sqlite3.Connection, values: Mapping[str, str]) -> None:
    """Append manifest entries, as JSON, where they are new or changed."""
    known = "SELECT value FROM manifest WHERE key = ?"
    changed = [row for row in values.items() if db.execute(known, row[:1]).fetchone() != row[1:]]
    db.executemany("INSERT INTO main.manifest (key, value) VALUES (?, ?)", changed)


def append_findings(db: sqlite3.Connection, values: Iterable[tuple[int, str, str]]) -> None:
    """Append findings (row of the trial, name, JSON) where they are new or changed."""
    known = "SELECT value FROM findings WHERE trial = ? AND name = ? ORDER BY id DESC LIMIT 1"
    changed = [row for row in values if db.execute(known, row[:2]).fetchone() != row[2:]]
    db.executemany("INSERT INTO findings (trial, name, value) VALUES (?, ?, ?)", changed)


def _row(known: tuple[int] | None, insert: Callable[[], sqlite3.Cursor]) -> int:
    return int(insert().lastrowid or 0) if known is None else int(known[0])


def _journal(db: sqlite3.Connection, trial: int) -> dict[int, tuple[bytes, str | None]]:
    rows = db.execute(
        "SELECT e.seq, COALESCE(a.key, e.key), e.error FROM exchanges e "
        "LEFT JOIN answers a ON a.id = e.answer WHERE e.trial = ?",
        (trial,),
    )
    return {seq: (key, error) for seq, key, error in rows}
