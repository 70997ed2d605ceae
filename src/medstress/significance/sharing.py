"""Decide which successes share their controls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from medstress.attacks.controls.neutral import is_similar_length
from medstress.attacks.controls.slots import Slot
from medstress.core.rows import TrialRow
from medstress.metrics.attempt_records import attempts_used
from medstress.metrics.significance.families import Null
from medstress.significance.settings import Settings

Described: TypeAlias = tuple[TrialRow, Sequence[Slot]]
"""A success and the slots of its insertions."""


def leaders(successes: Sequence[Described], settings: Settings) -> dict[str, TrialRow]:
    """Return the success whose controls each success is compared with: itself or an earlier one.

    Two successes on one item share one set of controls if their insertions are alike: the same
    places, forms and categories, and about as many words. Scrambled controls are never shared.
    Paraphrases do not depend on insertions, so all successes on an item share them. T of both is
    then estimated with the leader's worked questions, which the other attack did not search.

    Args:
        successes: successes, in the order of the trials.
        settings: settings of the tests.

    Returns:
        The leader by trial identifier.
    """
    chosen: dict[str, TrialRow] = {}
    heads: list[Described] = []
    for one in successes:
        row = one[0]
        head = next(
            (
                head
                for head in heads
                if settings.share_controls and _alike(head, one, settings.null)
            ),
            None,
        )
        if head is None:
            heads.append(one)
        chosen[row.trial_id] = row if head is None else head[0]
    return chosen


def _alike(head: Described, one: Described, null: Null) -> bool:
    (first, ours), (row, theirs) = head, one
    places = [
        (each.dataset, each.group, each.victim, each.attack, each.item_id) for each in (first, row)
    ]
    if null is Null.SCRAMBLED or places[0] != places[1]:
        return False
    if null is Null.PARAPHRASE:
        return True
    if null is Null.BEST_OF_K and attempts_used(first) != attempts_used(row):
        return False
    return len(ours) == len(theirs) and all(map(_like, ours, theirs))


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
