"""Attacks: parameters, and a generator that asks only through `yield`.

Each is imported on first use, because a run needs few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from medstress.core.registry import ATTACKS

if TYPE_CHECKING:
    from medstress.attacks.controls.harmless import NeutralInsertion as NeutralInsertion
    from medstress.attacks.controls.harmless import NoOp as NoOp
    from medstress.attacks.controls.harmless import OptionShuffle as OptionShuffle
    from medstress.attacks.controls.harmless import Repeat as Repeat
    from medstress.attacks.controls.paraphrase import Paraphrase as Paraphrase
    from medstress.attacks.controls.same_type import SameType as SameType
    from medstress.attacks.discrete_zoo import DiscreteZoo as DiscreteZoo
    from medstress.attacks.entity_substitution import EntitySubstitution as EntitySubstitution
    from medstress.attacks.medfuzz.attack import MedFuzz as MedFuzz
    from medstress.attacks.passages import PassageDistractor as PassageDistractor
    from medstress.attacks.passages import PassageNone as PassageNone
    from medstress.attacks.passages import PassageOther as PassageOther
    from medstress.attacks.passages import PassageSwap as PassageSwap
    from medstress.attacks.probes import BrandGeneric as BrandGeneric
    from medstress.attacks.probes import Challenge as Challenge
    from medstress.attacks.probes import ContextRemoved as ContextRemoved
    from medstress.attacks.probes import FabricatedDetail as FabricatedDetail
    from medstress.attacks.probes import FalseStatement as FalseStatement
    from medstress.attacks.probes import Lasa as Lasa
    from medstress.attacks.probes import NoneOfTheOthers as NoneOfTheOthers
    from medstress.attacks.probes import OptionOrder as OptionOrder
    from medstress.attacks.probes import OptionsOnly as OptionsOnly
    from medstress.attacks.protocol import Attack as Attack
    from medstress.attacks.protocol import Validity as Validity

_PLACES = {"Attack": f"{__name__}.protocol", "Validity": f"{__name__}.protocol"}
for _entry in ATTACKS.values():
    _module, _, _name = _entry.target.partition(":")
    _PLACES[_name] = _module
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    """Import an attack by the name of its class.

    Raises:
        AttributeError: there is none.
    """
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
