"""Shuffled batches of examples of similar length."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

POOL = 64
"""Batches within which examples are sorted by length, to reduce padding."""


def batches(
    examples: Sequence[T], size: int, order: random.Random, length: Callable[[T], int]
) -> Iterator[list[T]]:
    """Yield every example once, in batches that depend on `order` alone.

    Args:
        examples: training examples.
        size: examples per batch; the last batches may be smaller.
        order: source of randomness.
        length: length of an example.

    >>> found = list(batches(["a", "bbb", "cc"], 2, random.Random(0), len))
    >>> sorted(text for batch in found for text in batch)
    ['a', 'bbb', 'cc']
    """
    shuffled = order.sample(examples, len(examples))
    for start in range(0, len(shuffled), size * POOL):
        pool = sorted(shuffled[start : start + size * POOL], key=length)
        parts = [pool[i : i + size] for i in range(0, len(pool), size)]
        yield from order.sample(parts, len(parts))
