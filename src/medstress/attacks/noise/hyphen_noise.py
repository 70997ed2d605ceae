"""Hyphen and space noise: words run together, are hyphenated, or break in two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from medstress.attacks.noise.projection import apply_edits, same_unit
from medstress.attacks.noise.protocol import NoiseResources, Perturbed, TokenEdit, Tokens
from medstress.attacks.noise.scopes import Scoped, check_rate
from medstress.core.sentences import TaggedText

if TYPE_CHECKING:
    from numpy.random import Generator

HYPHEN = "-"


@dataclass(frozen=True, kw_only=True)
class HyphenNoise(Scoped):
    """Drop, add or move hyphens and spaces between words in scope, and break long words.

    A hyphen between two words is dropped, with or without a space in its place; two neighbouring
    words run together or are hyphenated; a word of six or more letters breaks in two. Edits are
    drawn from left to right. All words of an edit must be in scope, and no edit crosses the border
    of an entity.
    """

    rate: float = 1.0
    """Probability that a place is edited."""

    name: ClassVar[str] = "hyphen_noise"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rate(self.name, self.rate)

    def perturb(self, item: TaggedText, rng: Generator, resources: NoiseResources) -> Perturbed:
        """Perturb one item; see `Perturbation.perturb`."""
        places = list(self._places(item, resources))
        draws = rng.random((len(places), 2)).tolist()
        edits: list[TokenEdit] = []
        position = 0
        for (start, end), (chance, which) in zip(places, draws, strict=True):
            if start < position or chance >= self.rate:
                continue
            choices = _choices(item.tokens[start:end])
            edits.append(
                TokenEdit(start=start, end=end, replacement=choices[int(which * len(choices))])
            )
            position = end
        return apply_edits(item, edits)

    def _places(self, item: TaggedText, resources: NoiseResources) -> Iterator[tuple[int, int]]:
        """Yield the ranges that can be edited, in order, longest first; they may overlap."""
        chosen = set(self.in_scope(item, resources))
        inside = [n in chosen and token.isalpha() for n, token in enumerate(item.tokens)]
        n = len(inside)
        for start in range(n):
            for end in (start + 3, start + 2, start + 1):
                if end > n or not (inside[start] and inside[end - 1]):
                    continue
                if end == start + 3 and item.tokens[start + 1] != HYPHEN:
                    continue
                if same_unit(item, start, end) and _choices(item.tokens[start:end]):
                    yield start, end


def _choices(tokens: Sequence[str]) -> tuple[Tokens, ...]:
    """Return the replacements of one word, two words, or two words with a hyphen between them."""
    first, last = tokens[0], tokens[-1]
    match len(tokens):
        case 3:
            return (first, last), (first + last,)
        case 2:
            return (first + last,), (first, HYPHEN, last)
        case _:
            return tuple((first[:i], first[i:]) for i in range(3, len(first) - 2))
