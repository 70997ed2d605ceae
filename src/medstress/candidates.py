"""What attacks on sentences perturb: an entity of a tagged text, and a pair of texts.

A candidate is an item plus edits, as for questions; tokens, labels and texts are derived. An edit
of a tagged text has the field `tokens`, its offsets count tokens, and its replacement is the new
tokens joined by spaces. An edit of a pair has the field `text_a` or `text_b`, in characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.items import Candidate, Edited, Question
from medstress.sentences import OUTSIDE, Entity, SentencePair, TaggedText
from medstress.text import Edit, apply_edits

TOKENS = "tokens"
"""The field of edits of tagged texts."""
WHOLE = "item"
"""The unit of a trial that is about the whole item."""


@dataclass(frozen=True, kw_only=True)
class EntityUnit:
    """One gold entity in its sentence: what a trial on a tagged text is about."""

    text: TaggedText
    """The sentence."""
    entity: Entity | None
    """The entity; None for a sentence without any, which only a perturbed copy asks about."""

    @property
    def id(self) -> str:
        """The sentence's id."""
        return self.text.id

    @property
    def hash(self) -> str:
        """The sentence's hash."""
        return self.text.hash

    @property
    def unit(self) -> str:
        """First token, one past the last, and type: `3:5:Chemical`."""
        e = self.entity
        return WHOLE if e is None else f"{e.start}:{e.end}:{e.type}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedCandidate:
    """An entity's sentence plus edits of its tokens."""

    item: EntityUnit
    """The original sentence, and the entity."""
    edits: tuple[Edit, ...] = ()
    """Replacements in the tokens of the original sentence; none crosses an entity's border."""

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens as they will be asked."""
        return self._projected()[0]

    @property
    def labels(self) -> tuple[str, ...]:
        """The gold labels of these tokens."""
        return self._projected()[1]

    @property
    def entity(self) -> Entity | None:
        """The entity where it stands now."""
        e = self.item.entity
        if e is None:
            return None
        growth = [
            (edit.end, len(edit.replacement.split()) - edit.end + edit.start) for edit in self.edits
        ]
        return Entity(
            start=e.start + sum(n for end, n in growth if end <= e.start),
            end=e.end + sum(n for end, n in growth if end <= e.end),
            type=e.type,
        )

    def _projected(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        edits = [(e.start, e.end, tuple(e.replacement.split())) for e in self.edits]
        return project(self.item.text, edits)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCandidate:
    """A sentence pair plus edits."""

    item: SentencePair
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


def project(
    text: TaggedText, edits: Iterable[tuple[int, int, tuple[str, ...]]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Replace ranges of tokens and carry the labels over: no other label moves.

    New tokens take the label of the first token they stand for; after a B- follow I- of its type.

    Args:
        text: the original.
        edits: (first token, one past the last, new tokens), in any order, without overlap.

    Returns:
        Tokens and labels.

    >>> text = TaggedText(id="1", tokens=("no", "aspirin"), labels=("O", "B-Drug"))
    >>> project(text, [(1, 2, ("acetylsalicylic", "acid"))])
    (('no', 'acetylsalicylic', 'acid'), ('O', 'B-Drug', 'I-Drug'))
    """
    edits = sorted(edits)
    tokens: list[str] = []
    position = 0
    for start, end, new in edits:
        tokens += (*text.tokens[position:start], *new)
        position = end
    return (*tokens, *text.tokens[position:]), projected_labels(text.labels, edits)


def projected_labels(
    labels: Sequence[str], edits: Iterable[tuple[int, int, tuple[str, ...]]]
) -> tuple[str, ...]:
    """The labels of `project`: those of new tokens follow the first that they stand for.

    >>> projected_labels(("O", "B-Drug"), [(1, 2, ("acetylsalicylic", "acid"))])
    ('O', 'B-Drug', 'I-Drug')
    """
    found: list[str] = []
    position = 0
    for start, end, new in sorted(edits):
        first = labels[start]
        rest = OUTSIDE if first == OUTSIDE else f"I-{first[2:]}"
        found += (*labels[position:start], first, *(rest for _ in new[1:]))
        position = end
    return (*found, *labels[position:])


def candidate_of(item: Any, edits: tuple[Edit, ...] = ()) -> Edited:
    """An item of any kind with edits; a tagged text without saying which entity is meant.

    Raises:
        TypeError: something else.
    """
    match item:
        case Question():
            return Candidate(item=item, edits=edits)
        case EntityUnit():
            return TaggedCandidate(item=item, edits=edits)
        case TaggedText():
            return TaggedCandidate(item=EntityUnit(text=item, entity=None), edits=edits)
        case SentencePair():
            return PairCandidate(item=item, edits=edits)
    raise TypeError(f"expected a question, tagged text or sentence pair, got {type(item).__name__}")


def replaced_text(item: Any, edit: Edit) -> str:
    """What an edit replaces, as it stands in the original item."""
    match item:
        case Question():
            return item.text_of(edit.field)[edit.start : edit.end]
        case EntityUnit():
            return " ".join(item.text.tokens[edit.start : edit.end])
        case SentencePair():
            text = item.text_a if edit.field == "text_a" else item.text_b
            return text[edit.start : edit.end]
    raise TypeError(f"expected an item, got {type(item).__name__}")


def changes_nothing(candidate: Edited) -> bool:
    """Whether every edit of a candidate puts in what stood there already.

    >>> pair = SentencePair(id="1", text_a="a cat", text_b="a dog", score=1.0)
    >>> same = Edit(field="text_a", start=2, end=5, replacement="cat")
    >>> changes_nothing(PairCandidate(item=pair, edits=(same,)))
    True
    """
    return all(replaced_text(candidate.item, edit) == edit.replacement for edit in candidate.edits)


def units_of(item: Any) -> tuple[Any, ...]:
    """What trials on an item are about: every gold entity of a tagged text, else the item."""
    if not isinstance(item, TaggedText):
        return (item,)
    return tuple(EntityUnit(text=item, entity=e) for e in item.entities) or (
        EntityUnit(text=item, entity=None),
    )


def unit_of(item: Any) -> str:
    """The unit of a trial on an item, as rows name it."""
    return item.unit if isinstance(item, EntityUnit) else WHOLE


def with_unit(item: Any, unit: str) -> Any:
    """The inverse of `unit_of`, given the stored item.

    >>> text = TaggedText(id="1", tokens=("no", "aspirin"), labels=("O", "B-Drug"))
    >>> with_unit(text, "1:2:Drug").entity
    Entity(start=1, end=2, type='Drug')
    """
    if not isinstance(item, TaggedText):
        return item
    entity = None
    if unit != WHOLE:
        start, end, type_ = unit.split(":", 2)
        entity = Entity(start=int(start), end=int(end), type=type_)
    return EntityUnit(text=item, entity=entity)
