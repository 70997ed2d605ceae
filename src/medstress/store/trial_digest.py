"""Digests of a trial: what it consumed, and the whole of it.

They leave out what depends on scheduling or speed: the rows of answers, times, tokens, which call
was paid and which computed ahead. Equal trials with equal answers have equal digests.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from typing import Any

import orjson

from medstress.store.chain import DIGEST_BYTES, hash_rows, text_digest

_CONSUMED = """
SELECT e.seq, e.role, e.purpose, e.query, e.call, hex(COALESCE(s.key, e.key)), e.edits, e.flags,
       e.request, e.error, s.body
FROM main.exchanges e LEFT JOIN main.answers s ON s.id = e.answer
WHERE e.trial = ? AND e.attempt = ? ORDER BY e.seq
"""
_IDENTITY = """
a.dataset, a.grp, a.victim, a.attack, a.spec, a.seed, i.item_id, i.hash, t.repeat, t.trial_id
"""
"""What a trial is, as columns of `arms` a, `items` i and `trials` t."""
_IDENTITY_OF = f"""
SELECT {_IDENTITY} FROM main.trials t JOIN main.arms a ON a.id = t.arm
JOIN main.items i ON i.id = t.item WHERE t.id = ?
"""


def exchanges_digest(db: sqlite3.Connection, trial: int, attempt: int) -> bytes:
    """Return the digest of the calls that one attempt of a trial consumed, with their answers."""
    rows = db.execute(_CONSUMED, (trial, attempt)).fetchall()
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)
    hash_rows(state, iter([rows] if rows else []))
    return state.digest()


def trial_digest(identity: tuple[Any, ...], verdict: str, result: str, exchanges: bytes) -> bytes:
    """Return the digest of a trial.

    Args:
        identity: the values of `_IDENTITY`.
        verdict: how it ended.
        result: its result, as stored.
        exchanges: the digest of what it consumed.
    """
    values = [*identity, verdict, text_digest(result.encode()), exchanges.hex()]
    return hashlib.blake2b(orjson.dumps(values), digest_size=DIGEST_BYTES).digest()


def finish(db: sqlite3.Connection, trial: int, attempt: int, verdict: str, result: str) -> None:
    """Append how a trial ended; everything that it consumed is stored before."""
    exchanges = exchanges_digest(db, trial, attempt)
    identity = db.execute(_IDENTITY_OF, (trial,)).fetchone()
    db.execute(
        "INSERT INTO main.verdicts (trial, verdict, result, exchanges, digest) "
        "VALUES (?, ?, ?, ?, ?)",
        (trial, verdict, result, exchanges, trial_digest(identity, verdict, result, exchanges)),
    )


def wrong_rows(db: sqlite3.Connection) -> Iterator[tuple[int, str, str]]:
    """Yield (row of `verdicts`, digest as stored, digest as it should be) where these differ."""
    # As `trial_digest`, with the part that all trials of an arm share hashed once.
    begun = {
        arm: hashlib.blake2b(orjson.dumps(values)[:-1] + b",", digest_size=DIGEST_BYTES)
        for arm, *values in db.execute(
            "SELECT id, dataset, grp, victim, attack, spec, seed FROM main.arms"
        )
    }
    items = {
        row: orjson.dumps(of)[1:-1] + b","
        for row, *of in db.execute("SELECT id, item_id, hash FROM main.items")
    }
    rows = db.execute(
        "SELECT v.id, v.digest, t.arm, t.item, CAST(COALESCE(v.result, '') AS BLOB), v.exchanges, "
        "v.verdict, t.repeat, t.trial_id FROM main.verdicts v JOIN main.trials t ON t.id = v.trial "
        "WHERE COALESCE(v.verdict, v.result, v.exchanges, v.digest) IS NOT NULL ORDER BY v.id"
    )
    for row, digest, arm, item, result, exchanges, verdict, repeat, trial_id in rows:
        state = begun[arm].copy()
        state.update(items[item])
        values = repeat, trial_id, verdict, text_digest(result), (exchanges or b"").hex()
        state.update(orjson.dumps(values)[1:])
        if (expected := state.digest()) != digest:
            yield row, (digest or b"").hex(), expected.hex()


def wrong_exchanges(db: sqlite3.Connection) -> Iterator[tuple[int, str, str]]:
    """Yield (trial, digest of its exchanges as stored, as found) where these differ.

    Every attempt is checked; the exchanges of the last attempt of a trial that goes on have no
    digest yet.
    """
    attempts: dict[int, int] = {}
    rows = db.execute("SELECT trial, verdict, exchanges FROM main.verdicts ORDER BY id")
    for trial, verdict, stored in rows:
        attempt = attempts.get(trial, 0)
        if verdict is None:
            attempts[trial] = attempt + 1
            continue
        if (found := exchanges_digest(db, trial, attempt)) != stored:
            yield trial, (stored or b"").hex(), found.hex()
