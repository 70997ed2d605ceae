"""Log probabilities that were computed before, by the tokens they belong to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from medstress.backends.token_tree import Target

MAX_ENTRIES = 200_000


class Keyed(Protocol):
    """Anything whose values are found again by a digest."""

    @property
    def key(self) -> bytes:
        """Equal only for what has equal values."""


W = TypeVar("W", bound=Keyed)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is scored, given what."""

    target: Target
    """The tokens; what a decoder writes."""
    source: tuple[int, ...] = ()
    """What an encoder reads; empty for decoder-only models."""

    @property
    def key(self) -> bytes:
        """A digest: sequences of hundreds of tokens take more memory than their scores."""
        target = self.target
        numbers = (len(self.source), *self.source, target.start, *target.tokens)
        return blake2b(np.array(numbers, dtype=np.int64).tobytes(), digest_size=16).digest()


Values: TypeAlias = list[float] | None
"""Natural log probabilities of the scored tokens, or what a head makes of a pair; None where
memory did not suffice."""


class ScoreMemo(Generic[W]):
    """Remembers scores; forgets the least recently used.

    With answers by text or by a head three of the four options of a candidate are the clean
    item's, and their scores too where the prompt does not list the options.

    Args:
        max_entries: how many are remembered.
    """

    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        self._known: OrderedDict[bytes, tuple[float, ...]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: bytes) -> Values:
        """Return the values; None if they are not known."""
        values = self._known.get(key)
        if values is None:
            return None
        self._known.move_to_end(key)
        return list(values)

    def put(self, key: bytes, values: list[float]) -> None:
        """Remember log probabilities."""
        self._known[key] = tuple(values)
        self._known.move_to_end(key)
        if len(self._known) > self._max_entries:
            self._known.popitem(last=False)

    def complete(
        self,
        calls: Sequence[Sequence[W]],
        compute: Callable[[list[list[W]], bool], list[list[Values]]],
    ) -> list[list[Values]]:
        """Answer calls from what is known, and compute the rest.

        A call all of whose scores are known is asked again on purpose (the flip check does), so
        it is computed once more.

        Args:
            calls: what each wants.
            compute: gives the log probabilities of what some calls want; told whether to use
                nothing that was kept.
        """
        keys = [[wanted.key for wanted in call] for call in calls]
        known = [[self.get(key) for key in of_call] for of_call in keys]
        again = [None not in values for values in known]
        for afresh in (False, True):
            asked: dict[int, list[int]] = {}
            for number, values in enumerate(known):
                if again[number] is afresh:
                    missing = [i for i, value in enumerate(values) if afresh or value is None]
                    asked.update({number: missing} if missing else {})
            if not asked:
                continue
            wanted = [[calls[number][place] for place in asked[number]] for number in asked]
            found = compute(wanted, afresh)
            for (number, places), values in zip(asked.items(), found, strict=True):
                for place, value in zip(places, values, strict=True):
                    known[number][place] = value
                    if value is not None:
                        self.put(keys[number][place], value)
        return known
