"""Pairs of texts with a gold label, and their candidates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

from medstress.core.errors import DataError
from medstress.core.hashing import content_hash
from medstress.core.items import LETTERS, Mention, WholeUnit, decode_mentions
from medstress.core.text import Edit, apply_edits

FIELDS = ("text_a", "text_b")
"""The texts, which edits and mentions name."""


@dataclass(frozen=True, kw_only=True)
class LabelledPair(WholeUnit):
    """Two texts and the label that holds of the second, given the first; never mutated.

    Inference: a premise and a hypothesis. Where `asks`, an abstract and a question about it.
    """

    tag: ClassVar[str] = "labelled_pair"
    is_judged: ClassVar[bool] = True

    id: str
    """Unique within its data set."""
    text_a: str
    """The premise, or the text that is asked about."""
    text_b: str
    """The hypothesis, or the question."""
    label: str
    """The gold label."""
    labels: tuple[str, ...]
    """2 to 10 distinct labels, all that the data set knows."""
    asks: bool = False
    """Whether the second text is a question about the first."""
    mentions: tuple[Mention, ...] = ()
    """Typed entities in `text_a` and `text_b`; empty where they have to be found."""
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Further fields of the row, kept as they came."""

    def __post_init__(self) -> None:
        _check(self)

    @property
    def shared_texts(self) -> tuple[str, ...]:
        """The first text: hypotheses about one premise are linked."""
        return (self.text_a,)

    @cached_property
    def hash(self) -> str:
        """Content hash over texts, labels and mentions."""
        mentions = [mention.encode() for mention in self.mentions]
        return content_hash(
            [self.text_a, self.text_b, self.label, self.labels, self.asks, mentions]
        )

    @property
    def gold(self) -> str:
        """The gold label."""
        return self.label

    @property
    def letters(self) -> tuple[str, ...]:
        """The labels."""
        return self.labels

    @property
    def texts(self) -> dict[str, str]:
        """Both texts."""
        return {name: self.text_of(name) for name in FIELDS}

    def right_score(self, scores: Sequence[float]) -> float:
        """P(gold label)."""
        return math.exp(scores[self.labels.index(self.label)])

    def encode(self) -> dict[str, Any]:
        """All fields."""
        return {
            "id": self.id,
            **self.texts,
            "label": self.label,
            "labels": self.labels,
            "asks": self.asks,
            "mentions": [mention.encode() for mention in self.mentions],
            "metadata": dict(self.metadata),
        }

    @classmethod
    def decode(cls, row: dict[str, Any]) -> Self:
        """The inverse of `encode`."""
        labels, mentions = tuple(row.pop("labels")), decode_mentions(row.pop("mentions"))
        return cls(labels=labels, mentions=mentions, **row)

    def columns(self) -> dict[str, Any]:
        """Texts, labels and mentions."""
        return {
            **self.texts,
            "label": self.label,
            "labels": list(self.labels),
            "mentions": [asdict(mention) for mention in self.mentions],
        }

    def text_of(self, name: str) -> str:
        """The text of a field."""
        return self.text_a if name == "text_a" else self.text_b

    def candidate(self, edits: tuple[Edit, ...] = ()) -> LabelledCandidate:
        """The pair with edits."""
        return LabelledCandidate(item=self, edits=edits)

    def replaced(self, edit: Edit) -> str:
        """What an edit replaces."""
        return self.text_of(edit.field)[edit.start : edit.end]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledCandidate:
    """A labelled pair plus edits."""

    item: LabelledPair
    """The original pair."""
    edits: tuple[Edit, ...] = ()
    """Replacements in the characters of `text_a` or `text_b`."""

    @property
    def text_a(self) -> str:
        """The first text as it will be asked."""
        return apply_edits(self.item.text_a, [e for e in self.edits if e.field == "text_a"])

    @property
    def text_b(self) -> str:
        """The second text as it will be asked."""
        return apply_edits(self.item.text_b, [e for e in self.edits if e.field == "text_b"])


def _check(item: LabelledPair) -> None:
    where = f"item {item.id!r}, field"
    for name in FIELDS:
        if not item.text_of(name).strip():
            raise DataError(f"{where} {name!r}: the text is empty")
    n = len({label.strip() for label in item.labels} - {""})
    if n < len(item.labels) or not 2 <= n <= len(LETTERS):
        raise DataError(
            f"{where} 'labels': expected 2 to {len(LETTERS)} different labels, got "
            f"{', '.join(map(repr, item.labels)) or 'none'}"
        )
    if item.label not in item.labels:
        raise DataError(
            f"{where} 'label': expected one of {', '.join(item.labels)}, got {item.label!r}"
        )
    for mention in item.mentions:
        if mention.field not in FIELDS:
            raise DataError(f"{where} 'mentions': expected text_a or text_b, got {mention.field!r}")
        length = len(item.text_of(mention.field))
        if not 0 <= mention.start < mention.end <= length:
            raise DataError(
                f"{where} 'mentions': offsets [{mention.start}, {mention.end}) lie outside "
                f"{mention.field} (length {length})"
            )
