"""Draws without replacement from pools that are too large to be listed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.random import Generator


def in_random_order(n: int, rng: Generator) -> Iterator[int]:
    """Yield 0 to n - 1 in random order, each order equally likely.

    A shuffle that exchanges places only when they are drawn: time and memory grow with what is
    taken, and what is drawn does not depend on how many are taken. n may be larger than 2**63.

    >>> from numpy.random import default_rng
    >>> sorted(in_random_order(5, default_rng(0)))
    [0, 1, 2, 3, 4]
    """
    moved: dict[int, int] = {}
    for i in range(n):
        j = i + _below(n - i, rng)
        yield moved.get(j, j)
        moved[j] = moved.pop(i, i)


_LARGEST = 2**62


def _below(n: int, rng: Generator) -> int:
    """Return a whole number from 0 to n - 1."""
    if n <= _LARGEST:
        return int(rng.integers(n))
    value, size = 0, 1
    while size < n * _LARGEST:  # so many digits that the remainder favours none noticeably
        value, size = value * _LARGEST + int(rng.integers(_LARGEST)), size * _LARGEST
    return value % n


def digits(number: int, bases: Sequence[int]) -> list[int]:
    """Write a number in mixed bases, the last digit first: one choice for each place.

    >>> digits(11, [2, 3, 4])
    [1, 2, 1]
    """
    found = []
    for base in bases:
        number, digit = divmod(number, base)
        found.append(digit)
    return found
