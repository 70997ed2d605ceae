"""Keys and values of token sequences that were read, kept within a byte budget.

Every kept token has a *row*, the same one in the keys and in the values of every layer. A sequence
is a list of rows, and sequences with a common past share its rows, so that an instruction which
all prompts begin with is kept once. Behind the kept rows lie those of the batch that is being
read: attention gathers both from one tensor.
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
"""Made at once if the budget has room: more rows later mean that all kept ones are copied. On a
CPU what was never written takes no memory."""
_ROOM = 1.25
"""Rows for a batch that is larger than those before, per token of it."""

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
    nodes: Rows
    """Places of its other tokens in the batch, `(n_tokens - n_past,)`."""


class KvStore:
    """Finds the kept sequence that begins most like a new one; forgets the least recently used.

    Args:
        max_bytes: the budget; a sequence that exceeds it alone is not kept.
        max_entries: the most sequences. Memory that is used again costs nothing; memory that is
            touched for the first time can cost a tenth of the computation it keeps.
        batch_rows: rows for batches, made with the kept ones; for a larger batch everything moves.
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
        # How many sequences use each row that is there to be kept; the batch comes after these.
        self._uses = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._order)

    @property
    def n_rows(self) -> int:
        """How many rows are there to be kept; the first row of the batch that is being read."""
        return len(self._uses)

    @property
    def n_bytes(self) -> int:
        """Memory of the rows that are in use."""
        return int(np.count_nonzero(self._uses)) * self._row_bytes

    def write(self, layer: int, keys: Any, values: Any) -> tuple[Any, Any]:
        """Put what a layer made of a batch behind its kept rows.

        Args:
            layer: from 0; a batch passes all of them, in order.
            keys: `(n_tokens, n_heads, head_size)`.
            values: `(n_tokens, n_heads, value_size)`.

        Returns:
            Keys and values of the layer, the batch's from row `n_rows` on.
        """
        if layer == len(self._layers):
            self._layers.append((keys[:0], values[:0]))
        stop = self.n_rows + len(keys)
        whole = tuple(
            old if len(old) >= stop else self._larger(old, self.n_rows + int(_ROOM * len(new)))
            for old, new in zip(self._layers[layer], (keys, values), strict=True)
        )
        self._layers[layer] = whole
        whole[0][self.n_rows : stop] = keys
        whole[1][self.n_rows : stop] = values
        return whole

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
        # All of them first: what one needs must not be forgotten to make room for another.
        for one in sequences:
            self._uses[one.past] += 1
        # Of rows that a sequence got after another had been forgotten again the last one counts.
        node_of_row: dict[int, int] = {}
        for one in sequences:
            if (rows := self._new_rows(len(one.nodes))) is None:
                self._uses[one.past] -= 1
                continue
            self._uses[rows] += 1
            node_of_row.update(zip(rows.tolist(), one.nodes.tolist(), strict=True))
            self._add(Kept(one.tokens, np.concatenate([one.past, rows])))
        if node_of_row:
            rows, nodes = np.array(list(node_of_row.items()), dtype=np.int64).T
            self._copy(self.n_rows + nodes, rows)

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

    def _new_rows(self, n: int) -> Rows | None:
        """Find unused rows; None where so many do not fit into the budget."""
        # No layer has written where a model computes its attention otherwise: nothing is kept.
        most = self._most_rows
        if n > most:
            return None
        while np.count_nonzero(self._uses == 0) < n:
            if self.n_rows < most:
                wanted = max(2 * self.n_rows, self.n_rows + n, _FIRST_ROWS)
                self._resize(min(wanted, most))
            elif self._kept:
                self._drop(next(iter(self._kept.values())))
            else:
                return None
        return np.flatnonzero(self._uses == 0)[:n]

    def _resize(self, n_rows: int) -> None:
        """Make room for more kept rows; the batch moves back."""
        before, most = self.n_rows, self._most_rows
        for place, pair in enumerate(self._layers):
            moved = []
            for old in pair:
                n_batch = max(len(old) - before, min(self._batch_rows, most))
                new = self._larger(old, n_rows + n_batch)
                new[n_rows : n_rows + len(old) - before] = old[before:]
                moved.append(new)
            self._layers[place] = (moved[0], moved[1])
        self._uses = np.concatenate([self._uses, np.zeros(n_rows - before, dtype=np.int64)])

    def _larger(self, old: Any, n_rows: int) -> Any:
        """A tensor of more rows with the kept ones of this one."""
        new = old.new_empty((n_rows, *old.shape[1:]))
        # The lowest unused rows are taken first, so that those behind were never written.
        n_kept = int(np.flatnonzero(self._uses)[-1]) + 1 if self._uses.any() else 0
        new[:n_kept] = old[:n_kept]
        return new

    def _copy(self, sources: Rows, targets: Rows) -> None:
        import torch

        read, written = torch.from_numpy(sources), torch.from_numpy(targets)
        for tensor in (one for pair in self._layers for one in pair):
            rows = tensor.index_select(0, read.to(tensor.device))
            tensor.index_copy_(0, written.to(tensor.device), rows)

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
