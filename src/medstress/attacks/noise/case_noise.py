"""Case noise: words in capitals, in lower case, or with a slip of the shift key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

from medstress.attacks.choices import check_word
from medstress.attacks.noise.word_noise import Draws, WordNoise

Mode: TypeAlias = Literal["random", "upper", "lower", "capitalised", "letter"]


@dataclass(frozen=True, kw_only=True)
class CaseNoise(WordNoise):
    """Write a word in another case; its letters stay."""

    to: Mode = "random"
    """`upper`, `lower`, `capitalised`, `letter` (one letter changes its case), or any of them at
    `random`."""

    name: ClassVar[str] = "case_noise"
    min_length: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_word(self.name, "to", self.to, get_args(Mode))

    def edit(self, word: str, draws: Draws) -> str:
        """Change case once for each row of draws: (position, mode)."""
        for at, which in draws:
            mode = _DRAWN[int(which * len(_DRAWN))] if self.to == "random" else self.to
            word = _CASES[mode](word, at)
        return word


def _one_letter(word: str, at: float) -> str:
    letters = [i for i, character in enumerate(word) if character.isalpha()]
    i = letters[int(at * len(letters))]
    return word[:i] + word[i].swapcase() + word[i + 1 :]


_CASES: dict[str, Callable[[str, float], str]] = {
    "upper": lambda word, _: word.upper(),
    "lower": lambda word, _: word.lower(),
    "capitalised": lambda word, _: word.capitalize(),
    "letter": _one_letter,
}
_DRAWN = tuple(_CASES)
