"""Attacks: parameters, and a generator that asks only through `yield`."""

from __future__ import annotations

from medstress.attacks.controls.no_op import NoOp
from medstress.attacks.discrete_zoo.attack import DiscreteZoo
from medstress.attacks.entity_substitution import EntitySubstitution
from medstress.attacks.medfuzz.attack import MedFuzz
from medstress.attacks.passages.distractor import PassageDistractor
from medstress.attacks.passages.other import PassageNone, PassageOther
from medstress.attacks.passages.swap import PassageSwap
from medstress.attacks.protocol import Attack, AttackTraits, Validity

__all__ = [
    "Attack",
    "AttackTraits",
    "DiscreteZoo",
    "EntitySubstitution",
    "MedFuzz",
    "NoOp",
    "PassageDistractor",
    "PassageNone",
    "PassageOther",
    "PassageSwap",
    "Validity",
]
