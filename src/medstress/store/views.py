"""The views of what counts in a run."""

from __future__ import annotations

import sqlite3

INQUIRIES = "('asked', 'unanswered')"
"""Verdicts of inquiries and studies; a trial has another one, or none while it runs."""
UNFINISHED = ("failed", "unanswered", "cut_short")
"""Verdicts of trials that may begin again."""
SIMILARITY = "prompt_similarity"
"""What is found about a trial after it has ended, by its name in the result."""

_CALLS = """
CREATE TEMP VIEW calls AS
SELECT e.trial, e.seq, e.role, e.purpose, e.query, e.call, COALESCE(s.key, e.key) AS key, e.edits,
       e.flags, e.request, e.error, s.trial AS answered_for, s.body, s.seconds, s.tokens_in,
       s.tokens_out
FROM exchanges e LEFT JOIN answers s ON s.id = e.answer
"""
# What counts of an append-only run: views that hide the tables of these names.
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
# The last finding of each name joins the result.
_WITH_FINDINGS = """
CASE WHEN v.verdict IS NULL OR NOT EXISTS (SELECT 1 FROM main.findings WHERE trial = t.id)
THEN v.result ELSE json_patch(v.result, (
    SELECT json_group_object(name, json(value)) FROM main.findings WHERE id IN (
        SELECT MAX(id) FROM main.findings WHERE trial = t.id GROUP BY name)))
END
"""
_EXCHANGES = """
CREATE TEMP VIEW exchanges AS
SELECT e.trial, e.attempt, e.seq, e.role, e.purpose, e.query, e.call, e.answer, e.key, e.edits,
       e.flags, e.request, e.error
FROM main.exchanges e WHERE e.attempt = (
    SELECT COUNT(*) FROM main.verdicts v WHERE v.trial = e.trial AND v.verdict IS NULL)
"""
# Joined, not looked up item by item: `renewals` has no index.
_ITEMS = """
CREATE TEMP VIEW items AS
SELECT i.id, i.dataset, i.item_id, i.hash, COALESCE(r.body, i.body) AS body FROM main.items i
LEFT JOIN (SELECT item, MAX(id) AS id FROM main.renewals GROUP BY item) last ON last.item = i.id
LEFT JOIN main.renewals r ON r.id = last.id
"""
VIEWS = ("calls", "manifest", "trials", "exchanges", "items")
"""The views that `make_views` may make."""


def make_views(db: sqlite3.Connection) -> None:
    """Create the temporary views that readers query, or make them again.

    `calls` are exchanges with their keys and answers; `manifest`, `trials`, `exchanges` and `items`
    show what counts.
    """
    for name in VIEWS:
        db.execute(f"DROP VIEW IF EXISTS temp.{name}")
    db.execute(_MANIFEST)
    # What most runs do not have costs nothing there.
    (has_findings, has_begun_again, has_renewals) = db.execute(
        "SELECT EXISTS (SELECT 1 FROM main.findings), "
        "EXISTS (SELECT 1 FROM main.verdicts WHERE verdict IS NULL), "
        "EXISTS (SELECT 1 FROM main.renewals)"
    ).fetchone()
    db.execute(_TRIALS.format(result=_WITH_FINDINGS if has_findings else "v.result"))
    if has_begun_again:
        db.execute(_EXCHANGES)
    if has_renewals:
        db.execute(_ITEMS)
    db.execute(_CALLS)
