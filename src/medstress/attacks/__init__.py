"""Attacks: parameters, and a generator that asks only through `yield`."""

from __future__ import annotations

from medstress.attacks.controls.neutral_insertion import NeutralInsertion
from medstress.attacks.controls.no_op import NoOp
from medstress.attacks.controls.option_shuffle import OptionShuffle
from medstress.attacks.controls.paraphrase import Paraphrase
from medstress.attacks.controls.repeat import Repeat
from medstress.attacks.controls.same_type import SameType
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
    "NeutralInsertion",
    "NoOp",
    "OptionShuffle",
    "Paraphrase",
    "PassageDistractor",
    "PassageNone",
    "PassageOther",
    "PassageSwap",
    "Repeat",
    "SameType",
    "Validity",
]
