"""The control of a noise: as many words changed in the same way, none of them in an entity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from medstress.attacks.choices import check_word
from medstress.attacks.noise.abbreviation import Abbreviation
from medstress.attacks.noise.case_noise import CaseNoise
from medstress.attacks.noise.hyphen_noise import HyphenNoise
from medstress.attacks.noise.keyboard_noise import KeyboardNoise
from medstress.attacks.noise.ocr_noise import OcrNoise
from medstress.attacks.noise.projection import apply_edits
from medstress.attacks.noise.protocol import NoiseResources, Perturbation, Perturbed, TokenEdit
from medstress.attacks.noise.swap_noise import SwapNoise
from medstress.attacks.noise.synonym import Synonym
from medstress.attacks.noise.word_noise import WordNoise
from medstress.core.errors import UsageError, did_you_mean
from medstress.core.sentences import OUTSIDE, TaggedText

if TYPE_CHECKING:
    from numpy.random import Generator

NOISES: dict[str, type[WordNoise]] = {
    kind.name: kind for kind in (SwapNoise, KeyboardNoise, CaseNoise, OcrNoise)
}
CONTROLLED: dict[str, Any] = {
    **NOISES,
    **{kind.name: kind for kind in (HyphenNoise, Synonym, Abbreviation)},
}
"""Perturbations that have a control."""
_SHARED = ("scope", "rate", "edits_per_word")
_OF_ATTACKS = ("budget", "search", "side", "max_change", "field")
"""Parameters of an attack that do not change what it perturbs."""


@dataclass(frozen=True, kw_only=True)
class NonEntityNoise:
    """Change as many words outside entities as the noise it controls changes in all.

    The noise is drawn first with its own random numbers, so with the same seed its edits are
    counted exactly as they were made. Then words with label O, in the lexicon or not, are changed
    in random order until as many have changed, or none is left.

    To control a perturbation that is no letter noise (synonyms, abbreviations, hyphens), name it
    in `of`: as many words as it replaces are perturbed by `noise`.
    """

    noise: str = "swap_noise"
    """The noise it controls, one that changes single words."""
    scope: str = "lexicon"
    """The noise's."""
    rate: float = 1.0
    """The noise's."""
    edits_per_word: int = 1
    """The noise's."""
    of: Mapping[str, Any] | None = None
    """Name and parameters of a perturbation whose replaced words are counted; default: the
    noise's."""

    name: ClassVar[str] = "non_entity_noise"
    _base: WordNoise = field(init=False, repr=False, compare=False)
    counted: Perturbation = field(init=False, repr=False, compare=False)
    """The perturbation that it controls."""

    def __post_init__(self) -> None:
        check_word(self.name, "noise", self.noise, NOISES)
        base = NOISES[self.noise](
            scope=self.scope,  # type: ignore[arg-type]  # checked there
            rate=self.rate,
            edits_per_word=self.edits_per_word,
        )
        counted: Perturbation = base
        if self.of is not None:
            if (self.scope, self.rate, self.edits_per_word) != ("lexicon", 1.0, 1):
                raise UsageError(
                    f"{self.name}: with `of`, scope, rate and edits_per_word belong to what it "
                    "names; write them inside `of`"
                )
            counted = _perturbation(self.of)
            base = counted if isinstance(counted, WordNoise) else base
        object.__setattr__(self, "_base", base)
        object.__setattr__(self, "counted", counted)

    @property
    def stream(self) -> str:
        """The stream of what it controls."""
        return self.counted.stream

    @property
    def deterministic(self) -> bool:
        """False: the words are drawn."""
        return False

    def spec(self) -> dict[str, Any]:
        """Return the parameters, as JSON values."""
        given = asdict(self)
        del given["_base"], given["counted"]
        return {"name": self.name, **given}

    def perturb(self, item: TaggedText, rng: Generator, resources: NoiseResources) -> Perturbed:
        """Perturb one item; see `Perturbation.perturb`."""
        wanted = sum(e.end - e.start for e in self.counted.perturb(item, rng, resources).edits)
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


def _perturbation(given: Mapping[str, Any]) -> Perturbation:
    """Build the perturbation that `of` names."""
    name = given.get("name") if isinstance(given, Mapping) else given
    if not isinstance(name, str) or name not in CONTROLLED:
        raise UsageError(
            f"{NonEntityNoise.name}: of: expected name = one of {', '.join(CONTROLLED)}, got "
            f"{name!r}{did_you_mean(str(name), CONTROLLED)}"
        )
    parameters = {key: value for key, value in given.items() if key != "name"}
    try:
        made: Perturbation = CONTROLLED[name](**parameters)
    except TypeError as error:
        raise UsageError(f"{NonEntityNoise.name}: of: {name}: {error}") from error
    return made
