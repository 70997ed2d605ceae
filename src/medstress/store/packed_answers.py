"""Find packed answers by their keys, so that a call that was paid once is not asked again.

What is found is copied to the ledger, where later exchanges name it; the copy says that it stands
elsewhere, so it counts neither as computed nor as paid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from medstress.core.calls import PACKED
from medstress.store.key_index import KeyIndex

if TYPE_CHECKING:
    from medstress.store.packed import Packed


class PackedAnswers:
    """The packed answers of a run by key: 8 bytes each in memory."""

    def __init__(self, packed: Packed) -> None:
        self._packed = packed
        self._places = KeyIndex(self._keys_of)
        for pairs in packed.answers():
            self._places.add(pairs)

    def copies(self, keys: Sequence[bytes], after: int) -> Iterator[tuple[bytes, tuple[Any, ...]]]:
        """Yield (key, row of the table `answers`) of those that are packed, numbered from `after`
        on."""
        places = self._places.find(keys)
        columns = ("body", "seconds", "tokens_in", "tokens_out")
        found = self._packed.at(list(places.values()), columns)
        for row, (key, place) in enumerate(places.items(), after + 1):
            yield key, (row, key, PACKED, *found[place])

    def _keys_of(self, places: Sequence[int]) -> Mapping[int, bytes]:
        return {place: row[0] for place, row in self._packed.at(places, ("key",)).items()}
