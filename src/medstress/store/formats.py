"""Formats of the run folder: create a new run, and upgrade or read one of an older format.

Format 1 kept answers in the order of their keys, and `exchanges` named them by key.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from medstress.store.known_schema import FORMAT, check_schema, sql_of

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

# What readers query in every format: exchanges with their keys and answers.
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


def bring_up_to_date(db: sqlite3.Connection, file: Path) -> None:
    """Create a run in an empty file, or upgrade an older format to today's in one transaction.

    Raises:
        StoreError: the file is not a run, or has a format that this medstress does not know.
    """
    known = check_schema(db, file)
    if known == FORMAT:
        return
    calls = sql_of("calls.sql")
    script = sql_of("schema.sql") + calls if known == 0 else _FROM_1.format(calls=calls)
    db.executescript(f"BEGIN IMMEDIATE; {script} PRAGMA user_version = {FORMAT}; COMMIT;")


def make_views(db: sqlite3.Connection, format_: int = FORMAT) -> None:
    """Create the temporary view `calls` for a run of any known format."""
    db.execute(_VIEWS[format_])
