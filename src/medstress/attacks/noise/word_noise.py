"""Noise that changes single words and keeps the number and labels of tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from medstress.attacks.noise.projection import apply_edits
from medstress.attacks.noise.protocol import NoiseResources, Perturbed, TokenEdit
from medstress.attacks.noise.scopes import Scoped, check_rate
from medstress.core.errors import UsageError
from medstress.core.sentences import TaggedText

if TYPE_CHECKING:
    from numpy.random import Generator

Draws: TypeAlias = Sequence[Sequence[float]]
"""Uniform numbers in [0, 1), shape (edits_per_word, 2): where in the word, and what there."""

MAX_EDITS = 20


@dataclass(frozen=True, kw_only=True)
class WordNoise(Scoped, ABC):
    """Base of word noises: which words, how many of them, how many edits in each.

    A word is a token with a letter, long enough for the noise. Every occurrence has its own
    draws, and a lower `rate` or fewer `edits_per_word` with the same seed make a part of the
    same edits.
    """

    rate: float = 1.0
    """Probability that a word is perturbed; the paper perturbs all."""
    edits_per_word: int = 1
    """Successive edits in a word; the paper makes one."""
    name: ClassVar[str]
    min_length: ClassVar[int]
    """Shorter words stay as they are."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rate(self.name, self.rate)
        n = self.edits_per_word
        if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MAX_EDITS:
            raise UsageError(
                f"{self.name}: edits_per_word: expected a whole number from 1 to {MAX_EDITS}, "
                f"got {n!r}"
            )

    @abstractmethod
    def edit(self, word: str, draws: Draws) -> str:
        """Return the word after one edit for each row of `draws`; a function of both alone."""

    def can_edit(self, word: str) -> bool:
        """Whether a token is a word that is long enough."""
        return len(word) >= self.min_length and any(map(str.isalpha, word))

    def places(self, item: TaggedText, resources: NoiseResources) -> list[int]:
        """Return the tokens that are words in scope, in order."""
        return [n for n in self.in_scope(item, resources) if self.can_edit(item.tokens[n])]

    def perturb(self, item: TaggedText, rng: Generator, resources: NoiseResources) -> Perturbed:
        """Perturb the words in scope; see `Perturbation.perturb`."""
        return apply_edits(item, self.edits_at(item, self.places(item, resources), rng))

    def edits_at(self, item: TaggedText, places: Sequence[int], rng: Generator) -> list[TokenEdit]:
        """Return the edits that change the words at some places."""
        if not places:
            return []
        chances = rng.random(len(places)).tolist()
        # Edits are the first axis: more of them begin with the same numbers.
        draws = rng.random((self.edits_per_word, len(places), 2)).tolist()
        edits = []
        for number, place in enumerate(places):
            if chances[number] >= self.rate:
                continue
            word = self.edit(item.tokens[place], [row[number] for row in draws])
            if word != item.tokens[place]:
                edits.append(TokenEdit(start=place, end=place + 1, replacement=(word,)))
        return edits
