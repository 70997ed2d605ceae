"""Log probabilities that were computed before, by the tokens they belong to."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b

import numpy as np

from medstress.backends.token_tree import Target

MAX_ENTRIES = 200_000


class ScoreMemo:
    """Remembers the scores of targets; forgets the least recently used.

    With answers by text three of the four options of a candidate are the clean item's, and their
    scores too where the prompt does not list the options.

    Args:
        max_entries: how many targets are remembered.
    """

    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        self._known: OrderedDict[bytes, tuple[float, ...]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, target: Target, source: tuple[int, ...] = ()) -> list[float] | None:
        """Return the log probabilities of a target's scored tokens; None if they are not known.

        Args:
            target: what is scored.
            source: what an encoder reads.
        """
        key = _key(target, source)
        values = self._known.get(key)
        if values is None:
            return None
        self._known.move_to_end(key)
        return list(values)

    def put(self, target: Target, values: list[float], source: tuple[int, ...] = ()) -> None:
        """Remember the log probabilities of a target."""
        key = _key(target, source)
        self._known[key] = tuple(values)
        self._known.move_to_end(key)
        if len(self._known) > self._max_entries:
            self._known.popitem(last=False)


def _key(target: Target, source: tuple[int, ...]) -> bytes:
    """A digest: sequences of hundreds of tokens would take more memory than their scores."""
    numbers = (len(source), *source, target.start, *target.tokens)
    return blake2b(np.array(numbers, dtype=np.int64).tobytes(), digest_size=16).digest()
