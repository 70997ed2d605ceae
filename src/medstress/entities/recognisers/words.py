"""Split a text into comparable words with their places in the original text."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from medstress.entities.names import fold_word, unaccented

# A word with its possessive ending (not part of the word), or one punctuation mark. White space and
# hyphens separate words. A mark is a word of its own: no name is found across a comma or full stop,
# but names that contain one ("46,xx testicular disorder") are.
_WORD = re.compile(r"(?P<word>[^\W_]+)(?:['`]s(?![^\W_])|(?<=s)['`](?![^\W_]))?|[^\w\s-]|_")

MIN_STEM = 4
"""Shorter singulars are not trusted: hives is not HIV, AIDS is not aid."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word or punctuation mark."""

    form: str
    """The form that is compared: lower case, without accents, singular if long enough."""
    start: int
    """First character in the original text."""
    end: int
    """One past the last character in the original text."""


def split(text: str) -> list[Word]:
    """Return the words of a text with their offsets in it.

    Case, accents, possessive 's, plural, ae for e and oe for e are ignored, and hyphens are
    spaces, as in `names.normalise`.

    >>> [(word.form, "Crohn\u2019s Naïve-cell"[word.start : word.end])
    ...  for word in split("Crohn\u2019s Naïve-cell")]
    [('crohn', 'Crohn'), ('naiv', 'Naïve'), ('cell', 'cell')]
    """
    plain, places = _plain(text)
    words = []
    for match in _WORD.finditer(plain):
        start, end = match.span("word") if match["word"] else match.span()
        first, last = (start, end - 1) if places is None else (places[start], places[end - 1])
        words.append(Word(_form(plain[start:end]), first, _past_marks(text, last + 1)))
    return words


def forms(text: str) -> list[str]:
    """Return the compared form of each word, without offsets and therefore faster.

    >>> forms("Crohn's diseases")
    ['crohn', 'diseas']
    """
    return [_form(match["word"] or match[0]) for match in _WORD.finditer(_plain(text)[0])]


@lru_cache(maxsize=1 << 17)
def _form(word: str) -> str:
    folded = fold_word(word)
    return folded if len(folded) >= MIN_STEM else word


def _plain(text: str) -> tuple[str, list[int] | None]:
    """Return `unaccented`, and the place of each character in `text` (None: the same)."""
    if text.isascii():
        return text.casefold(), None
    pieces: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        # One character may become none (a combining accent) or several (ß, ½).
        piece = unaccented(character)
        pieces.append(piece)
        places += [place] * len(piece)
    return "".join(pieces), places


def _past_marks(text: str, end: int) -> int:
    """Move `end` behind combining accents."""
    while end < len(text) and unicodedata.combining(text[end]):
        end += 1
    return end
