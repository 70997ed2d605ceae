"""Attacks: parameters, and a generator that asks only through `yield`."""

from __future__ import annotations

from medstress.attacks.discrete_zoo.attack import DiscreteZoo
from medstress.attacks.entity_substitution import EntitySubstitution
from medstress.attacks.medfuzz.attack import MedFuzz
from medstress.attacks.protocol import Attack, AttackTraits, Validity

__all__ = ["Attack", "AttackTraits", "DiscreteZoo", "EntitySubstitution", "MedFuzz", "Validity"]
