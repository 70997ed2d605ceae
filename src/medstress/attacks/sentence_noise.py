"""The attacks on sentences by name: a perturbation each, joined with `SentenceAttack`."""

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
from medstress.attacks.sentence_attack import SentenceAttack


@dataclass(frozen=True, kw_only=True)
class SwapNoiseAttack(SentenceAttack, SwapNoise):
    """Two inner letters of a word change places."""


@dataclass(frozen=True, kw_only=True)
class KeyboardNoiseAttack(SentenceAttack, KeyboardNoise):
    """A letter becomes its neighbour on a keyboard."""


@dataclass(frozen=True, kw_only=True)
class SynonymAttack(SentenceAttack, Synonym):
    """Entities by another name of theirs, or a related one."""


@dataclass(frozen=True, kw_only=True)
class CaseNoiseAttack(SentenceAttack, CaseNoise):
    """Words in another case."""


@dataclass(frozen=True, kw_only=True)
class HyphenNoiseAttack(SentenceAttack, HyphenNoise):
    """Hyphens and spaces lost or put in."""


@dataclass(frozen=True, kw_only=True)
class OcrNoiseAttack(SentenceAttack, OcrNoise):
    """Characters that look alike in a scan."""


@dataclass(frozen=True, kw_only=True)
class AbbreviationAttack(SentenceAttack, Abbreviation):
    """Entities abbreviated or spelt out."""


@dataclass(frozen=True, kw_only=True)
class NonEntityNoiseAttack(SentenceAttack, NonEntityNoise):
    """The control of a noise: as many words changed, none in an entity."""
