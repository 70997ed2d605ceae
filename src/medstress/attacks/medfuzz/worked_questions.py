"""Draw the worked questions that a target is shown before its case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medstress.core.errors import UsageError
from medstress.core.items import Question
from medstress.tasks.prompt_sets import Exemplar

if TYPE_CHECKING:
    from numpy.random import Generator


def draw_worked(
    known: Sequence[Exemplar], n: int, item: Question, rng: Generator, source: str
) -> tuple[Exemplar, ...]:
    """Draw n worked questions, never the item itself nor one with its answer.

    Args:
        known: to draw from.
        n: how many.
        item: the target's case.
        rng: of the item and run.
        source: what holds them, for messages.

    Raises:
        UsageError: there are too few.
    """
    key, question = item.key_text.casefold(), item.question.casefold()
    others = [
        each
        for each in known
        if each.id != item.id
        and each.question.casefold() != question
        and each.answer_text.casefold() != key
    ]
    if len(others) < n:
        raise UsageError(
            f"medfuzz: exemplars = {n}, but {source} holds {len(others)} that are neither the item "
            "nor have its answer: lower exemplars or add worked questions"
        )
    drawn = rng.choice(len(others), size=n, replace=False)
    return tuple(others[i] for i in drawn)
