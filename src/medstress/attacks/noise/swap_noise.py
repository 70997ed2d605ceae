"""Swap noise: two neighbouring inner letters change places.

Reference: Araujo, Carvallo, Aspillaga, Parra, "On adversarial examples for biomedical NLP tasks",
2020; the rule is recovered from published data (METHODS 4.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from medstress.attacks.noise.word_noise import Draws, WordNoise


@dataclass(frozen=True, kw_only=True)
class SwapNoise(WordNoise):
    """Swap characters i and i + 1 of a word, i uniform in {1, ..., length - 3} (0-based).

    First and last characters are never moved. Equal neighbours are not drawn again, so "blood"
    stays as it is half the time.
    """

    name: ClassVar[str] = "swap_noise"
    min_length: ClassVar[int] = 4

    def edit(self, word: str, draws: Draws) -> str:
        """Swap once for each row of draws; the second number of a row is not used."""
        for at, _ in draws:
            word = swap_inner(word, 1 + int(at * (len(word) - 3)))
        return word


def swap_inner(word: str, i: int) -> str:
    """Swap characters i and i + 1.

    >>> swap_inner("aspirin", 2)
    'asiprin'
    """
    return word[:i] + word[i + 1] + word[i] + word[i + 2 :]
