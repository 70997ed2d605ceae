"""Items that are no questions: a sentence with IOB2 labels, and a pair of texts with a score."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from medstress.errors import DataError
from medstress.hashing import content_hash

OUTSIDE = "O"
"""The label of a token that belongs to no entity."""


@dataclass(frozen=True, kw_only=True)
class Entity:
    """A typed entity of a tagged text, in tokens."""

    start: int
    """First token."""
    end: int
    """One past the last token."""
    type: str
    """What follows ``B-`` in its labels."""


@dataclass(frozen=True, kw_only=True)
class TaggedText:
    """A tokenised sentence with one IOB2 label a token; never mutated."""

    id: str
    """Unique within its data set."""
    tokens: tuple[str, ...]
    """At least one; none is empty or holds white space."""
    labels: tuple[str, ...]
    """``O``, ``B-TYPE`` or ``I-TYPE``, one a token; an I- continues an entity of its type."""
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Further fields of the source, such as the document."""

    def __post_init__(self) -> None:
        check_tagged_text(self)

    @cached_property
    def entities(self) -> tuple[Entity, ...]:
        """The gold entities, in order.

        >>> item = TaggedText(id="1", tokens=("Take", "salicylic", "acid"),
        ...                   labels=("O", "B-Chemical", "I-Chemical"))
        >>> item.entities
        (Entity(start=1, end=3, type='Chemical'),)
        """
        return entities_of(self.labels)

    @cached_property
    def hash(self) -> str:
        """Content hash over tokens and labels."""
        return content_hash([self.tokens, self.labels])


@dataclass(frozen=True, kw_only=True)
class SentencePair:
    """Two texts with a gold similarity; never mutated."""

    id: str
    """Unique within its data set."""
    text_a: str
    """The first text."""
    text_b: str
    """The second text."""
    score: float
    """Gold similarity, within [low, high]; high means alike."""
    low: float = 0.0
    """The scale's lowest score."""
    high: float = 4.0
    """The scale's highest score."""
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Further fields of the row, kept as they came."""

    def __post_init__(self) -> None:
        check_sentence_pair(self)

    @cached_property
    def hash(self) -> str:
        """Content hash over texts, score and scale."""
        return content_hash([self.text_a, self.text_b, self.score, self.low, self.high])


def entities_of(labels: Sequence[str]) -> tuple[Entity, ...]:
    """Return the entities that IOB2 labels mark, in order.

    >>> [(e.start, e.end) for e in entities_of(["B-Drug", "B-Drug", "I-Drug", "O"])]
    [(0, 1), (1, 3)]
    """
    return tuple(_entities(labels))


def check_tagged_text(item: TaggedText) -> None:
    """Check the contract of a tagged text.

    Raises:
        DataError: naming the item, the token, what was expected and what came.
    """
    n = len(item.tokens)
    if n == 0:
        raise DataError(f"item {item.id!r}: expected at least one token, got none")
    if len(item.labels) != n:
        raise DataError(
            f"item {item.id!r}: expected a label for each of {n} tokens, got {len(item.labels)}"
        )
    for number, token in enumerate(item.tokens, start=1):
        if token.split() != [token]:
            raise DataError(
                f"item {item.id!r}, token {number}: expected a token without white space, "
                f"got {token!r}"
            )
    before = OUTSIDE
    for number, label in enumerate(item.labels, start=1):
        if complaint := label_complaint(label, before):
            raise DataError(f"item {item.id!r}, token {number}: {complaint}")
        before = label


def label_complaint(label: str, before: str) -> str | None:
    """Return why a label cannot follow the label `before` (``O`` at the beginning), or None.

    >>> label_complaint("I-Drug", "O")
    "expected 'B-Drug' at the beginning of an entity, got 'I-Drug' after 'O'"
    >>> label_complaint("I-Drug", "B-Drug") is None
    True
    """
    if label == OUTSIDE:
        return None
    if label[:2] not in ("B-", "I-") or not label[2:] or label.split() != [label]:
        return f"expected an IOB label (O, B-TYPE or I-TYPE), got {label!r}"
    if label[0] == "I" and before[2:] != label[2:]:
        return (
            f"expected {'B-' + label[2:]!r} at the beginning of an entity, "
            f"got {label!r} after {before!r}"
        )
    return None


def check_sentence_pair(item: SentencePair) -> None:
    """Check the contract of a pair.

    Raises:
        DataError: naming the item, the field, what was expected and what came.
    """
    for name in ("text_a", "text_b"):
        if not getattr(item, name).strip():
            raise DataError(f"item {item.id!r}, field {name!r}: the text is empty")
    if not (math.isfinite(item.low) and math.isfinite(item.high) and item.low < item.high):
        raise DataError(
            f"item {item.id!r}: expected a scale from a lower to a higher score, "
            f"got {item.low:g} to {item.high:g}"
        )
    if not item.low <= item.score <= item.high:
        raise DataError(
            f"item {item.id!r}, field 'score': expected a score from {item.low:g} to "
            f"{item.high:g}, got {item.score:g}"
        )


def _entities(labels: Sequence[str]) -> Iterator[Entity]:
    start = 0
    before = OUTSIDE
    for place, label in enumerate([*labels, OUTSIDE]):
        if label[0] == "I":
            continue
        if before != OUTSIDE:
            yield Entity(start=start, end=place, type=before[2:])
        start, before = place, label
