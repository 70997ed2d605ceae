"""What the folder of a shard says about itself."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medstress.core.errors import StoreError
from medstress.core.shards import Shard
from medstress.store.chain import RUN_CHAIN, first_break, head
from medstress.store.missing import never_began, no_run
from medstress.store.opening import (
    ChainError,
    Stamps,
    interpreting,
    open_for_reading,
    restrict,
    stamps,
)
from medstress.store.run_store import FILE
from medstress.store.trial_digest import wrong_exchanges
from medstress.store.views import make_views

KEY = "shard"
"""Manifest entry of a shard: `number`, `of` how many, `n_trials` of the whole plan, and the place
of the plan's `first` trial, which is not 0 in a plan that was extended."""
SHARDS = "shards"
"""Manifest entry of a merged run: how many shards it joins, and what they bought twice."""
STOPPED_BY = "stopped_by"
"""Manifest entry of a shard: the limits that ended its last process."""
_ENDED = """
SELECT COUNT(*), COALESCE(SUM(verdict = 'failed'), 0) FROM trials WHERE verdict IS NOT NULL
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredShard:
    """What the folder of a shard held when it was read."""

    folder: Path
    manifest: Mapping[str, Any]
    """Of the whole plan, but for what is the shard's own."""
    shard: Shard
    """Which part of the plan it is."""
    n_ended: int
    """Trials that ended."""
    n_failed: int
    """Of these, trials that failed."""
    head: str | None
    """The digest of its last commit."""
    stamps: Stamps
    """Of its files."""

    @property
    def n_planned(self) -> int:
        """Trials of the shard."""
        return int(self.manifest["n_planned"])

    @property
    def stopped_by(self) -> tuple[str, ...]:
        """Limits of the experiment that ended its last process."""
        return tuple(map(str, self.manifest.get(STOPPED_BY) or ()))

    @property
    def is_finished(self) -> bool:
        """Whether all its trials ended."""
        return self.n_ended == self.n_planned


def shard_of(manifest: Mapping[str, Any]) -> Shard | None:
    """Return which shard a folder holds; None for a whole run."""
    entry = manifest.get(KEY)
    return None if entry is None else Shard(int(entry["of"]), int(entry["number"]))


def read_shard(folder: Path, *, whole: bool = False) -> StoredShard:
    """Read what a shard says of itself, with all checks that a reader makes.

    Args:
        folder: of the shard.
        whole: also check the digests of answers and exchanges, as `medstress verify` does: a merge
            gives them a new chain, where a change would pass for what was answered.

    Raises:
        StoreError: it holds no run, no shard, or does not agree with its chain.
    """
    with opened_shard(folder) as (shard, db):
        if whole and (where := _wrong_call(db)) is not None:
            raise ChainError(
                f"{folder / FILE} is not as medstress wrote it: {where}; `medstress verify "
                f"{folder}` says more, and a copy or the same shard run anew is merged"
            )
        return shard


@contextmanager
def opened_shard(folder: Path) -> Iterator[tuple[StoredShard, sqlite3.Connection]]:
    """Open the folder of a shard for reading; the connection shows what counts.

    Raises:
        StoreError: it holds no run, no shard, or does not agree with its chain.
    """
    path = folder / FILE
    if not path.is_file():
        raise no_run(folder)
    with interpreting(path):
        opened = open_for_reading(path)
        with closing(opened.db) as db:
            if opened.is_empty:
                raise never_began(folder)
            make_views(db)
            restrict(db)
            stored = db.execute("SELECT * FROM manifest").fetchall()
            manifest = {key: json.loads(value) for key, value in stored}
            shard = shard_of(manifest)
            if shard is None:
                raise StoreError(
                    f"{folder} holds a whole run and no shard; give the folders that "
                    "`medstress run --shard` wrote"
                )
            n_ended, n_failed = db.execute(_ENDED).fetchone()
            yield (
                StoredShard(
                    folder=folder,
                    manifest=manifest,
                    shard=shard,
                    n_ended=n_ended,
                    n_failed=n_failed,
                    head=head(db),
                    stamps=stamps(path),
                ),
                db,
            )
            if not opened.is_unchanged():
                raise StoreError(f"{folder} was run while it was read; merge once it has ended")


def _wrong_call(db: sqlite3.Connection) -> str | None:
    """Return where answers or exchanges are not those that were stored."""
    if (where := first_break(db, RUN_CHAIN, whole=True)) is not None:
        return str(where)
    for trial, _, _ in wrong_exchanges(db):
        return f"the exchanges of trial {trial} have another digest"
    return None
