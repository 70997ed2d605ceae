"""The control of a noise: as many words changed, none of them in an entity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeGuard

from pydantic import Field

from medstress.attacks.noise import Change, LetterNoise, Noise, NoiseResources, Rate
from medstress.attacks.protocol import QUESTIONS, TAGGED, Attack, make_attack, parameters
from medstress.core.errors import UsageError, did_you_mean
from medstress.core.items import OUTSIDE, Words

if TYPE_CHECKING:
    from numpy.random import Generator

LETTERS = ("swap_noise", "keyboard_noise", "case_noise", "ocr_noise")
CONTROLLED = (*LETTERS, "hyphen_noise", "synonym", "abbreviation")
"""Noises that have a control; those of letters are controlled by themselves."""


@parameters
class NonEntityNoise(Noise):
    """Change as many words outside entities as the noise it controls changes in all.

    The noise is drawn first with its own random numbers, so with the same seed its edits are
    counted exactly as they were made. Then words with label O, in the lexicon or not, are changed
    in random order until as many have changed, or none is left.

    To control what is no letter noise (synonyms, abbreviations, hyphens), name it in `of`: as many
    words as it replaces are perturbed by `noise`.
    """

    name = "non_entity_noise"
    takes = frozenset({QUESTIONS, TAGGED})
    """Not pairs: the score of a pair rests on all words, those outside entities too."""

    noise: Literal["swap_noise", "keyboard_noise", "case_noise", "ocr_noise"] = "swap_noise"
    """The noise it controls, one that changes single words."""
    scope: Literal["lexicon", "entities", "all", "recognised", "words"] = "lexicon"
    """The noise's, as the next two."""
    rate: Rate = 1.0
    edits_per_word: Annotated[int, Field(ge=1, le=20)] = 1
    of: Mapping[str, Any] | None = None
    """Name and parameters of a noise whose replaced words are counted; default: the noise's."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.of is not None:
            if (self.scope, self.rate, self.edits_per_word) != ("lexicon", 1.0, 1):
                raise ValueError(
                    "with `of`, scope, rate and edits_per_word belong to what it names; write them "
                    "inside `of`"
                )
            name = self.of.get("name")
            if name not in CONTROLLED:
                raise ValueError(
                    f"of: expected name = one of {', '.join(CONTROLLED)}, got {name!r}"
                    f"{did_you_mean(str(name), CONTROLLED)}"
                )
        try:
            _ = self.counted
        except UsageError as error:
            raise ValueError(str(error)) from error

    @cached_property
    def counted(self) -> Noise:
        """The noise that it controls."""
        plain = {"scope": self.scope, "rate": self.rate, "edits_per_word": self.edits_per_word}
        keys: dict[str, Any] = dict(self.of or {"name": self.noise, **plain})
        noise = make_attack(keys.pop("name"), keys)
        assert isinstance(noise, Noise)
        return noise

    @cached_property
    def letters(self) -> LetterNoise:
        """What changes the words: the controlled noise, if it changes letters."""
        counted = self.counted
        noise = counted if isinstance(counted, LetterNoise) else make_attack(self.noise, {})
        assert isinstance(noise, LetterNoise)
        return noise

    @property
    def stream(self) -> str:
        """The stream of what it controls."""
        return self.counted.stream

    def changes(self, words: Words, rng: Generator, resources: NoiseResources) -> Iterator[Change]:
        """Change words outside entities."""
        wanted = sum(end - start for start, end, _ in self.counted.changes(words, rng, resources))
        outside = [
            place
            for place, (token, label) in enumerate(zip(words.tokens, words.labels, strict=True))
            if label == OUTSIDE and self.letters.can_edit(token)
        ]
        order = rng.permutation(len(outside)).tolist()
        draws = rng.random((len(outside), self.letters.edits_per_word, 2)).tolist()
        n = 0
        for number in order:
            if n == wanted:
                break
            place = outside[number]
            word = self.letters.edit(words.tokens[place], draws[number])
            if word != words.tokens[place]:
                n += 1
                yield place, place + 1, (word,)

    def controls(self, attack: Attack) -> bool:
        """Return whether it is the control of an attack."""
        return has_control(attack) and self.counted.own == attack.own


def has_control(attack: Attack) -> TypeGuard[Noise]:
    """Return whether an attack has a control: a search has none, as it perturbs no data set.

    >>> from medstress.attacks.noise import SwapNoise
    >>> has_control(SwapNoise()), has_control(SwapNoise(search="greedy", budget=5))
    (True, False)
    """
    return isinstance(attack, Noise) and attack.name in CONTROLLED and attack.search == "none"
