"""The root of a run: one digest over its plan and its trials, equal for equal experiments.

It covers what the experiment is (`PLAN`), its criteria and how many answers came before them, the
items, and of every trial its digest and what was found about it later; follow-ups that others have
replaced are left out. What depends on
scheduling, speed or place is left out: two runs of one experiment with the same answers have one
root, whatever their workers, batches, restarts, extensions and folders.

Each root is appended to the manifest with the last row of every table that it is about, so that a
reader sees whether anything was added since.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from string import hexdigits
from typing import Any

import orjson

from medstress.core.errors import UsageError
from medstress.core.hashing import canonical_bytes
from medstress.store.chain import DIGEST_BYTES, RUN_CHAIN
from medstress.store.chain import last_rows as rows_of

KEY = "root"
"""Key of the manifest."""
PLAN: Mapping[str, tuple[str, ...]] = {
    "parts": (),
    "attacks": (),
    "records": (),
    "controls": (),
    "fixed_family": (),
    "require": (),
    "slices": (),
    "tests": (),
    "similarity": (),
    "surrogates": (),
    "tuning": (),
    "victims": (
        *("model", "model_hash", "parameters", "family", "group", "task", "prompt"),
        *("by_dataset", "part_of", "backend"),
    ),
    "roles": ("model", "model_hash", "decoding", "backend"),
    "datasets": ("n_items", "n_rows", "hash", "passages"),
    "groups": ("n_names", "vocabulary_hash", "embedding", "distance", "n_undefined", "hash"),
}
"""Manifest entries that the root covers; of a table of parts, only these keys of each, if any are
named. Names, notes, paths, prices, times, versions, commands and verdicts that came early are left
out."""
_MAY_BE_PATHS = ("model", "embedding")
"""Keys that may hold a path, of which only the last component counts."""
_TABLES = tuple(name for name in RUN_CHAIN.tables if name != RUN_CHAIN.apart)

SUPERSEDED = "superseded"
"""Manifest entry: ids of follow-ups that another one has replaced, because an extension changed
what is asked. They stay readable, and are no part of the root nor asked again."""
SUPERSEDED_IDS = f"""
SELECT value FROM json_each(COALESCE((SELECT value FROM main.manifest WHERE key = '{SUPERSEDED}'
AND id <= :manifest ORDER BY id DESC LIMIT 1), '[]'))
"""
_ITEMS = """
SELECT i.dataset, i.item_id, i.hash, COALESCE(r.body, i.body) FROM main.items i
LEFT JOIN (
    SELECT item, MAX(id) AS id FROM main.renewals WHERE id <= :renewals GROUP BY item
) last ON last.item = i.id
LEFT JOIN main.renewals r ON r.id = last.id
WHERE i.id <= :items ORDER BY i.dataset, i.item_id
"""
_DIGESTS = "SELECT trial, digest FROM main.verdicts WHERE id <= :verdicts ORDER BY id"
_LEFT_OUT = f"SELECT id FROM main.trials WHERE trial_id IN ({SUPERSEDED_IDS})"
_FINDINGS = f"""
SELECT t.trial_id, f.name, f.value FROM main.findings f JOIN main.trials t ON t.id = f.trial
WHERE f.id IN (SELECT MAX(id) FROM main.findings WHERE id <= :findings GROUP BY trial, name)
AND t.trial_id NOT IN ({SUPERSEDED_IDS}) ORDER BY t.trial_id, f.name
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRoot:
    """A root that a run once had."""

    root: str
    """The digest, in hex."""
    row: int
    """The row of the manifest that holds it."""
    last: Mapping[str, int]
    """Table -> its last row then."""


def compute_root(
    db: sqlite3.Connection,
    last: Mapping[str, int] | None = None,
    digests: Mapping[int, bytes] | None = None,
) -> str:
    """Return the root of a run of today's format.

    Args:
        db: the run's file.
        last: table -> the last row that counts, for the root that the run had then; default: all.
        digests: trial -> the digest of its last verdict, if they were computed already.
    """
    now = last_rows(db)
    last = now if last is None else {name: int(last[name]) for name in now}
    manifest = bound_manifest(db, last["manifest"])
    state = hashlib.blake2b(canonical_bytes(plan_of(manifest)), digest_size=DIGEST_BYTES)
    state.update(orjson.dumps(["criteria", answers_before_criteria(db, manifest)]))
    for kind, rows in (("item", _ITEMS), ("finding", _FINDINGS)):
        for row in db.execute(rows, last):
            state.update(orjson.dumps((kind, *row)))
    trials = dict(db.execute(_DIGESTS, last) if digests is None else digests)
    for (row,) in db.execute(_LEFT_OUT, last):
        trials.pop(row, None)
    # Sorted, because an extension registers its trials in another order than a run at once.
    ended = sorted(filter(None, trials.values()))
    state.update(orjson.dumps(["trials", len(ended)]))
    state.update(b"".join(ended))
    return state.hexdigest()


