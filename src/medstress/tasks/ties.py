"""Break ties between options with the same highest score.

The order of letters must not decide: A is the key more often than by chance, so a model that
scores all options equally would seem to know some keys. By hash, over many items a tie goes to
each letter equally often, and to the same letter before and after an edit.
"""

from __future__ import annotations

from collections.abc import Sequence

from medstress.core.hashing import digest
from medstress.core.items import Item


def break_tie(item: Item, tied: Sequence[str]) -> str:
    """Return the tied letter whose hash with the item's id is the smallest.

    >>> from medstress.core.items import Question
    >>> item = Question(id="q7", stem="?", options=("gout", "flu"), key="A")
    >>> break_tie(item, "AB"), break_tie(item, "BA")
    ('B', 'B')
    """
    return min(tied, key=lambda letter: digest([item.id, letter]))
