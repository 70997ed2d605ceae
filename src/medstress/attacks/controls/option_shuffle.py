"""The options in another order: what their places alone are worth to the victim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import factorial
from typing import TYPE_CHECKING, ClassVar

from medstress.attacks.controls.control import Control
from medstress.attacks.controls.shuffled import in_random_order
from medstress.core.items import Candidate, Question
from medstress.core.queries import Predict
from medstress.core.resources import Resources
from medstress.core.text import Edit

if TYPE_CHECKING:
    from numpy.random import Generator


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionShuffle(Control):
    """Ask the question with its options in another order.

    The victim sees the new order, and its answer is read as the option whose text it chose: a
    success is an answer whose text is not the key's. The edits put at every letter whose option
    moved the text that stands there now. A question of n options has n! - 1 variants: 23 for
    four, which is less than four times the default budget, and 5 for three. A victim whose prompt
    lists no options is not attackable.
    """

    name: ClassVar[str] = "option_shuffle"
    edits_only: ClassVar[frozenset[str]] = frozenset(("options",))
    most_bytes: ClassVar[int | None] = 0
    lack: ClassVar[str] = ""  # two options already have another order

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Predict]:
        """Yield all other orders, in random order."""
        for number in in_random_order(factorial(len(item.options)) - 1, rng):
            yield Predict(reordered(item, order_at(number + 1, len(item.options))))

    def n_variants(self, item: Question, resources: Resources) -> int:
        """Return n! - 1 for n options."""
        return factorial(len(item.options)) - 1


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
    return Candidate(
        item=item,
        edits=tuple(
            Edit(
                field=item.letters[at],
                start=0,
                end=len(item.options[at]),
                replacement=item.options[original],
            )
            for at, original in enumerate(order)
            if at != original
        ),
    )
