"""The control of a noise: as many words changed in the same way, none of them in an entity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from medstress.attacks.noise import (
    Abbreviation,
    CaseNoise,
    Change,
    HyphenNoise,
    KeyboardNoise,
    LetterNoise,
    Noise,
    NoiseResources,
    OcrNoise,
    Rate,
    SwapNoise,
    Synonym,
)
from medstress.attacks.protocol import parameters
from medstress.core.errors import UsageError, did_you_mean
from medstress.core.items import OUTSIDE, Words

if TYPE_CHECKING:
    from numpy.random import Generator

NOISES: dict[str, type[LetterNoise]] = {
    kind.name: kind for kind in (SwapNoise, KeyboardNoise, CaseNoise, OcrNoise)
}
CONTROLLED: dict[str, Any] = {
    **NOISES,
    **{kind.name: kind for kind in (HyphenNoise, Synonym, Abbreviation)},
}
"""Noises that have a control."""
_SHARED = ("scope", "rate", "edits_per_word")
_OF_ATTACKS = tuple(Noise.__annotations__)
"""Parameters that do not change what is perturbed."""


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
        if self.of is None:
            return self._letters
        noise: Noise = CONTROLLED[self.of["name"]](
            **{key: value for key, value in self.of.items() if key != "name"}
        )
        return noise

    @cached_property
    def _letters(self) -> LetterNoise:
        """What changes the words: the controlled noise, if it changes letters."""
        if self.of is not None:
            counted = self.counted
            return counted if isinstance(counted, LetterNoise) else NOISES[self.noise]()
        return NOISES[self.noise](
            scope=self.scope, rate=self.rate, edits_per_word=self.edits_per_word
        )

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
            if label == OUTSIDE and self._letters.can_edit(token)
        ]
        order = rng.permutation(len(outside)).tolist()
        draws = rng.random((len(outside), self.edits_per_word, 2)).tolist()
        n = 0
        for number in order:
            if n == wanted:
                break
            place = outside[number]
            word = self._letters.edit(words.tokens[place], draws[number])
            if word != words.tokens[place]:
                n += 1
                yield place, place + 1, (word,)


def control_of(spec: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the parameters of the control of an attack; None if it has none.

    Args:
        spec: of an attack, as JSON values. A search has no control: it does not perturb a whole
            data set.

    >>> control_of({"name": "swap_noise", "scope": "all", "rate": 1.0, "edits_per_word": 1})
    {'noise': 'swap_noise', 'scope': 'all', 'rate': 1.0, 'edits_per_word': 1}
    >>> control_of({"name": "synonym", "mode": "strict", "budget": 1})
    {'noise': 'swap_noise', 'of': {'name': 'synonym', 'mode': 'strict'}}
    """
    if spec["name"] not in CONTROLLED or spec.get("search", "none") != "none":
        return None
    own = {key: value for key, value in spec.items() if key not in _OF_ATTACKS}
    shared: dict[str, Any] = {key: own[key] for key in _SHARED if key in own}
    kind = NOISES.get(spec["name"])
    # There are no keys for words and recognisers here: a noise that sets them goes into `of`.
    is_plain = own.get("words") is None and own.get("recogniser") is None
    if kind and is_plain and (plain := kind(**shared).spec()) == {**plain, **own}:
        return {"noise": kind.name, **shared}
    return {"noise": "swap_noise", "of": own}


def is_control_of(control: Mapping[str, Any], spec: Mapping[str, Any]) -> bool:
    """Whether one attack is the control of another.

    Args:
        control: parameters of the one, as JSON values.
        spec: parameters of the other.

    >>> swap = {"name": "swap_noise", "scope": "all", "rate": 1.0, "edits_per_word": 1}
    >>> is_control_of({**swap, "name": "non_entity_noise", "noise": "swap_noise"}, swap)
    True
    """
    wanted = control_of(spec)
    return (
        wanted is not None
        and control["name"] == NonEntityNoise.name
        and control.get("of") == wanted.get("of")
        and all(control[key] == value for key, value in wanted.items())
    )
