"""Attacks: parameters, and a generator that asks only through `yield`."""

from __future__ import annotations

from medstress.attacks.discrete_zoo import DiscreteZoo
from medstress.attacks.entity_substitution import EntitySubstitution
from medstress.attacks.medfuzz import MedFuzz
from medstress.attacks.protocol import Attack, RuleChecked, Validity

__all__ = ["Attack", "DiscreteZoo", "EntitySubstitution", "MedFuzz", "RuleChecked", "Validity"]
