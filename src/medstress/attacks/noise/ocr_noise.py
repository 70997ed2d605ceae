"""OCR noise: characters that look alike in a scan are taken for one another."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from medstress.attacks.noise.word_noise import Draws, WordNoise

_ALIKE = (
    ("l", "1"),
    ("l", "I"),
    ("i", "l"),
    ("o", "0"),
    ("O", "0"),
    ("S", "5"),
    ("B", "8"),
    ("Z", "2"),
    ("G", "6"),
    ("e", "c"),
    ("h", "b"),
    ("g", "q"),
    ("n", "u"),
    ("a", "o"),
    ("t", "f"),
    ("y", "v"),
    ("m", "rn"),
    ("d", "cl"),
    ("w", "vv"),
    ("h", "li"),
    ("U", "ll"),
    ("k", "lc"),
)
CONFUSIONS = (*_ALIKE, *((b, a) for a, b in _ALIKE))
"""(in the text, as read), in both directions."""
_BY_FIRST = {
    first: tuple(pair for pair in CONFUSIONS if pair[0][0] == first)
    for first in {seen[0] for seen, _ in CONFUSIONS}
}


@dataclass(frozen=True, kw_only=True)
class OcrNoise(WordNoise):
    """Read one place of a word as what looks like it, uniform over places and readings.

    A word without such a place stays as it is. Numbers stay as well: a misread digit would make
    another dose.
    """

    name: ClassVar[str] = "ocr_noise"
    min_length: ClassVar[int] = 2

    def edit(self, word: str, draws: Draws) -> str:
        """Misread once for each row of draws; the second number of a row is not used."""
        for at, _ in draws:
            found = confusions_in(word)
            if found:
                i, seen, read = found[int(at * len(found))]
                word = word[:i] + read + word[i + len(seen) :]
        return word


@lru_cache(maxsize=1 << 16)
def confusions_in(word: str) -> tuple[tuple[int, str, str], ...]:
    """Return (place, characters there, as read) for everything that can be misread, by place.

    >>> confusions_in("turn")
    ((0, 't', 'f'), (1, 'u', 'n'), (2, 'rn', 'm'), (3, 'n', 'u'))
    """
    return tuple(
        (i, seen, read)
        for i in range(len(word))
        for seen, read in _BY_FIRST.get(word[i], ())
        if word.startswith(seen, i)
    )
