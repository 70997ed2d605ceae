"""Exchanges of a merged run that stand in Parquet files beside its ledger, one file per shard.

Each row is a call that an ended trial consumed, with its answer; rows of one trial are neighbours,
trials come in the order of the plan. What is known only over all shards is marked when they are
merged (`medstress.store.packing`): the first call of each key, the one that pays, and the one that
stands for an answer. Trials that ended never begin again, and all later trials come after them, so
these marks stay true. Everything is read in parts of `GROUP` rows, never as a whole.
"""

from __future__ import annotations

import hashlib
import heapq
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from medstress.core.errors import StoreError
from medstress.store.chain import DIGEST_BYTES
from medstress.store.packed_tables import FOLDER, TABLES, make_tables

GROUP = 8192
"""Rows that are packed together and read together."""
SCHEMA: dict[str, pl.DataType] = {
    "trial": pl.Int64(),
    "attempt": pl.Int64(),
    "seq": pl.Int64(),
    "role": pl.String(),
    "purpose": pl.String(),
    "query": pl.Int64(),
    "call": pl.Int64(),
    "key": pl.Binary(),
    "edits": pl.String(),
    "request": pl.String(),
    "error": pl.String(),
    "answered_for": pl.Int64(),
    "body": pl.String(),
    "seconds": pl.Float64(),
    "tokens_in": pl.Int64(),
    "tokens_out": pl.Int64(),
    "is_latest": pl.Boolean(),
    "is_first": pl.Boolean(),
    "pays": pl.Boolean(),
    "stands": pl.Boolean(),
    "spent_as": pl.String(),
}
"""Columns of `exchanges` and `answers`, and the marks: of the trial's latest attempt; first of its
key in the order of the plan; pays for its key; stands for its answer; the role that answered."""

Rows: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedFile:
    """One Parquet file, as the manifest knows it."""

    path: Path
    n_rows: int
    n_bytes: int
    digest: str
    """Over its bytes, in hex."""


