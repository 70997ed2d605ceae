"""The base of probes and controls: variants of a question, asked in turn."""

from __future__ import annotations

import tomllib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import islice
from math import factorial
from typing import TYPE_CHECKING, Any

from medstress.attacks.protocol import Attack, Validity
from medstress.core.items import Candidate, Question
from medstress.core.queries import Predict, Steps, ask_in_turn
from medstress.core.text import Edit
from medstress.core.validity import EVIDENCE_CHANGED, RULE

if TYPE_CHECKING:
    from numpy.random import Generator


class Variants(Attack):
    """Asks distinct variants of an item in turn, until a success ends it. Write `variants`.

    How many variants are taken changes none of them.
    """

    @abstractmethod
    def variants(self, item: Any, rng: Generator, resources: Any) -> Iterator[Candidate]:
        """Yield the variants in order; nothing beyond the budget is taken."""

    def run(self, item: Any, rng: Generator, resources: Any) -> Steps[Any]:
        """Ask one variant after another."""
        variants = map(Predict, self.variants(item, rng, resources))
        return (yield from ask_in_turn(islice(variants, self.budget)))

    def validity(self, candidate: Candidate, resources: Any) -> Validity:
        """Refute every success if the evidence is changed: a lost answer is then no error."""
        if self.is_judged:
            return Validity(valid=None, reason=RULE)
        return Validity(valid=False, reason=EVIDENCE_CHANGED)


@cache
def shipped(name: str) -> dict[str, Any]:
    """Return a shipped table of words."""
    return tomllib.loads((files("medstress.attacks") / "data" / name).read_text("utf-8"))


def distractors(item: Question) -> str:
    """Return the letters of all options but the key."""
    return item.letters.replace(item.key, "")


def shuffled(letters: str, rng: Generator) -> str:
    """Return letters in random order."""
    return "".join(letters[int(i)] for i in rng.permutation(len(letters)))


def whole(item: Question, field: str, text: str) -> Edit:
    """Return the edit that puts a text in place of a whole field."""
    return Edit(field=field, start=0, end=len(item.text_of(field)), replacement=text)


def order_at(number: int, n: int) -> tuple[int, ...]:
    """Return one of the n! orders of n things; number 0 is 0, 1, ...

    >>> [order_at(i, 3) for i in range(6)]
    [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    """
    left, order = list(range(n)), []
    for size in range(n, 0, -1):
        at, number = divmod(number, factorial(size - 1))
        order.append(left.pop(at))
    return tuple(order)


def reordered(item: Question, order: tuple[int, ...]) -> Candidate:
    """Return the candidate that shows the options in an order, given as original places."""
    edits = tuple(
        whole(item, item.letters[at], item.options[original])
        for at, original in enumerate(order)
        if at != original
    )
    return Candidate(item=item, edits=edits)


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
    written = []
    for base in bases:
        number, digit = divmod(number, base)
        written.append(digit)
    return written
