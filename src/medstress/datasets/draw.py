"""A seeded sample of questions in which every smaller sample lies inside every larger one."""

from __future__ import annotations

from collections.abc import Sequence

from medstress.errors import UsageError
from medstress.hashing import digest
from medstress.items import Question


def draw(
    questions: Sequence[Question], limit: int | None, sample_seed: int = 0
) -> tuple[Question, ...]:
    """Draw `limit` questions, in their original order.

    Each question's rank is a hash of the seed and its id, so which ones are drawn depends on
    neither the order of the rows nor the limit: limit 200 contains limit 100.

    Args:
        questions: with unique ids.
        limit: at least 1; None, or more than there are, takes all.
        sample_seed: another seed, another sample.

    Raises:
        UsageError: `limit` is below 1.

    >>> items = [Question(id=i, stem="?", options=("a", "b"), key="A") for i in "pqrst"]
    >>> two, three = draw(items, 2), draw(items, 3)
    >>> len(two), len(three), all(item in three for item in two)
    (2, 3, True)
    """
    if limit is None:
        return tuple(questions)
    if limit <= 0:
        raise UsageError(f"limit: expected at least 1, got {limit}")
    ranked = sorted(questions, key=lambda item: digest([sample_seed, item.id]))
    drawn = {item.id for item in ranked[:limit]}
    return tuple(item for item in questions if item.id in drawn)
