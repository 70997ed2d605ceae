"""Find packed answers by their keys, so that a call that was paid once is not asked again.

What is found is copied to the ledger, where later exchanges name it; the copy says that it stands
elsewhere, so it counts neither as computed nor as paid.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medstress.core.calls import PACKED
from medstress.store.key_index import KeyIndex
from medstress.store.packed_files import packed_of

if TYPE_CHECKING:
    from medstress.store.packed import Packed


class PackedAnswers:
    """The packed answers of a run by key: 8 bytes each in memory."""

    def __init__(self, packed: Packed) -> None:
        self._packed = packed
        self._places = KeyIndex(self._keys_of)
        for pairs in packed.answers():
            self._places.add(pairs)

    def copies(
        self, keys: Sequence[bytes], known: Container[bytes], after: int
    ) -> dict[bytes, tuple[Any, ...]]:
        """Return key -> row of the table `answers`, for keys that are packed.

        Args:
            keys: which are asked for.
            known: those that the ledger has.
            after: the last row of the table.
        """
        places = self._places.find([key for key in keys if key not in known])
        columns = ("body", "seconds", "tokens_in", "tokens_out")
        found = self._packed.at(list(places.values()), columns)
        return {
            key: (row, key, PACKED, *found[place])
            for row, (key, place) in enumerate(places.items(), after + 1)
        }

    def _keys_of(self, places: Sequence[int]) -> Mapping[int, bytes]:
        return {place: row[0] for place, row in self._packed.at(places, ("key",)).items()}


def packed_answers_of(db: sqlite3.Connection, folder: Path) -> PackedAnswers | None:
    """Return the packed answers of a run that is about to be written, and count them into its
    temporary tables; None if it has none."""
    packed = packed_of(db, folder)
    if packed is None:
        return None
    packed.fill(db)
    return PackedAnswers(packed)
