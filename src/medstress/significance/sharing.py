"""Decide which successes share their controls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from medstress.attacks.controls.neutral import is_similar_length
from medstress.attacks.controls.slots import Slot
from medstress.core.trials import Trial

Described: TypeAlias = tuple[Trial, Sequence[Slot]]
"""A success and the slots of its insertions."""


def leaders(successes: Sequence[Described]) -> dict[str, Trial]:
    """Return the success whose controls each success is compared with: itself or an earlier one.

    Two successes on one item share one set of controls if their insertions are alike: the same
    places, forms and categories, and about as many words. T of both is then estimated with the
    leader's worked questions, which the other attack did not search.

    The first has the smallest seed, then repeat, so that it does not matter when a seed joined.

    Args:
        successes: successes, in any order.

    Returns:
        The leader by trial identifier.
    """
    chosen: dict[str, Trial] = {}
    heads: list[Described] = []
    for one in sorted(successes, key=lambda one: (one[0].arm.seed or 0, one[0].repeat)):
        head = next((head for head in heads if _alike(head, one)), None)
        if head is None:
            heads.append(one)
        chosen[one[0].id] = one[0] if head is None else head[0]
    return chosen


def _alike(head: Described, one: Described) -> bool:
    (first, slots), (second, others) = head, one
    places = [(t.arm.place, t.arm.attack.label, t.item.id) for t in (first, second)]
    return places[0] == places[1] and len(slots) == len(others) and all(map(_like, slots, others))


def _like(ours: Slot, theirs: Slot) -> bool:
    a, b = (
        (
            slot.field,
            slot.at,
            slot.lead,
            slot.trail,
            [(part.form, part.category) for part in slot.parts],
        )
        for slot in (ours, theirs)
    )
    return a == b and all(
        is_similar_length(other.n_words, one.n_words)
        for one, other in zip(ours.parts, theirs.parts, strict=True)
    )
