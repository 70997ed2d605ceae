"""Keeps keys and values of token sequences within a byte budget.

Every token has a *row*, the same in the keys and values of every layer. A batch is written into
unused rows, and the part worth keeping stays there. A sequence is a list of rows, and sequences
with a common past share its rows, so an instruction that begins all prompts is stored once.
Attention gathers kept and new tokens from one tensor.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from medstress.backends.models.token_tree import shared_length

MAX_ENTRIES = 64
"""Enough for batches of up to this many calls; finished items do not come back."""
_FIRST_ROWS = 16_384
"""Rows allocated after the first batch if the budget has room, because growing later copies all
kept rows. On a CPU, rows never written take no memory."""

Rows: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A kept sequence and the rows of its keys and values."""

    tokens: tuple[int, ...]
    """The sequence."""
    rows: Rows
    """The row of each token, `(n_tokens,)`."""


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """A sequence of the last batch that should be kept."""

    tokens: tuple[int, ...]
    """The sequence."""
    past: Rows
    """Kept rows of its beginning, `(n_past,)`."""
    new: Rows
    """Rows of its other tokens, written by the batch, `(n_tokens - n_past,)`."""


class KvStore:
    """A cache of sequences that finds the longest common prefix; evicts the least recently used.

    Args:
        max_bytes: the byte budget; a sequence that exceeds it alone is not kept.
        max_entries: the most sequences. A small number reuses memory, while touching new memory
            can cost a tenth of the computation it saves.
        batch_rows: rows allocated for batches besides those of the budget, but no more than these;
            a larger batch makes everything move.
    """

    def __init__(
        self, max_bytes: int, max_entries: int = MAX_ENTRIES, *, batch_rows: int = 0
    ) -> None:
        self.max_bytes = max_bytes
        self.max_entries = max_entries
        self._batch_rows = batch_rows
        self._kept: OrderedDict[tuple[int, ...], Kept] = OrderedDict()
        # Sorted, so that the sequence with the longest common prefix is a neighbour.
        self._order: list[tuple[int, ...]] = []
        self._layers: list[tuple[Any, Any]] = []
        # Number of sequences that use each row.
        self._uses = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._order)

    @property
    def n_bytes(self) -> int:
        """Memory of the rows in use."""
        return int(np.count_nonzero(self._uses)) * self._row_bytes

    def begin(self, n_tokens: int) -> Rows:
        """Return unused rows for a batch that is about to be read, `(n_tokens,)`.

        Unless `put` keeps them, they stay unused and the next batch gets them again.
        """
        if (missing := n_tokens - np.count_nonzero(self._uses == 0)) > 0:
            self._grow(len(self._uses) + int(missing), n_tokens)
        return np.flatnonzero(self._uses == 0)[:n_tokens]

    def write(self, layer: int, rows: Any, keys: Any, values: Any) -> tuple[Any, Any]:
        """Write a layer's keys and values of a batch into the batch's rows.

        Args:
            layer: from 0; a batch passes all layers in order.
            rows: the rows from `begin`, as a tensor on the layer's device, `(n_tokens,)`.
            keys: `(n_tokens, n_heads, head_size)`.
            values: `(n_tokens, n_heads, value_size)`.

        Returns:
            All keys and values of the layer, by row.
        """
        if layer == len(self._layers):
            empty = [one.new_empty((len(self._uses), *one.shape[1:])) for one in (keys, values)]
            self._layers.append((empty[0], empty[1]))
        for stored, new in zip(self._layers[layer], (keys, values), strict=True):
            stored.index_copy_(0, rows, new)
        return self._layers[layer]

    def longest(self, tokens: tuple[int, ...]) -> tuple[Kept | None, int]:
        """Return the kept sequence with the longest common prefix, and that prefix's length."""
        place = bisect_left(self._order, tokens)
        near = self._order[max(place - 1, 0) : place + 1]
        shared = [shared_length(tokens, other) for other in near]
        length = max(shared, default=0)
        if length == 0:
            return None, 0
        closest = near[shared.index(length)]
        self._kept.move_to_end(closest)
        return self._kept[closest], length

    def put(self, sequences: Sequence[Read]) -> None:
        """Keep sequences of the last batch.

        They replace kept sequences that are their beginnings.
        """
        for one in sequences:
            # Valid even if the past was just evicted, because its rows are not overwritten yet.
            self._uses[one.past] += 1
            if self._has_room(one.new):
                self._uses[one.new] += 1
                self._add(Kept(one.tokens, np.concatenate([one.past, one.new])))
            else:
                self._uses[one.past] -= 1

    def clear(self) -> bool:
        """Drop everything; return whether there was anything."""
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
        """The number of rows in the budget; 0 before a layer has written any."""
        row_bytes = self._row_bytes
        return self.max_bytes // row_bytes if row_bytes else 0

    def _has_room(self, rows: Rows) -> bool:
        """Evict sequences until these rows fit into the budget; False if they cannot fit."""
        # 0 if no layer has written, because the model's attention was not replaced: keep nothing.
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
        """Allocate more rows, including some for the next batches.

        Before a layer has written it allocates only what is needed: the size of a row is unknown,
        and after running out of memory, when everything was dropped, more might not fit.
        """
        n_old, most = len(self._uses), self._most_rows
        wanted = max(2 * n_old, _FIRST_ROWS)
        n_rows = max(n_rows, min(wanted, most + max(n_batch, min(self._batch_rows, most))))
        # The lowest unused rows are taken first, so nothing lies after the last one in use.
        n_kept = int(np.flatnonzero(self._uses)[-1]) + 1 if self._uses.any() else 0
        for place, pair in enumerate(self._layers):
            grown = []
            for old in pair:
                grown.append(new := old.new_empty((n_rows, *old.shape[1:])))
                new[:n_kept] = old[:n_kept]
            self._layers[place] = (grown[0], grown[1])
        self._uses = np.concatenate([self._uses, np.zeros(n_rows - n_old, dtype=np.int64)])

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
