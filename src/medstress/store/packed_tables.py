"""Where a run with packed exchanges keeps them, and the temporary tables that count them.

Without polars, which takes a while to load and which most runs do not need.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

FOLDER = "exchanges"
"""Of the Parquet files, in the folder of the run."""
SHARDS = "shards"
"""Manifest entry of a merged run: how many shards it joins, and what they bought twice."""
FILES = "exchanges"
"""Key in the entry `SHARDS`: the Parquet files, each with its rows and its digest."""
# What later queries need of the packed calls, in temporary tables of a row per trial, role and
# purpose. They are empty where nothing is packed, so that the queries are the same.
TABLES = ("packed_calls", "packed_answers")
_TABLES = (
    """
CREATE TEMP TABLE IF NOT EXISTS packed_calls (
    trial INTEGER NOT NULL, role TEXT NOT NULL, purpose TEXT NOT NULL, n_calls INTEGER NOT NULL,
    n_first INTEGER NOT NULL, paid INTEGER NOT NULL, cached INTEGER NOT NULL,
    failed INTEGER NOT NULL, bought INTEGER NOT NULL, tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL)
""",
    """
CREATE TEMP TABLE IF NOT EXISTS packed_answers (
    trial INTEGER NOT NULL, role TEXT NOT NULL, n INTEGER NOT NULL, n_timed INTEGER NOT NULL,
    tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, seconds REAL NOT NULL)
""",
)


def make_tables(db: sqlite3.Connection) -> None:
    """Create the temporary tables of packed calls, empty, unless they are there."""
    for table in _TABLES:
        db.execute(table)


def packed_entries(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what a run's manifest says of its packed files; empty if it has none."""
    return list((manifest.get(SHARDS) or {}).get(FILES) or ())
