"""The protocol of recognisers, and the use of their mentions in items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from medstress.core.items import TEXTS, Mention, Question
from medstress.core.text import cut_word


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Found:
    """One typed entity in one text."""

    start: int
    """First character."""
    end: int
    """One past the last character."""
    type: str
    """``drugs``, ``diseases`` or a UMLS semantic type identifier."""


class Recogniser(Protocol):
    """Finds typed entities in texts; the result depends on the texts alone."""

    def find(self, texts: Sequence[str]) -> list[list[Found]]:
        """Return the entities of each text, in the order of the texts.

        An entity of several types appears once for each type.
        """
        ...

    def spec(self) -> dict[str, Any]:
        """Describe the recogniser in JSON values, for the manifest."""
        ...


def recognise(
    items: Sequence[Question], recogniser: Recogniser, types: frozenset[str]
) -> tuple[Question, ...]:
    """Replace the items' mentions of `types` by those that the recogniser finds.

    Options, passage, context and stem are searched. Mentions of other types, or without a type,
    stay. An entity that begins or ends inside a word is dropped: a pipeline may split words
    ("10mg"), and replacing a part would break them.

    Args:
        items: items of one data set.
        recogniser: finds the new mentions.
        types: the types to replace; other types it finds are ignored.
    """
    texts = list(dict.fromkeys(text for item in items for _, text in _fields(item)))
    found = dict(zip(texts, recogniser.find(texts), strict=True))
    return tuple(_with(item, found, types) for item in items)


def _fields(item: Question) -> list[tuple[str, str]]:
    named = [*zip(item.letters, item.options, strict=True)]
    return [*named, *((name, item.text_of(name)) for name in TEXTS)]


def _with(item: Question, found: dict[str, list[Found]], types: frozenset[str]) -> Question:
    kept = [mention for mention in item.mentions if mention.type not in types]
    new = [
        Mention(field=name, start=entity.start, end=entity.end, type=entity.type)
        for name, text in _fields(item)
        for entity in sorted(set(found[text]))
        if entity.type in types and cut_word(text, entity.start, entity.end) is None
    ]
    return item.with_mentions((*kept, *new))
