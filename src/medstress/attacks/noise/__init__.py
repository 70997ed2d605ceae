"""Noise: pure functions that perturb a tagged text, and its labels with it.

A perturbation is frozen parameters, checked when made, and one method without side effects::

    perturbation.perturb(item, rng, resources) -> Perturbed(tokens, labels, edits)

`edits` are ranges of tokens of the original item with what stands there instead. They do not
overlap and none crosses the border of an entity, so any subset of them is a perturbation as well:
`apply_edits(item, subset)` gives its tokens and labels, which is what a search needs. `rng` is
`rng_for(seed, perturbation.stream, dataset, item.id)`. Texts without tokens (sentence pairs,
questions) go through `medstress.attacks.noise.texts`.

Reference: Araujo, Carvallo, Aspillaga, Parra, "On adversarial examples for biomedical NLP tasks",
2020 (METHODS section 4).
"""

from __future__ import annotations

from medstress.attacks.noise.abbreviation import Abbreviation
from medstress.attacks.noise.case_noise import CaseNoise
from medstress.attacks.noise.hyphen_noise import HyphenNoise
from medstress.attacks.noise.keyboard_noise import KeyboardNoise
from medstress.attacks.noise.non_entity_noise import NonEntityNoise
from medstress.attacks.noise.ocr_noise import OcrNoise
from medstress.attacks.noise.projection import apply_edits
from medstress.attacks.noise.protocol import NoiseResources, Perturbation, Perturbed, TokenEdit
from medstress.attacks.noise.swap_noise import SwapNoise
from medstress.attacks.noise.synonym import Synonym

__all__ = [
    "Abbreviation",
    "CaseNoise",
    "HyphenNoise",
    "KeyboardNoise",
    "NoiseResources",
    "NonEntityNoise",
    "OcrNoise",
    "Perturbation",
    "Perturbed",
    "SwapNoise",
    "Synonym",
    "TokenEdit",
    "apply_edits",
]
