"""Formats of the run folder: create a new run, and upgrade or read one of an older format.

Format 1 kept answers in the order of their keys, and `exchanges` named them by key. Formats 1 and 2
overwrote how a trial ended and deleted what an earlier attempt had consumed; they have no chain.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path

from medstress.store.chain import DIGEST_BYTES, RUN_CHAIN, hash_rows, link
from medstress.store.known_schema import FORMAT, check_schema, sql_of
from medstress.store.trial_digest import finish

CHAIN_BEGINS = "chain_begins"
"""Key in the manifest of a run that an earlier format began: what its chain begins after."""
SIMILARITY, DISTANCES = "prompt_similarity", "distances"
"""What is found about a trial after it has ended, by its name in the result."""

_FROM_1 = """
INSERT INTO interrupted SELECT key, trial FROM dispatched;
DROP TABLE dispatched;
ALTER TABLE answers RENAME TO old_answers;
ALTER TABLE exchanges RENAME TO old_exchanges;
{calls}
INSERT INTO answers (key, trial, body, seconds, tokens_in, tokens_out)
    SELECT key, trial, body, seconds, tokens_in, tokens_out FROM old_answers ORDER BY trial, key;
CREATE UNIQUE INDEX answer_of_key ON answers (key);
INSERT INTO exchanges
    SELECT e.trial, e.seq, e.role, e.purpose, e.query, e.call, a.id,
           CASE WHEN a.id IS NULL THEN e.key END, e.edits, e.request, e.error
    FROM old_exchanges e LEFT JOIN answers a ON a.key = e.key AND e.error IS NULL;
DROP INDEX answer_of_key;
DROP TABLE old_exchanges;
DROP TABLE old_answers;
"""
_FROM_2 = """
ALTER TABLE manifest RENAME TO old_manifest;
ALTER TABLE trials RENAME TO old_trials;
ALTER TABLE exchanges RENAME TO old_exchanges;
{ledger}
INSERT INTO manifest (key, value)
    SELECT key, value FROM old_manifest WHERE key NOT IN ('root', 'chain_begins') ORDER BY key;
INSERT INTO trials SELECT id, trial_id, arm, item, repeat FROM old_trials ORDER BY id;
INSERT INTO exchanges
    SELECT trial, 0, seq, role, purpose, query, call, answer, key, edits, request, error
    FROM old_exchanges;
DROP TABLE old_manifest;
DROP TABLE old_exchanges;
"""

_CALLS = """
CREATE TEMP VIEW calls AS
SELECT e.trial, e.seq, e.role, e.purpose, e.query, e.call, {key} AS key, e.edits, e.request,
       e.error, s.trial AS answered_for, s.body, s.seconds, s.tokens_in, s.tokens_out
FROM exchanges e LEFT JOIN answers s ON {joined}
"""
_CALLS_OF = {
    1: _CALLS.format(key="e.key", joined="s.key = e.key"),
    2: _CALLS.format(key="COALESCE(s.key, e.key)", joined="s.id = e.answer"),
}

# What counts of an append-only run: views that hide the tables of these names, with the columns
# that the tables of earlier formats have.
_MANIFEST = """
CREATE TEMP VIEW manifest AS SELECT key, value FROM main.manifest
WHERE id IN (SELECT MAX(id) FROM main.manifest GROUP BY key)
"""
_TRIALS = """
CREATE TEMP VIEW trials AS
SELECT t.id, t.trial_id, t.arm, t.item, t.repeat, v.verdict, {result} AS result
FROM main.trials t LEFT JOIN main.verdicts v
ON v.id = (SELECT MAX(id) FROM main.verdicts WHERE trial = t.id)
"""
# The last finding of each name joins the result, where earlier formats wrote it.
_WITH_FINDINGS = """
CASE WHEN v.verdict IS NULL OR NOT EXISTS (SELECT 1 FROM main.findings WHERE trial = t.id)
THEN v.result ELSE json_patch(v.result, (
    SELECT json_group_object(name, json(value)) FROM main.findings WHERE id IN (
        SELECT MAX(id) FROM main.findings WHERE trial = t.id GROUP BY name)))
END
"""
_EXCHANGES = """
CREATE TEMP VIEW exchanges AS
SELECT e.trial, e.seq, e.role, e.purpose, e.query, e.call, e.answer, e.key, e.edits, e.request,
       e.error
FROM main.exchanges e WHERE e.attempt = (
    SELECT COUNT(*) FROM main.verdicts v WHERE v.trial = e.trial AND v.verdict IS NULL)
"""
_ITEMS = """
CREATE TEMP VIEW items AS
SELECT i.id, i.dataset, i.item_id, i.hash, COALESCE((
    SELECT body FROM main.renewals WHERE item = i.id ORDER BY id DESC LIMIT 1), i.body) AS body
