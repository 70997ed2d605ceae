"""Rows of a run that are found or added, and what it takes back: trials that failed, or all that a
run without answers holds."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from medstress.core.hashing import canonical_json
from medstress.core.items import Item
from medstress.store.codec import encode_item
from medstress.store.root import SUPERSEDED_IDS
from medstress.store.views import INQUIRIES, make_views

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
