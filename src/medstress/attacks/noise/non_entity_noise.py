"""The control of a noise: as many words changed in the same way, none of them in an entity."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from medstress.attacks.noise.case_noise import CaseNoise
from medstress.attacks.noise.keyboard_noise import KeyboardNoise
from medstress.attacks.noise.ocr_noise import OcrNoise
from medstress.attacks.noise.projection import apply_edits
from medstress.attacks.noise.protocol import NoiseResources, Perturbed, TokenEdit
from medstress.attacks.noise.swap_noise import SwapNoise
from medstress.attacks.noise.word_noise import WordNoise
from medstress.errors import UsageError, did_you_mean
from medstress.sentences import OUTSIDE, TaggedText

if TYPE_CHECKING:
    from numpy.random import Generator

NOISES: dict[str, type[WordNoise]] = {
    kind.name: kind for kind in (SwapNoise, KeyboardNoise, CaseNoise, OcrNoise)
}


@dataclass(frozen=True, kw_only=True)
class NonEntityNoise:
    """Change as many words outside entities as the noise it controls changes in all.

    The noise is drawn first with its own random numbers, so with the same seed its edits are
    counted exactly as they were made. Then words with label O, whatever the lexicon says, are
    taken in random order until as many have changed, or none is left.
    """

    noise: str = "swap_noise"
    """What it controls: a noise that changes single words."""
    scope: str = "lexicon"
    """The noise's."""
    rate: float = 1.0
    """The noise's."""
    edits_per_word: int = 1
    """The noise's."""

    name: ClassVar[str] = "non_entity_noise"
    _base: WordNoise = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.noise not in NOISES:
            raise UsageError(
                f"{self.name}: noise: expected one of {', '.join(NOISES)}, got {self.noise!r}"
                f"{did_you_mean(str(self.noise), NOISES)}"
            )
        base = NOISES[self.noise](
            scope=self.scope,  # type: ignore[arg-type]  # checked there
            rate=self.rate,
            edits_per_word=self.edits_per_word,
        )
        object.__setattr__(self, "_base", base)

    @property
    def stream(self) -> str:
        """That of the noise it controls."""
        return self._base.stream

    @property
    def deterministic(self) -> bool:
        """False: the words are drawn."""
        return False

    def spec(self) -> dict[str, Any]:
        """The parameters, as JSON values."""
        given = asdict(self)
        del given["_base"]
        return {"name": self.name, **given}

    def perturb(self, item: TaggedText, rng: Generator, resources: NoiseResources) -> Perturbed:
        """Perturb one item; see `Perturbation.perturb`."""
        wanted = len(self._base.perturb(item, rng, resources).edits)
        outside = [
            place
            for place, (token, label) in enumerate(zip(item.tokens, item.labels, strict=True))
            if label == OUTSIDE and self._base.can_edit(token)
        ]
        order = rng.permutation(len(outside)).tolist()
        draws = rng.random((len(outside), self.edits_per_word, 2)).tolist()
        edits: list[TokenEdit] = []
        for number in order:
            if len(edits) == wanted:
                break
            place = outside[number]
            word = self._base.edit(item.tokens[place], draws[number])
            if word != item.tokens[place]:
                edits.append(TokenEdit(start=place, end=place + 1, replacement=(word,)))
        return apply_edits(item, edits)
