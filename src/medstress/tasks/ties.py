"""Break ties between options with the same highest score.

The order of letters must not decide: A is the key more often than by chance, so a model that
scores all options equally would seem to know some keys. By hash, over many items a tie goes to
each letter equally often, and to the same letter before and after an edit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, TypeVar, cast

from medstress.core.hashing import digest
from medstress.core.items import Question

T = TypeVar("T")


class Ties(StrEnum):
    """How a tie is broken."""

    HASH = "hash"
    """The letter whose hash with the item's id is the smallest."""
    FIRST = "first"
    """The first letter; of votes, the letter given first. Used in folders of the first edition."""


def break_tie(item: Question, tied: Sequence[str], rule: Ties) -> str:
    """Return the answer among tied letters.

    Args:
        item: its id is hashed with each letter.
        tied: at least one letter; `FIRST` takes the first one.
        rule: how to break the tie.

    >>> item = Question(id="q7", stem="?", options=("gout", "flu"), key="A")
    >>> break_tie(item, "AB", Ties.HASH), break_tie(item, "BA", Ties.HASH)
    ('B', 'B')
    >>> break_tie(item, "AB", Ties.FIRST)
    'A'
    """
    if len(tied) == 1 or rule is Ties.FIRST:
        return tied[0]
    return min(tied, key=lambda letter: digest([item.id, letter]))


def ties_of(spec: Mapping[str, Any]) -> Ties:
    """Return the rule of a task's spec, wrapped or not; the first edition has `FIRST`."""
    while "task" in spec:
        spec = spec["task"]
    return Ties(spec.get("ties", Ties.FIRST))


def with_ties(task: T, rule: Ties) -> T:
    """Return a task, wrapped or not, with another rule."""
    own: Any = task
    if hasattr(own, "inner"):
        return cast("T", replace(own, inner=with_ties(own.inner, rule)))
    return cast("T", replace(own, ties=rule))
