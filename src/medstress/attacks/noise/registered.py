"""The attacks on sentences: each is a perturbation joined with `SentenceAttack`.

`Attack` comes last, so that its abstract members are looked up in the perturbation first.
"""

from __future__ import annotations

from dataclasses import dataclass

from medstress.attacks.noise import (
    Abbreviation,
    CaseNoise,
    HyphenNoise,
    KeyboardNoise,
    NonEntityNoise,
    OcrNoise,
    SwapNoise,
    Synonym,
)
from medstress.attacks.noise.attack import SentenceAttack
from medstress.attacks.protocol import Attack


@dataclass(frozen=True, kw_only=True)
class SwapNoiseAttack(SentenceAttack, SwapNoise, Attack):
    """Two inner letters of a word change places."""


@dataclass(frozen=True, kw_only=True)
class KeyboardNoiseAttack(SentenceAttack, KeyboardNoise, Attack):
    """A letter becomes its neighbour on a keyboard."""


@dataclass(frozen=True, kw_only=True)
class SynonymAttack(SentenceAttack, Synonym, Attack):
    """Entities get another of their names, or a related one."""


@dataclass(frozen=True, kw_only=True)
class CaseNoiseAttack(SentenceAttack, CaseNoise, Attack):
    """Words in another case."""


@dataclass(frozen=True, kw_only=True)
class HyphenNoiseAttack(SentenceAttack, HyphenNoise, Attack):
    """Hyphens and spaces are lost or added."""


@dataclass(frozen=True, kw_only=True)
class OcrNoiseAttack(SentenceAttack, OcrNoise, Attack):
    """Characters that look alike in a scan."""


@dataclass(frozen=True, kw_only=True)
class AbbreviationAttack(SentenceAttack, Abbreviation, Attack):
    """Entities are abbreviated or spelt out."""


@dataclass(frozen=True, kw_only=True)
class NonEntityNoiseAttack(SentenceAttack, NonEntityNoise, Attack):
    """The control of a noise: as many words changed, none in an entity."""
