"""Keys and values of token sequences that were read, kept within a byte budget.

Every token has a *row*, the same one in the keys and in the values of every layer. A batch is
written into rows that are not in use, and what of it is worth keeping just stays there. A sequence
is a list of rows, and sequences with a common past share its rows, so that an instruction which
all prompts begin with is kept once. Attention gathers what is kept and what is new from one tensor.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from medstress.backends.token_tree import shared_length

MAX_ENTRIES = 64
"""Enough for batches of up to so many calls; an item whose trials are over is not met again."""
_FIRST_ROWS = 16_384
"""Made at once, after a first batch, if the budget has room: more rows later mean that all kept
ones are copied. On a CPU what was never written takes no memory."""

Rows: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """One sequence, and where its keys and values are."""

    tokens: tuple[int, ...]
    """The sequence."""
    rows: Rows
    """The row of each token, `(n_tokens,)`."""


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """A sequence of the batch that was just read, to be kept."""

    tokens: tuple[int, ...]
    """The sequence."""
    past: Rows
    """Kept rows of its beginning, `(n_past,)`."""
    new: Rows
    """Rows of its other tokens, which the batch was written into, `(n_tokens - n_past,)`."""


class KvStore:
    """Finds the kept sequence that begins most like a new one; forgets the least recently used.

    Args:
        max_bytes: the budget; a sequence that exceeds it alone is not kept.
        max_entries: the most sequences. Memory that is used again costs nothing; memory that is
            touched for the first time can cost a tenth of the computation it keeps.
        batch_rows: rows made for batches beside those of the budget, though no more than these;
            for a larger batch everything moves.
    """

    def __init__(
        self, max_bytes: int, max_entries: int = MAX_ENTRIES, *, batch_rows: int = 0
    ) -> None:
        self.max_bytes = max_bytes
        self.max_entries = max_entries
        self._batch_rows = batch_rows
        self._kept: OrderedDict[tuple[int, ...], Kept] = OrderedDict()
        # In lexicographic order the sequence with the longest common prefix is a neighbour.
        self._order: list[tuple[int, ...]] = []
        self._layers: list[tuple[Any, Any]] = []
        # How many sequences use each row.
        self._uses = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._order)

    @property
    def n_bytes(self) -> int:
        """Memory of the rows that are in use."""
        return int(np.count_nonzero(self._uses)) * self._row_bytes

    def begin(self, n_tokens: int) -> Rows:
        """Choose unused rows for a batch that is about to be read, `(n_tokens,)`.

        They stay unused, and the next batch is given them again, unless `put` keeps them.
        """
        if (missing := n_tokens - np.count_nonzero(self._uses == 0)) > 0:
            self._grow(len(self._uses) + int(missing), n_tokens)
        return np.flatnonzero(self._uses == 0)[:n_tokens]

    def write(self, layer: int, rows: Any, keys: Any, values: Any) -> tuple[Any, Any]:
        """Put what a layer made of a batch into the batch's rows.

        Args:
            layer: from 0; a batch passes all of them, in order.
            rows: what `begin` chose, as a tensor on the layer's device, `(n_tokens,)`.
            keys: `(n_tokens, n_heads, head_size)`.
            values: `(n_tokens, n_heads, value_size)`.

        Returns:
            Keys and values of the layer, by row.
        """
        if layer == len(self._layers):
            made = [one.new_empty((len(self._uses), *one.shape[1:])) for one in (keys, values)]
            self._layers.append((made[0], made[1]))
        for whole, new in zip(self._layers[layer], (keys, values), strict=True):
            whole.index_copy_(0, rows, new)
        return self._layers[layer]

    def longest(self, tokens: tuple[int, ...]) -> tuple[Kept | None, int]:
        """Return the kept sequence with the longest common prefix, and that prefix's length."""
        place = bisect_left(self._order, tokens)
        near = self._order[max(place - 1, 0) : place + 1]
        shared = [shared_length(tokens, other) for other in near]
        length = max(shared, default=0)
        if length == 0:
            return None, 0
        found = near[shared.index(length)]
        self._kept.move_to_end(found)
        return self._kept[found], length

    def put(self, sequences: Sequence[Read]) -> None:
        """Keep sequences of the batch that was read last.

        A kept one that is the beginning of another is not needed any more.
        """
        for one in sequences:
            # Even if it was forgotten just now to make room for another, it still lies there.
            self._uses[one.past] += 1
            if self._has_room(one.new):
                self._uses[one.new] += 1
                self._add(Kept(one.tokens, np.concatenate([one.past, one.new])))
            else:
                self._uses[one.past] -= 1

    def clear(self) -> bool:
        """Forget everything; says whether there was anything."""
        filled = bool(self._kept)
        self._kept.clear()
        self._order.clear()
        self._layers.clear()
        self._uses = np.zeros(0, dtype=np.int64)
        return filled

    @property
    def _row_bytes(self) -> int:
        return sum(one[0].nbytes for pair in self._layers for one in pair if len(one))

    @property
    def _most_rows(self) -> int:
        """How many rows fit into the budget; 0 before a layer has written any."""
        row_bytes = self._row_bytes
        return self.max_bytes // row_bytes if row_bytes else 0

    def _has_room(self, rows: Rows) -> bool:
        """Whether these fit into the budget beside what is in use; what is not needed goes."""
        # No layer has written where a model computes its attention otherwise: nothing is kept.
        most = self._most_rows
        while len(rows) <= most:
            unused = np.count_nonzero(self._uses[rows] == 0)
            if np.count_nonzero(self._uses) + unused <= most:
                return True
            if not self._kept:
                return False
            self._drop(next(iter(self._kept.values())))
        return False

    def _grow(self, n_rows: int, n_batch: int) -> None:
        """Make more rows, with those that the next batches will need.

        Not more than needed before a layer has written: how large a row is nobody knows yet, and
        after memory ran out, when all was forgotten, nothing else may fit.
        """
        before, most = len(self._uses), self._most_rows
        wanted = max(2 * before, _FIRST_ROWS)
        n_rows = max(n_rows, min(wanted, most + max(n_batch, min(self._batch_rows, most))))
        # The lowest unused rows are taken first, so that those behind were never written.
        n_kept = int(np.flatnonzero(self._uses)[-1]) + 1 if self._uses.any() else 0
        for place, pair in enumerate(self._layers):
            made = []
            for old in pair:
                made.append(new := old.new_empty((n_rows, *old.shape[1:])))
                new[:n_kept] = old[:n_kept]
            self._layers[place] = (made[0], made[1])
        self._uses = np.concatenate([self._uses, np.zeros(n_rows - before, dtype=np.int64)])

    def _add(self, kept: Kept) -> None:
        known, length = self.longest(kept.tokens)
        if known is not None and length == len(known.tokens):
            self._drop(known)
        while len(self._kept) >= self.max_entries:
            self._drop(next(iter(self._kept.values())))
        self._kept[kept.tokens] = kept
        insort(self._order, kept.tokens)

    def _drop(self, kept: Kept) -> None:
        del self._kept[kept.tokens]
        del self._order[bisect_left(self._order, kept.tokens)]
        self._uses[kept.rows] -= 1
