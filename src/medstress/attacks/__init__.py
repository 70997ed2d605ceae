"""Attacks: parameters, and a generator that asks only through `yield`.

Each is imported on first use, because a run needs few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from medstress.core.registry import ATTACKS

if TYPE_CHECKING:
    from medstress.attacks.controls.harmless import NeutralInsertion, NoOp, OptionShuffle, Repeat
    from medstress.attacks.controls.paraphrase import Paraphrase
    from medstress.attacks.controls.same_type import SameType
    from medstress.attacks.discrete_zoo.attack import DiscreteZoo
    from medstress.attacks.entity_substitution import EntitySubstitution
    from medstress.attacks.medfuzz.attack import MedFuzz
    from medstress.attacks.passages import PassageDistractor, PassageNone, PassageOther, PassageSwap
    from medstress.attacks.probes import (
        BrandGeneric,
        Challenge,
        ContextRemoved,
        FabricatedDetail,
        FalseStatement,
        Lasa,
        NoneOfTheOthers,
        OptionOrder,
        OptionsOnly,
    )
    from medstress.attacks.protocol import Attack, Validity

__all__ = [
    "Attack",
    "BrandGeneric",
    "Challenge",
    "ContextRemoved",
    "DiscreteZoo",
    "EntitySubstitution",
    "FabricatedDetail",
    "FalseStatement",
    "Lasa",
    "MedFuzz",
    "NeutralInsertion",
    "NoOp",
    "NoneOfTheOthers",
    "OptionOrder",
    "OptionShuffle",
    "OptionsOnly",
    "Paraphrase",
    "PassageDistractor",
    "PassageNone",
    "PassageOther",
    "PassageSwap",
    "Repeat",
    "SameType",
    "Validity",
]


def __getattr__(name: str) -> Any:
    """Import an attack by the name of its class.

    Raises:
        AttributeError: there is none.
    """
    targets = [entry.target.partition(":") for entry in ATTACKS.values()]
    place = next((module for module, _, own in targets if own == name), f"{__name__}.protocol")
    if name in __all__:
        return getattr(import_module(place), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
