"""The texts of questions that need vectors or synonyms: keys, and entities in options."""

from __future__ import annotations

from collections.abc import Iterable

from medstress.core.items import Question
from medstress.entities.grouping import typed_options


def key_texts(questions: Iterable[Question]) -> set[str]:
    """Return key texts and the entities in them; synonyms are looked up for these."""
    return {
        text
        for item in questions
        for text in (
            item.key_text,
            *(item.key_text[m.start : m.end] for m in item.mentions if m.field == item.key),
        )
    }


def texts_to_embed(
    questions: Iterable[Question], types: frozenset[str]
) -> tuple[list[str], list[str]]:
    """Return key texts (anchors) of attackable items, and distractor spans of these types."""
    anchors: dict[str, None] = {}
    spans: dict[str, None] = {}
    for item in questions:
        if typed_options(item, types):
            anchors[item.key_text] = None
            for m in item.mentions:
                if m.type in types and m.field in item.letters and m.field != item.key:
                    spans[item.option(m.field)[m.start : m.end]] = None
    return list(anchors), list(spans)
