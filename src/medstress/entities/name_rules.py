"""The rules that refute a name by its wording: it repeats an option, or may be a second key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from medstress.core.items import Question
from medstress.core.validity import VARIANT_CLASSES
from medstress.entities.names import DIFFERENT, normalise, unaccented, variant_class
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
        normal = normalise(name)
        if normal == normalise(item.key_text):
            return DUPLICATE
        if any(normal == normalise(text) for text in forbidden_texts(item)):
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


def forbidden_texts(item: Question) -> list[str]:
    """Return the texts that no replacement may equal.

    These are options, entities in them, and texts that would turn one option of several parts into
    another.
    """
    found = [text for letter in item.letters for text in option_texts(item, letter)]
    options = {letter: normalise(item.option(letter)) for letter in item.letters}
    for letter, own in options.items():
        spans = [(m.start, m.end) for m in item.mentions if m.field == letter]
        if letter == item.key or not spans:
            continue
        others = [
            (other, _shared(own, other), _shared(own[::-1], other[::-1]))
            for name, other in options.items()
            if name != letter
        ]
        for before, after in _lengths(item.option(letter), own, spans):
            found += [
                other[before : len(other) - after]
                for other, start, end in others
                if 0 < before + after < len(other) and before <= start and after <= end
            ]
    return found


def _shared(one: str, other: str) -> int:
    """Return how many first characters two texts share."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def _lengths(text: str, normal: str, spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield how long the texts before and after each span are once normalised.

    Every part of the text is normalised once, since an option may hold thousands of entities.

    Args:
        text: an option.
        normal: its normal form.
        spans: of entities in it.
    """
    # Place -> length of what stands before it, and whether a space follows that.
    cuts: dict[int, tuple[int, bool]] = {}
    length, at, is_apart = 0, 0, True
    for cut in sorted({place for span in spans for place in span}):
        part = unaccented(text[at:cut]).replace("-", " ")
        words = " ".join(part.split())
        if words:
            length += len(words) + (length > 0 and (is_apart or part[0].isspace()))
            is_apart = part[-1].isspace()
        is_apart |= bool(part) and not words
        cuts[cut], at = (length, is_apart), cut
    for start, end in spans:
        length, is_apart = cuts[end]
        rest = unaccented(text[end : end + 1]).replace("-", " ")
        after = len(normal) - length - (0 < length < len(normal) and (is_apart or rest.isspace()))
        yield cuts[start][0], after
