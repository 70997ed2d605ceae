"""Where the answers of several shards stand in the merged run.

All answers that were computed are kept, shard by shard, also where two shards bought the same call:
each trial keeps the answer that it was judged by, and what was spent stays counted. An answer from
the shared cache is left out where another shard computed it, or also took it from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from medstress.core.calls import FROM_CACHE
from medstress.store.shards import StoredShard

Numbers: TypeAlias = NDArray[np.int64]
_ALL = "SELECT id, key, trial, body FROM main.answers ORDER BY id"
_ROWS = "SELECT id, key, trial, body, seconds, tokens_in, tokens_out FROM main.answers ORDER BY id"


class MergedAnswers:
    """The rows of all answers in the merged run."""

    def __init__(self, shards: Sequence[StoredShard]) -> None:
        self._shards = shards
        counts = [_count(each) for each in shards]
        taken = [_count(each, f"WHERE trial = {FROM_CACHE}") for each in shards]
        dropped = _same_elsewhere(shards) if any(taken) else {}
        self._rows: list[Numbers] = []
        self._moved: list[list[tuple[int, tuple[int, int]]]] = []
        n_before = 0
        for source, n in enumerate(counts):
            is_kept = np.ones(n + 1, bool)
            is_kept[0] = False
            moved = [(row, to) for (at, row), to in dropped.items() if at == source]
            is_kept[[row for row, _ in moved]] = False
            rows = np.cumsum(is_kept) + n_before
            n_before += int(is_kept.sum())
            self._rows.append(rows)
            self._moved.append(moved)
        for own, moved in zip(self._rows, self._moved, strict=True):
            for row, (source, there) in moved:
                own[row] = self._rows[source][there]
        self.n = n_before
        """How many rows there are."""

    def row(self, source: int, row: int | None) -> int | None:
        """Return the row of a shard's answer in the merged run; None stays None."""
        return None if row is None else int(self._rows[source][row])

    def shift(self, source: int) -> int | None:
        """Return what is added to every row of a shard; None if it is not the same for all."""
        own = self._rows[source]
        return None if self._moved[source] else (int(own[1]) - 1 if len(own) > 1 else 0)

    def kept(self, trials: Sequence[Sequence[int]]) -> Iterator[tuple[object, ...]]:
        """Yield the rows of the merged table.

        Args:
            trials: of every shard, row of a trial -> its row in the merged run.
        """
        for source, shard in enumerate(self._shards):
            left_out = {row for row, _ in self._moved[source]}
            own = trials[source]
            before = self.shift(source)
            for row, key, trial, *rest in shard.rows(_ROWS):
                if row not in left_out:
                    number = self.row(source, row) if before is None else row + before
                    yield (number, key, own[trial], *rest)


def _count(shard: StoredShard, where: str = "") -> int:
    return int(next(shard.rows(f"SELECT COUNT(*) FROM main.answers {where}"))[0])


def _same_elsewhere(
    shards: Sequence[StoredShard],
) -> dict[tuple[int, int], tuple[int, int]]:
    """Return (shard, row) of answers from the cache -> where the same answer is kept."""
    keys = {
        key
        for each in shards
        for (key,) in each.rows(f"SELECT key FROM main.answers WHERE trial = {FROM_CACHE}")
    }
    bought: dict[tuple[bytes, str], tuple[int, int]] = {}
    taken: list[tuple[tuple[bytes, str], tuple[int, int]]] = []
    for source, each in enumerate(shards):
        for row, key, trial, body in each.rows(_ALL):
            if key in keys:
                if trial == FROM_CACHE:
                    taken.append(((key, body), (source, row)))
                else:
                    bought.setdefault((key, body), (source, row))
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for call, place in taken:
        if (kept := bought.setdefault(call, place)) != place:
            found[place] = kept
    return found
