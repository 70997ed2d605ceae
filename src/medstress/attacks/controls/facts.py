"""What a paraphrase must keep, and how many words it has changed."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files

from medstress.core.text import edit_distance

LEAST_CHANGED = 0.2
"""Smallest share of words that a paraphrase changes."""
_NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")
_SPLIT = re.compile(r"[^\W\d]+(?:['’][^\W\d]+)?")
_EDGES = re.compile(r"^\W+|\W+$")


def words_of(text: str) -> list[str]:
    """Return the white-space words of a text in lower case, without punctuation at their ends.

    >>> words_of("A 45-year-old man, (who coughs).")
    ['a', '45-year-old', 'man', 'who', 'coughs']
    """
    stripped = (_EDGES.sub("", word) for word in text.casefold().split())
    return [word for word in stripped if word]


def share_changed(before: Sequence[str], after: Sequence[str]) -> float:
    """Return the word-level edit distance as a share of the words before.

    >>> share_changed("a b c d".split(), "a b x d e".split())
    0.5
    """
    return edit_distance(before, after) / max(len(before), 1)


def facts_of(text: str) -> tuple[tuple[str, ...], Counter[str]]:
    """Return the numbers of a text in order, and how many words of each line there are.

    >>> numbers, words = facts_of("A 45-year-old man denies pain; his pulse is 80.")
    >>> numbers, sorted(words)
    (('45', '80'), ['denies', 'he', 'man', 'year'])
    """
    kept, present = _lines()
    words = _SPLIT.findall(text.casefold())
    found = Counter(kept[word] for word in words if word in kept)
    found.update({present[word] for word in words if word in present})
    return tuple(_NUMBER.findall(text)), found


class Original:
    """A text that paraphrases are checked against.

    Args:
        text: the text.
        names: drugs, diseases and other entities in it.
    """

    def __init__(self, text: str, names: Sequence[str] = ()) -> None:
        self.words = words_of(text)
        self._numbers, self._kept = facts_of(text)
        small = text.casefold()
        self._names = {name: small.count(name) for name in map(str.casefold, names)}

    def is_kept_in(self, paraphrase: str) -> bool:
        """Return whether a text keeps the facts and changes at least a fifth of the words."""
        changed = share_changed(self.words, words_of(paraphrase))
        return changed >= LEAST_CHANGED and self.lost_in(paraphrase) is None

    def lost_in(self, paraphrase: str) -> str | None:
        """Say which fact a paraphrase has not kept, or None.

        >>> Original("No fever for 2 days.").lost_in("Fever over 2 days.")
        'denial'
        """
        numbers, kept = facts_of(paraphrase)
        if numbers != self._numbers:
            return "number"
        if kept != self._kept:
            return next(iter((self._kept - kept) or (kept - self._kept)))
        small = paraphrase.casefold()
        return next((name for name, n in self._names.items() if small.count(name) < n), None)


@lru_cache(maxsize=1)
def _lines() -> tuple[dict[str, str], dict[str, str]]:
    """Return word -> line, for lines of which the number counts, and for those of the others."""
    path = files("medstress.attacks.controls") / "data" / "facts.toml"
    data = tomllib.loads(path.read_text("utf-8"))
    kept, present = (
        {word: line for line, words in data[table].items() for word in words}
        for table in ("kept", "present")
    )
    return kept, present
