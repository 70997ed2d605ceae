"""Where the answers of several shards stand in the merged run.

All answers that were computed are kept, shard by shard, also where two shards bought the same call:
each trial keeps the answer that it was judged by, and what was spent stays counted. An answer from
the shared cache is left out where another shard computed it, or also took it from there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from medstress.core.calls import FROM_CACHE
from medstress.store.shards import StoredShard

_ALL = "SELECT id, key, trial, body FROM main.answers ORDER BY id"
_ROWS = "SELECT id, key, trial, body, seconds, tokens_in, tokens_out FROM main.answers ORDER BY id"


class MergedAnswers:
    """The rows of all answers in the merged run.

    Memory grows only with the answers that are left out, not with those that are kept.
    """

    def __init__(self, shards: Sequence[StoredShard]) -> None:
        self._shards = shards
        taken = [_count(each, f"WHERE trial = {FROM_CACHE}") for each in shards]
        self._kept_elsewhere = _same_elsewhere(shards) if any(taken) else {}
        self._left_out: list[list[int]] = [[] for _ in shards]
        for source, row in sorted(self._kept_elsewhere):
            self._left_out[source].append(row)
        self._before: list[int] = []
        self.n = 0
        """How many rows there are."""
        for source, each in enumerate(shards):
            self._before.append(self.n)
            self.n += _count(each) - len(self._left_out[source])

    def row(self, source: int, row: int | None) -> int | None:
        """Return the row of a shard's answer in the merged run; None stays None."""
        if row is None:
            return None
        source, row = self._kept_elsewhere.get((source, row), (source, row))
        return self._before[source] + row - bisect_left(self._left_out[source], row)

    def shift(self, source: int) -> int | None:
        """Return what is added to every row of a shard; None if it is not the same for all."""
        return None if self._left_out[source] else self._before[source]

    def kept(self, trials: Sequence[Sequence[int]]) -> Iterator[tuple[object, ...]]:
        """Yield the rows of the merged table, in order, without their numbers.

        Args:
            trials: of every shard, row of a trial -> its row in the merged run.
        """
        for source, shard in enumerate(self._shards):
            left_out, own = set(self._left_out[source]), trials[source]
            for row, key, trial, *rest in shard.rows(_ROWS):
                if row not in left_out:
                    yield (key, own[trial], *rest)


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