def answers_before_criteria(db: sqlite3.Connection, manifest: Mapping[str, Any]) -> int | None:
    """Return how many answers the run had bought before its criteria were fixed; None without any.

    The commits say it: they hold the last row of the manifest and of the answers.
    """
    criteria = manifest.get("require")
    if criteria is None:
        return None
    rows = db.execute("SELECT id, value FROM main.manifest WHERE key = 'require' ORDER BY id")
    fixed = next(row for row, value in rows if _hash_of(value) == criteria["hash"])
    (last,) = db.execute(
        "SELECT COALESCE(MAX(answers), 0) FROM main.commits WHERE manifest < ?", (fixed,)
    ).fetchone()
    count = "SELECT COUNT(*) FROM main.answers WHERE id <= ? AND trial > 0"
    return int(db.execute(count, (last,)).fetchone()[0])


def _hash_of(value: str) -> str | None:
    return (json.loads(value) or {}).get("hash")


def plan_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the root covers of a manifest."""
    found: dict[str, Any] = {}
    for name, keys in PLAN.items():
        value = manifest.get(name)
        if keys:
            parts = dict(value or {})
            value = {
                label: {key: _anywhere(key, part[key]) for key in keys if part.get(key) is not None}
                for label, part in parts.items()
            }
        if value:
            found[name] = value
    if "seeds" in (known := found.get("parts", {})):
        # Their order says only which trials come first.
        found["parts"] = {**known, "seeds": sorted(known["seeds"])}
    return found


def _anywhere(key: str, value: Any) -> Any:
    """Return a value of the manifest without the folder that it may name."""
    if key not in _MAY_BE_PATHS or not isinstance(value, str):
        return value
    return value.replace("\\", "/").rstrip("/").rpartition("/")[2]


def keep_root(db: sqlite3.Connection) -> str:
    """Append the root of a complete run to its manifest, unless the last one still holds.

    Call it inside the transaction that completes the run or adds to it.
    """
    known = current_root(db)
    if known is not None:
        return known.root
    root, last = compute_root(db), last_rows(db)
    last["manifest"] += 1  # the row of the root itself
    value = json.dumps({"root": root, "last": last})
    db.execute("INSERT INTO main.manifest (key, value) VALUES (?, ?)", (KEY, value))
    return root


def kept_roots(db: sqlite3.Connection) -> Iterator[KeptRoot]:
    """Yield every root that the run once had, the earliest first."""
    rows = db.execute("SELECT id, value FROM main.manifest WHERE key = ? ORDER BY id", (KEY,))
    for row, value in rows:
        stored = json.loads(value)
        yield KeptRoot(root=stored["root"], row=row, last=stored["last"])


def current_root(db: sqlite3.Connection) -> KeptRoot | None:
    """Return the last root if nothing was added since, else None."""
    kept = list(kept_roots(db))
    return kept[-1] if kept and kept[-1].last == last_rows(db) else None


def checked_root(text: str) -> str:
    """Return a root as it is compared.

    Raises:
        UsageError: the text is no digest.

    >>> checked_root(" 0F3A" + "0" * 28)
    '0f3a0000000000000000000000000000'
    """
    root = text.strip().lower()
    if len(root) != 2 * DIGEST_BYTES or not set(root) <= set(hexdigits):
        raise UsageError(
            f"--root {text}: expected a digest of {2 * DIGEST_BYTES} hex digits, as it stands in "
            f"the summary; got {len(root)} characters"
        ).with_flag("--root", None)
    return root


def last_rows(db: sqlite3.Connection) -> dict[str, int]:
    """Return the last row of every table that a root is about."""
    return rows_of(db, _TABLES)


def bound_manifest(db: sqlite3.Connection, last: int) -> dict[str, Any]:
    """Return the entries that a root covers, as they were up to a row of the manifest."""
    names = ", ".join("?" * len(PLAN))
    rows = db.execute(
        f"SELECT key, value FROM main.manifest WHERE key IN ({names}) AND id <= ? ORDER BY id",
        (*PLAN, last),
    )
    return {key: json.loads(value) for key, value in rows}