FROM main.items i
"""
VIEWS = ("calls", "manifest", "trials", "exchanges", "items")
"""The views that `make_views` may make."""


def bring_up_to_date(db: sqlite3.Connection, file: Path) -> None:
    """Create a run in an empty file, or upgrade an older format to today's in one transaction.

    Raises:
        StoreError: the file is not a run, or has a format that this medstress does not know.
    """
    known = check_schema(db, file)
    if known == FORMAT:
        return
    ledger = sql_of("ledger.sql")
    if known == 0:
        script = sql_of("plan.sql") + sql_of("answers.sql") + ledger
        db.executescript(f"BEGIN IMMEDIATE; {script} PRAGMA user_version = {FORMAT}; COMMIT;")
        return
    calls = sql_of("answers.sql") + sql_of("exchanges_2.sql")
    script = (_FROM_1.format(calls=calls) if known == 1 else "") + _FROM_2.format(ledger=ledger)
    db.executescript(f"BEGIN IMMEDIATE; {script}")
    _close_gaps(db)
    _append_verdicts(db)
    begins = {
        "format": known,
        "answers": db.execute("SELECT COUNT(*) FROM answers").fetchone()[0],
        "verdicts": db.execute("SELECT COUNT(*) FROM verdicts").fetchone()[0],
        "reviews": earlier_reviews(db),
    }
    db.execute(
        "INSERT INTO manifest (key, value) VALUES (?, ?)", (CHAIN_BEGINS, json.dumps(begins))
    )
    link(db, RUN_CHAIN)
    db.execute(f"PRAGMA user_version = {FORMAT}")
    db.execute("COMMIT")


def _close_gaps(db: sqlite3.Connection) -> None:
    """Number answers without gaps, which a failed write of an earlier format may have left."""
    n, last = db.execute("SELECT COUNT(*), COALESCE(MAX(id), 0) FROM answers").fetchone()
    if n == last:
        return
    db.execute(
        "CREATE TEMP TABLE renumbered AS "
        "SELECT id AS old, ROW_NUMBER() OVER (ORDER BY id) AS new FROM answers"
    )
    db.execute("CREATE UNIQUE INDEX temp.by_old ON renumbered (old)")
    db.execute(
        "UPDATE exchanges SET answer = (SELECT new FROM renumbered WHERE old = answer) "
        "WHERE answer IS NOT NULL"
    )
    # In this order, no number is taken twice.
    for old, new in db.execute("SELECT old, new FROM renumbered ORDER BY old").fetchall():
        db.execute("UPDATE answers SET id = ? WHERE id = ?", (new, old))
    db.execute("DROP TABLE renumbered")


def _append_verdicts(db: sqlite3.Connection) -> None:
    """Append how the trials of an earlier format ended, with digests; findings become rows."""
    ended = db.execute(
        "SELECT id, verdict, result FROM old_trials WHERE verdict IS NOT NULL ORDER BY id"
    )
    for trial, verdict, result in ended:
        kept = json.loads(result)
        found = {name: kept.pop(name) for name in (SIMILARITY, DISTANCES) if name in kept}
        if found:
            result = json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
        finish(db, trial, 0, verdict, result)
        for name, value in found.items():
            db.execute(
                "INSERT INTO findings (trial, name, value) VALUES (?, ?, ?)",
                (trial, name, json.dumps(value)),
            )
    db.execute("DROP TABLE old_trials")


def earlier_reviews(db: sqlite3.Connection) -> str | None:
    """Return the digest of the reviews that earlier versions kept in the run; None without any."""
    if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'reviews'").fetchone() is None:
        return None
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)
    rows = db.execute("SELECT * FROM main.reviews ORDER BY trial_id, reviewer").fetchall()
    hash_rows(state, iter([rows] if rows else []))
    return state.hexdigest()


def make_views(db: sqlite3.Connection, format_: int = FORMAT) -> None:
    """Create the temporary views that readers of every format query, or make them again.

    `calls` are exchanges with their keys and answers. Of an append-only run, `manifest`, `trials`,
    `exchanges` and `items` show what counts, as the tables of earlier formats did.
    """
    for name in VIEWS:
        db.execute(f"DROP VIEW IF EXISTS temp.{name}")
    if format_ < FORMAT:
        db.execute(_CALLS_OF[format_])
        return
    db.execute(_MANIFEST)
    # What most runs do not have costs nothing there.
    has_findings = _any(db, "SELECT 1 FROM main.findings")
    db.execute(_TRIALS.format(result=_WITH_FINDINGS if has_findings else "v.result"))
    if _any(db, "SELECT 1 FROM main.verdicts WHERE verdict IS NULL"):
        db.execute(_EXCHANGES)
    if _any(db, "SELECT 1 FROM main.renewals"):
        db.execute(_ITEMS)
    db.execute(_CALLS_OF[2])


def _any(db: sqlite3.Connection, query: str) -> bool:
    return db.execute(f"{query} LIMIT 1").fetchone() is not None
