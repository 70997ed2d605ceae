"""Merge anew: what was merged before gives way once its shards hold more, and loses nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from medstress.core.calls import FROM_CACHE
from medstress.core.errors import StoreError
from medstress.experiment.plan import manifest as manifests
from medstress.store.merging import HELD, LAST, Counts
from medstress.store.odd_rows import interpreting
from medstress.store.opening import open_for_reading
from medstress.store.review_store import FILE as REVIEWS
from medstress.store.run_store import FILE, SUMMARY
from medstress.store.shards import SHARDS, StoredShard

_OWN = f"SELECT COUNT(*) FROM main.answers WHERE id > ? AND trial != {FROM_CACHE}"


def is_kept(to: Path, shards: Sequence[StoredShard]) -> Counts | None:
    """Return what a merged run holds if its shards hold nothing more; None if it may be replaced.

    Raises:
        StoreError: it holds something that the shards lack.
    """
    with interpreting(to / FILE):
        opened = open_for_reading(to / FILE)
        with closing(opened.db) as db:
            stored = db.execute("SELECT key, value FROM main.manifest ORDER BY id").fetchall()
            manifest: dict[str, Any] = {key: json.loads(value) for key, value in stored}
            told: Mapping[str, Any] = manifest.get(SHARDS) or {}
            if HELD not in told:
                raise _lacking(to, "it was not merged from shards", shards)
            n_own = int(db.execute(_OWN, (told[LAST],)).fetchone()[0])
        now = {str(each.shard.number): each.held for each in shards}
        before = {number: tuple(map(int, rows)) for number, rows in told[HELD].items()}
        if now == before and told["of"] == shards[0].shard.of:
            return Counts(
                n_answers=told["n_answers"],
                bought_twice=told["bought_twice"],
                answered_otherwise=told["answered_otherwise"],
            )
        if (to / REVIEWS).exists():
            raise _lacking(to, "people have judged its cases", shards)
        if n_own:
            raise _lacking(to, f"it has asked {n_own} calls of its own", shards)
        if told["n_answers"]:
            _check_grown(to, manifest, before, now, shards)
    return None


def make_way(to: Path) -> None:
    """Remove a merged run and what was computed from it; other files stay."""
    for name in (SUMMARY, f"{FILE}-wal", f"{FILE}-shm", FILE):
        (to / name).unlink(missing_ok=True)


def _check_grown(
    to: Path,
    manifest: Mapping[str, Any],
    before: Mapping[str, tuple[int, ...]],
    now: Mapping[str, tuple[int, ...]],
    shards: Sequence[StoredShard],
) -> None:
    """Check that the shards are those that were merged, with more in them."""
    first = shards[0]
    if manifest[SHARDS]["of"] != first.shard.of:
        raise _lacking(to, f"it was merged from {manifest[SHARDS]['of']} shards", shards)
    if found := manifests.differences(manifest["parts"], first.manifest["parts"]):
        raise _lacking(to, f"it is of another experiment ({found[0]})", shards)
    for number, rows in before.items():
        here = now.get(number, (0,) * len(rows))
        if any(n < known for n, known in zip(here, rows, strict=True)):
            raise _lacking(to, f"shard {number} held more when it was merged", shards)


def _lacking(to: Path, why: str, shards: Sequence[StoredShard]) -> StoreError:
    return StoreError(
        f"{to} is not merged anew, because {why}, which would be lost, and "
        f"{shards[0].folder.parent} holds more by now: move {to} away or give another --out, and "
        "what it asked is asked again unless the cache holds it"
    )
