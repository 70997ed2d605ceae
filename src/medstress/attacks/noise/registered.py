"""The attacks on sentences: each is a perturbation joined with `SentenceAttack`.

`Legacy` comes last, so that its abstract members are looked up in the perturbation first.
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
from medstress.attacks.protocol import Legacy


@dataclass(frozen=True, kw_only=True)
class SwapNoiseAttack(SentenceAttack, SwapNoise, Legacy):
    """Two inner letters of a word change places."""


@dataclass(frozen=True, kw_only=True)
class KeyboardNoiseAttack(SentenceAttack, KeyboardNoise, Legacy):
    """A letter becomes its neighbour on a keyboard."""


@dataclass(frozen=True, kw_only=True)
class SynonymAttack(SentenceAttack, Synonym, Legacy):
    """Entities get another of their names, or a related one."""


@dataclass(frozen=True, kw_only=True)
class CaseNoiseAttack(SentenceAttack, CaseNoise, Legacy):
    """Words in another case."""


@dataclass(frozen=True, kw_only=True)
class HyphenNoiseAttack(SentenceAttack, HyphenNoise, Legacy):
    """Hyphens and spaces are lost or added."""


@dataclass(frozen=True, kw_only=True)
class OcrNoiseAttack(SentenceAttack, OcrNoise, Legacy):
    """Characters that look alike in a scan."""


@dataclass(frozen=True, kw_only=True)
class AbbreviationAttack(SentenceAttack, Abbreviation, Legacy):
    """Entities are abbreviated or spelt out."""


@dataclass(frozen=True, kw_only=True)
class NonEntityNoiseAttack(SentenceAttack, NonEntityNoise, Legacy):
    """The control of a noise: as many words changed, none in an entity."""
