"""Keys and values of token sequences that were read, kept within a byte budget."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from medstress.backends.token_tree import shared_length

MAX_ENTRIES = 64
"""More than the items under attack at one time; an item whose trials are over is not met again."""

Layers: TypeAlias = list[tuple[Any, Any]]
"""Keys and values of each layer, float tensors `(n_kv_heads, n_tokens, head_size)`."""


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """One sequence and what the model made of it."""

    tokens: tuple[int, ...]
    """The sequence."""
    layers: Layers
    """Its keys and values."""

    @property
    def n_bytes(self) -> int:
        """Memory its tensors take."""
        return sum(one.numel() * one.element_size() for pair in self.layers for one in pair)


class KvStore:
    """Finds the kept sequence that begins most like a new one; forgets the least recently used.

    Args:
        max_bytes: the budget; a sequence that exceeds it alone is not kept.
        max_entries: the most sequences. Memory that is used again costs nothing; memory that is
            touched for the first time can cost a tenth of the computation it keeps.
    """

    def __init__(self, max_bytes: int, max_entries: int = MAX_ENTRIES) -> None:
        self.max_bytes = max_bytes
        self.max_entries = max_entries
        self.n_bytes = 0
        self._kept: OrderedDict[tuple[int, ...], Kept] = OrderedDict()
        # In lexicographic order the sequence with the longest common prefix is a neighbour.
        self._order: list[tuple[int, ...]] = []

    def __len__(self) -> int:
        return len(self._order)

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

    def put(self, tokens: Sequence[int], layers: Layers) -> None:
        """Keep a sequence; one that is its beginning is not needed any more."""
        kept = Kept(tuple(tokens), layers)
        if kept.n_bytes > self.max_bytes:
            return
        known, length = self.longest(kept.tokens)
        if known is not None and length == len(known.tokens):
            self._drop(known)
        while self.n_bytes + kept.n_bytes > self.max_bytes or len(self._kept) >= self.max_entries:
            self._drop(next(iter(self._kept.values())))
        self._kept[kept.tokens] = kept
        insort(self._order, kept.tokens)
        self.n_bytes += kept.n_bytes

    def clear(self) -> bool:
        """Forget everything; says whether there was anything."""
        filled = bool(self._kept)
        self._kept.clear()
        self._order.clear()
        self.n_bytes = 0
        return filled

    def _drop(self, kept: Kept) -> None:
        del self._kept[kept.tokens]
        del self._order[bisect_left(self._order, kept.tokens)]
        self.n_bytes -= kept.n_bytes
