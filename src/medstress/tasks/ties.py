"""Which of several options that share the highest score is the answer.

The order of the letters must not decide: more keys are A than chance would have it, and a model
that tells nothing apart would seem to know them. By hash, a tie goes to each letter equally often
over items, and to the same letter before and after an edit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, TypeVar, cast

from medstress.hashing import digest
from medstress.items import Question

T = TypeVar("T")


class Ties(StrEnum):
    """How a tie is broken."""

    HASH = "hash"
    """The letter whose hash with the item's id is the smallest."""
    FIRST = "first"
    """The letter that comes first, of votes that was given first: in folders of the first
    edition."""


def broken(item: Question, tied: Sequence[str], rule: Ties) -> str:
    """The answer among tied letters.

    Args:
        item: its id, with a letter, is hashed.
        tied: at least one letter; where the rule is `FIRST`, the first is taken.
        rule: how.

    >>> item = Question(id="q7", stem="?", options=("gout", "flu"), key="A")
    >>> broken(item, "AB", Ties.HASH), broken(item, "BA", Ties.HASH), broken(item, "AB", Ties.FIRST)
    ('B', 'B', 'A')
    """
    if len(tied) == 1 or rule is Ties.FIRST:
        return tied[0]
    return min(tied, key=lambda letter: digest([item.id, letter]))


def rule_of(spec: Mapping[str, Any]) -> Ties:
    """The rule that the spec of a task names, wrapped or not; folders of the first edition name
    none."""
    while "task" in spec:
        spec = spec["task"]
    return Ties(spec.get("ties", Ties.FIRST))


def with_rule(task: T, rule: Ties) -> T:
    """A task, wrapped or not, with another rule."""
    own: Any = task
    if hasattr(own, "inner"):
        return cast("T", replace(own, inner=with_rule(own.inner, rule)))
    return cast("T", replace(own, ties=rule))
