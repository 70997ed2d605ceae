"""Seeded samples of items; every smaller sample is part of every larger one."""

from __future__ import annotations

from collections.abc import Sequence

from medstress.core.clusters import documents_of
from medstress.core.errors import UsageError
from medstress.core.hashing import digest
from medstress.datasets.source import Item


def draw(items: Sequence[Item], limit: int | None, sample_seed: int = 0) -> tuple[Item, ...]:
    """Draw `limit` items, in their original order.

    Each item is ranked by a hash of the seed and its id, so the sample does not depend on the
    order of the rows, and limit 200 contains limit 100.

    Args:
        items: with unique ids.
        limit: at least 1; None, or more than there are, takes all.
        sample_seed: another seed, another sample.

    Raises:
        UsageError: `limit` is below 1.

    >>> from medstress.core.items import Question
    >>> items = [Question(id=i, stem="?", options=("a", "b"), key="A") for i in "pqrst"]
    >>> two, three = draw(items, 2), draw(items, 3)
    >>> len(two), len(three), all(item in three for item in two)
    (2, 3, True)
    """
    if limit is None:
        return tuple(items)
    if limit <= 0:
        raise UsageError(f"limit: expected at least 1, got {limit}")
    ranked = sorted(items, key=lambda item: digest([sample_seed, item.id]))
    drawn = {item.id for item in ranked[:limit]}
    return tuple(item for item in items if item.id in drawn)


def draw_documents(
    items: Sequence[Item], n_documents: int | None, sample_seed: int = 0
) -> tuple[Item, ...]:
    """Draw all items of `n_documents` documents, in their original order.

    As in `draw`, a smaller sample is part of a larger one. An item's metadata names its document;
    an item without one is a document of its own.

    Args:
        items: with unique ids.
        n_documents: at least 1; None, or more than there are, takes all.
        sample_seed: another seed, another sample.

    Raises:
        UsageError: `n_documents` is below 1.
    """
    if n_documents is None:
        return tuple(items)
    if n_documents <= 0:
        raise UsageError(f"limit_documents: expected at least 1, got {n_documents}")
    of_item = documents_of(items)
    names = dict.fromkeys(of_item.values())
    ranked = sorted(names, key=lambda name: digest(["document", sample_seed, name]))
    drawn = set(ranked[:n_documents])
    return tuple(item for item in items if of_item[item.id] in drawn)
