"""Keyboard noise: one letter becomes a neighbour on a US keyboard.

Reference: Araujo, Carvallo, Aspillaga, Parra, "On adversarial examples for biomedical NLP tasks",
2020; rule and neighbours are recovered from published data (METHODS 4.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from medstress.attacks.noise.word_noise import Draws, WordNoise

NEIGHBOURS = {
    "a": "qswxz",
    "b": "ghnv",
    "c": "dfvx",
    "d": "cefrsvx",
    "e": "34dfrsw",
    "f": "cdgrtv",
    "g": "bfhtvy",
    "h": "bgjnuy",
    "i": "89jklou",
    "j": "hikmnu",
    "k": ",.ijlmo",
    "l": ",.;kop",
    "m": ",jkn",
    "n": "bhjm",
    "o": "09;iklp",
    "p": "'-0;[lo",
    "q": "12asw",
    "r": "45defgt",
    "s": "acdewxz",
    "t": "56fghry",
    "u": "78hijky",
    "v": "bcfg",
    "w": "23adeqs",
    "x": "cdsz",
    "y": "67ghjtu",
    "z": "asx",
}
"""US layout with diagonals, the row of digits and punctuation; not symmetric."""


@dataclass(frozen=True, kw_only=True)
class KeyboardNoise(WordNoise):
    """Replace one character, uniform over the whole word, by one of its neighbours, uniform.

    Only lower-case letters have neighbours: where a capital, a digit or a hyphen is drawn, the
    word stays as it is.
    """

    name: ClassVar[str] = "keyboard_noise"
    min_length: ClassVar[int] = 2

    def edit(self, word: str, draws: Draws) -> str:
        """Slip once for each row of draws: (position, neighbour)."""
        for at, which in draws:
            word = slip(word, int(at * len(word)), which)
        return word


def slip(word: str, i: int, which: float) -> str:
    """Replace character i by a neighbour; `which` in [0, 1) says which.

    >>> slip("renal", 4, 0.0), slip("Renal", 0, 0.0)
    ('rena,', 'Renal')
    """
    near = NEIGHBOURS.get(word[i])
    return word if near is None else word[:i] + near[int(which * len(near))] + word[i + 1 :]
