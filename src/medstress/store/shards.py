"""What the folder of a shard says about itself."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medstress.core.errors import StoreError
from medstress.core.shards import Shard
from medstress.store.chain import RUN_CHAIN, first_break
from medstress.store.missing import never_began, no_run
from medstress.store.odd_rows import interpreting
from medstress.store.opening import ChainError, open_for_reading, restrict
from medstress.store.run_store import FILE
from medstress.store.trial_digest import wrong_exchanges
from medstress.store.views import make_views

KEY = "shard"
"""Manifest entry of a shard: number, of how many, trials of the whole plan, and the positions of
its items in the plan by data set."""
PLACES = "places"
"""Key in it: where several victims share a name, name -> data set -> item -> place of the victim
that is asked about the item."""
SHARDS = "shards"
"""Manifest entry of a merged run: how many shards it joins, and what they bought twice."""
STOPPED_BY = "stopped_by"
"""Manifest entry of a shard: the limits that ended its last process."""
_ENDED = """
SELECT COUNT(*), COALESCE(SUM(verdict = 'failed'), 0) FROM trials WHERE verdict IS NOT NULL
"""
_HELD = """
SELECT (SELECT COUNT(*) FROM main.trials), (SELECT COUNT(*) FROM main.verdicts),
       (SELECT COUNT(*) FROM main.answers)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredShard:
    """A shard as its folder holds it, open for reading."""

    folder: Path
    """Of the shard."""
    db: sqlite3.Connection
    """Checked, with today's views, in one snapshot."""
    manifest: Mapping[str, Any]
    """Of the whole plan, but for what is the shard's own."""
    shard: Shard
    """Which part of the plan it is."""
    n_ended: int
    """Trials that ended."""
    n_failed: int
    """Of these, trials that failed."""

    def rows(self, query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query.

        Raises:
            StoreError: the folder cannot be read.
        """
        with interpreting(self.folder / FILE):
            yield from self.db.execute(query, values)

    @property
    def n_planned(self) -> int:
        """Trials of the shard."""
        return int(self.manifest["n_planned"])

    @property
    def held(self) -> tuple[int, ...]:
        """Rows of trials, of verdicts and of answers, which are only added to."""
        return tuple(map(int, next(self.rows(_HELD))))

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
    told = manifest.get(KEY)
    return None if told is None else Shard(int(told["of"]), int(told["number"]))


@contextmanager
def opened_shard(folder: Path, *, whole: bool = False) -> Iterator[StoredShard]:
    """Open the folder of a shard, with all checks that a reader makes.

    Args:
        folder: of the shard.
        whole: also check the digests of answers and exchanges, as `medstress verify` does.

    Raises:
        StoreError: it holds no run, no shard, or does not agree with its chain.
    """
    path = folder / FILE
    if not path.is_file():
        raise no_run(folder)
    with ExitStack() as stack:
        with interpreting(path):
            opened = open_for_reading(path)
            db = stack.enter_context(closing(opened.db))
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
            if whole:
                _check_calls(folder, db)
        yield StoredShard(
            folder=folder,
            db=db,
            manifest=manifest,
            shard=shard,
            n_ended=n_ended,
            n_failed=n_failed,
        )


def _check_calls(folder: Path, db: sqlite3.Connection) -> None:
    """Check what readers take no time for: a merge gives the calls a new chain, where a change
    would pass for what was answered.

    Raises:
        ChainError: answers or exchanges were changed.
    """
    where = first_break(db, RUN_CHAIN, whole=True)
    if where is None:
        trial = next((trial for trial, _, _ in wrong_exchanges(db)), None)
        if trial is None:
            return
    told = f"the exchanges of trial {trial} have another digest" if where is None else str(where)
    raise ChainError(
        f"{folder / FILE} is not as medstress wrote it: {told}; `medstress verify {folder}` says "
        "more, and a copy or the same shard run anew is merged"
    )