class Packed:
    """The packed exchanges of one run."""

    def __init__(self, files: Sequence[PackedFile]) -> None:
        self.files = files
        self._starts = np.cumsum([0, *(each.n_rows for each in files)])
        self._parts: dict[int, tuple[int, pl.DataFrame]] = {}

    def difference(self) -> tuple[str, str, str] | None:
        """Return (file, digest as it should be, as found) of the first file that was changed."""
        for each in self.files:
            found = file_digest(each.path)
            if found != each.digest:
                return f"{FOLDER}/{each.path.name}", each.digest, found
        return None

    # -- all calls ---------------------------------------------------------------------------
    def rows(
        self, columns: Sequence[str], where: pl.Expr | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """Yield rows in the order of the plan.

        Args:
            columns: of the rows; the first is `trial`.
            where: which rows; default: all, also of attempts that failed.
        """
        needed = columns if where is None else [*columns, *where.meta.root_names()]

        def of_file(file: PackedFile) -> Iterator[tuple[Any, ...]]:
            for frame in _frames(file, needed):
                chosen = frame if where is None else frame.filter(where)
                yield from chosen.select(columns).iter_rows()

        yield from heapq.merge(*map(of_file, self.files), key=itemgetter(0))

    def fill(self, db: sqlite3.Connection) -> None:
        """Count the packed calls into the temporary tables."""
        make_tables(db)
        for file in self.files:
            for frame in _whole_trials(_frames(file, _COUNTED)):
                latest = frame.filter("is_latest")
                _insert(db, TABLES[0], _calls(latest))
                _insert(db, TABLES[1], _answers(latest))

    # -- one trial ---------------------------------------------------------------------------
    @cached_property
    def last_trial(self) -> int:
        """The last trial whose exchanges are packed; all up to it are."""
        return max((int(trials[-1]) for trials, _ in self._index if len(trials)), default=0)

    def of_trial(self, trial: int, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return the rows of one trial, in the order of attempts and calls."""
        for number, (trials, starts) in enumerate(self._index):
            at = int(trials.searchsorted(trial))
            if at < len(trials) and trials[at] == trial:
                first, end = int(starts[at]), int(starts[at + 1])
                return self._between(number, first, end).select(columns).rows()
        return []

    def packed_trials(self) -> Iterator[list[int]]:
        """Yield the trials of each file, in their order there."""
        for trials, _ in self._index:
            yield trials.tolist()

    @cached_property
    def _index(self) -> list[tuple[Rows, Rows]]:
        """Of every file: its trials, and the row where each begins, with the end."""
        return [_trials_of(each) for each in self.files]

    def _between(self, number: int, first: int, end: int) -> pl.DataFrame:
        """Return some rows of a file; the parts read last are kept."""
        file = self.files[number]
        low, known = self._parts.get(number, (0, None))
        if known is None or not low <= first or end > low + len(known):
            low = first // GROUP * GROUP
            known = _part(file, list(SCHEMA), low, -(-end // GROUP) * GROUP - low)
            self._parts[number] = low, known
        return known.slice(first - low, end - first)

    # -- answers -----------------------------------------------------------------------------
    def answers(self) -> Iterator[list[tuple[bytes, int]]]:
        """Yield (key, place) of every answer, part by part; a place is below 2^32."""
        for file, start in zip(self.files, self._starts.tolist(), strict=False):
            for low in range(0, file.n_rows, GROUP):
                frame = _part(file, ["key", "stands"], low, GROUP).with_row_index("at", start + low)
                yield list(frame.filter("stands").select("key", "at").iter_rows())

    def at(self, places: Sequence[int], columns: Sequence[str]) -> dict[int, tuple[Any, ...]]:
        """Return place -> values of the row there."""
        found = {}
        for place in sorted(places):
            number = int(self._starts.searchsorted(place, side="right")) - 1
            row = place - int(self._starts[number])
            found[place] = self._between(number, row, row + 1).select(columns).row(0)
        return found


def file_digest(path: Path) -> str:
    """Return the digest over the bytes of a file, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(
            stream, lambda: hashlib.blake2b(digest_size=DIGEST_BYTES)
        ).hexdigest()


def _part(file: PackedFile, columns: Sequence[str], low: int, n: int) -> pl.DataFrame:
    try:
        scan = pl.scan_parquet(file.path, glob=False, schema=SCHEMA)
        return scan.select(list(dict.fromkeys(columns))).slice(low, n).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        told = " ".join(str(error).split())[:200]
        raise StoreError(f"{file.path} cannot be read: {told}; restore it from a copy") from error


def _frames(file: PackedFile, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    for low in range(0, file.n_rows, GROUP):
        yield _part(file, columns, low, GROUP)


def _whole_trials(frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Cut frames anew, so that each holds whole trials."""
    rest: pl.DataFrame | None = None
    for frame in frames:
        joined = frame if rest is None else pl.concat([rest, frame])
        is_last = joined["trial"] == joined["trial"][-1]
        yield joined.filter(~is_last)
        rest = joined.filter(is_last)
    if rest is not None:
        yield rest


def _trials_of(file: PackedFile) -> tuple[Rows, Rows]:
    trials, starts, before = [], [], None
    for i, frame in enumerate(_frames(file, ["trial"])):
        values = frame["trial"].to_numpy()
        is_new = np.diff(values, prepend=values[0] - 1 if before is None else before) != 0
        trials.append(values[is_new])
        starts.append(np.flatnonzero(is_new) + i * GROUP)
        before = values[-1]
    none = np.zeros(0, np.int64)
    return np.concatenate([none, *trials]), np.concatenate([none, *starts, [file.n_rows]])


_COUNTED = (
    *("trial", "role", "purpose", "query", "call", "error", "answered_for", "seconds"),
    *("tokens_in", "tokens_out", "is_latest", "is_first", "pays", "stands", "spent_as"),
)


def _calls(frame: pl.DataFrame) -> pl.DataFrame:
    """Count the calls of whole trials by trial, role and purpose, as columns of the table."""
    place = ["trial", "role", "purpose"]
    lost = pl.col("error").is_not_null()
    bought = pl.col("is_first") & ~lost & (pl.col("answered_for") > 0).fill_null(False)
    by_query = frame.group_by(*place, "query").agg(
        failed=lost.any(),
        pays=pl.col("pays").any(),
        n_calls=pl.len(),
        n_first=(pl.col("call") == 0).sum(),
        bought=bought.sum(),
        tokens_in=pl.col("tokens_in").filter(bought).sum(),
        tokens_out=pl.col("tokens_out").filter(bought).sum(),
    )
    paid, failed = pl.col("pays"), pl.col("failed")
    return by_query.group_by(place).agg(
        pl.col("n_calls").sum(),
        pl.col("n_first").sum(),
        (paid & ~failed).sum().alias("paid"),
        (~paid & ~failed).sum().alias("cached"),
        failed.sum().alias("failed"),
        *(pl.col(name).sum() for name in ("bought", "tokens_in", "tokens_out")),
    )


def _answers(frame: pl.DataFrame) -> pl.DataFrame:
    """Count answers by the trial that asked first, and who answered."""
    return (
        frame.filter("stands")
        .group_by("answered_for", "spent_as")
        .agg(
            pl.len().alias("n"),
            (pl.col("seconds") > 0).sum().alias("n_timed"),
            *(pl.col(name).sum() for name in ("tokens_in", "tokens_out", "seconds")),
        )
    )


def _insert(db: sqlite3.Connection, table: str, frame: pl.DataFrame) -> None:
    marks = ", ".join("?" * frame.width)
    db.executemany(f"INSERT INTO temp.{table} VALUES ({marks})", frame.iter_rows())
