"""A cache of log probabilities, keyed by the tokens they belong to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from medstress.backends.models.token_tree import Target

MAX_ENTRIES = 200_000


class Keyed(Protocol):
    """Anything whose values can be looked up by a digest."""

    @property
    def key(self) -> bytes:
        """A digest; equal keys mean equal values."""


W = TypeVar("W", bound=Keyed)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A target to score, given a source."""

    target: Target
    """The tokens; for an encoder-decoder model, the decoder's output."""
    source: tuple[int, ...] = ()
    """The encoder's input; empty for decoder-only models."""

    @property
    def key(self) -> bytes:
        """A digest, because sequences of hundreds of tokens take more memory than their scores."""
        target = self.target
        numbers = (len(self.source), *self.source, target.start, *target.tokens)
        return blake2b(np.array(numbers, dtype=np.int64).tobytes(), digest_size=16).digest()


Values: TypeAlias = list[float] | None
"""Natural log probabilities of the scored tokens, or a head's value of a pair; None if memory did
not suffice."""


class ScoreMemo(Generic[W]):
    """A cache of scores that evicts the least recently used.

    It pays for answers by text or by a head: three of a candidate's four options are those of the
    clean item, and so are their scores if the prompt does not list the options.

    Args:
        max_entries: the most scores to keep.
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
        """Store log probabilities."""
        self._known[key] = tuple(values)
        self._known.move_to_end(key)
        if len(self._known) > self._max_entries:
            self._known.popitem(last=False)

    def complete(
        self,
        calls: Sequence[Sequence[W]],
        compute: Callable[[list[list[W]], bool], list[list[Values]]],
    ) -> list[list[Values]]:
        """Answer calls from the cache, and compute the rest.

        A call whose scores are all known is computed again, because somebody repeats it on purpose
        (the flip check does).

        Args:
            calls: the keyed parts of each call.
            compute: returns the values of such parts; its second argument says whether to ignore
                everything kept from earlier batches.
        """
        keys = [[wanted.key for wanted in call] for call in calls]
        known = [[self.get(key) for key in of_call] for of_call in keys]
        again = [None not in values for values in known]
        for afresh in (False, True):
            missing: dict[int, list[int]] = {}
            for number, values in enumerate(known):
                if again[number] is afresh:
                    places = [i for i, value in enumerate(values) if afresh or value is None]
                    missing.update({number: places} if places else {})
            if not missing:
                continue
            wanted = [[calls[number][place] for place in missing[number]] for number in missing]
            computed = compute(wanted, afresh)
            for (number, places), values in zip(missing.items(), computed, strict=True):
                for place, value in zip(places, values, strict=True):
                    known[number][place] = value
                    if value is not None:
                        self.put(keys[number][place], value)
        return known
