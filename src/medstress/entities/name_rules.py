"""The rules that refute a name by its wording: it repeats an option, or may be a second key."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from medstress.core.items import Question
from medstress.core.validity import VARIANT_CLASSES
from medstress.entities.names import DIFFERENT, normalise, variant_class
from medstress.entities.synonyms import SynonymGroups

EQUAL, DUPLICATE = "equal_to_option", "key_duplicate"
"""Reasons that take precedence over variant classes."""


class NameRules:
    """Judges names against the options of a question."""

    def __init__(self, synonyms: SynonymGroups) -> None:
        """Keep the names that would be a second right answer."""
        self._synonyms = synonyms

    def objection(self, item: Question, name: str) -> str | None:
        """Return why `exclude` rejects a name for its wording, or None."""
        normal, (key, forbidden) = normalise(name), _normal_texts(item)
        if normal == key:
            return DUPLICATE
        if normal in forbidden:
            return EQUAL
        found = self.variant_class(item, name)
        return None if found == VARIANT_CLASSES[DIFFERENT] else found

    def variant_class(self, item: Question, name: str) -> str:
        """Return the class of `name` relative to the key's text and the entities in it."""
        references = option_texts(item, item.key)
        return variant_class(name, references, self.synonyms_of(references))

    def synonyms_of(self, references: Iterable[str]) -> frozenset[str]:
        """Return the synonyms of any of some names."""
        return frozenset().union(*(self._synonyms.synonyms_of(text) for text in references))


def option_texts(item: Question, letter: str) -> list[str]:
    """Return the text of one option, then the entities in it."""
    text = item.option(letter)
    return [text, *(text[m.start : m.end] for m in item.mentions if m.field == letter)]


@lru_cache(maxsize=256)
def _normal_texts(item: Question) -> tuple[str, frozenset[str]]:
    """Return the key's text and those of `forbidden_texts`, normalised."""
    return normalise(item.key_text), frozenset(map(normalise, forbidden_texts(item)))


def forbidden_texts(item: Question) -> list[str]:
    """Return the texts that no replacement may equal.

    These are options, entities in them, and texts that would turn one option of several parts into
    another.
    """
    found = [text for letter in item.letters for text in option_texts(item, letter)]
    options = {letter: normalise(item.option(letter)) for letter in item.letters}
    for mention in item.mentions:
        if mention.field not in item.letters or mention.field == item.key:
            continue
        text = item.option(mention.field)
        before, after = normalise(text[: mention.start]), normalise(text[mention.end :])
        if not before and not after:
            continue
        for letter, other in options.items():
            fits = len(other) > len(before) + len(after) and letter != mention.field
            if fits and other.startswith(before) and other.endswith(after):
                found.append(other[len(before) : len(other) - len(after)])
    return found
