"""Formats of the run folder: how a new one begins, and how a run of an older one is read on.

Format 1 kept answers in the order of their keys, and named them by key in `exchanges`.
"""

from __future__ import annotations

import sqlite3
from importlib.resources import files
from pathlib import Path

from medstress.errors import StoreError

FORMAT = 2

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

# What a reader asks, whatever the format: exchanges with their keys and answers.
_CALLS = """
CREATE TEMP VIEW calls AS
SELECT e.trial, e.seq, e.role, e.purpose, e.query, e.call, {key} AS key, e.edits, e.request,
       e.error, s.trial AS answered_for, s.body, s.seconds, s.tokens_in, s.tokens_out
FROM exchanges e LEFT JOIN answers s ON {joined}
"""
_VIEWS = {
    1: _CALLS.format(key="e.key", joined="s.key = e.key"),
    FORMAT: _CALLS.format(key="COALESCE(s.key, e.key)", joined="s.id = e.answer"),
}


def bring_up_to_date(db: sqlite3.Connection, folder: Path) -> None:
    """Begin a run in an empty file, or turn one of an older format into today's, at once.

    Raises:
        StoreError: the run is of a format that this medstress does not know.
    """
    known = _known_format(db, folder)
    if known == FORMAT:
        return
    calls = _sql("calls.sql")
    script = _sql("schema.sql") + calls if known == 0 else _FROM_1.format(calls=calls)
    db.executescript(f"BEGIN IMMEDIATE; {script} PRAGMA user_version = {FORMAT}; COMMIT;")


def make_views(db: sqlite3.Connection, folder: Path) -> None:
    """Make the view `calls` of a run of any known format, for this connection only.

    Raises:
        StoreError: the run is of a format that this medstress does not know.
    """
    db.execute(_VIEWS[_known_format(db, folder) or FORMAT])


def _known_format(db: sqlite3.Connection, folder: Path) -> int:
    known = int(db.execute("PRAGMA user_version").fetchone()[0])
    if known not in (0, *_VIEWS):
        raise StoreError(
            f"{folder} holds a run of format {known}, this medstress reads up to {FORMAT}; "
            "use the medstress that wrote it, or choose another folder with --out"
        )
    return known


def _sql(name: str) -> str:
    return (files("medstress.store") / name).read_text("utf-8")
