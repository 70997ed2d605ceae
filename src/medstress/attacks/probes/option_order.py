"""The options in other orders: an answer should follow its text, not its letter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import factorial
from typing import TYPE_CHECKING, ClassVar

from medstress.attacks.choices import check_budget, check_word
from medstress.attacks.controls.option_shuffle import order_at, reordered
from medstress.attacks.controls.shuffled import in_random_order
from medstress.attacks.probes.options_about_others import about_others
from medstress.attacks.probes.protocol import MAX_BUDGET, QuestionProbe
from medstress.core.items import Candidate, Question
from medstress.core.resources import Resources

if TYPE_CHECKING:
    from numpy.random import Generator

CYCLIC, RANDOM = "cyclic", "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionOrder(QuestionProbe):
    """Ask the question with its options in other orders; answers are read as texts.

    `cyclic`: the options move on by one place, two, and so on, so that with the clean order each
    stands once at each letter: n - 1 variants of n options, the same for all seeds. A victim that
    always says B then has an accuracy of 1 / n over the variants and the clean question together,
    and never answers alike. `random`: distinct orders drawn by the seed, up to the budget, n! - 1
    of them in all.

    An item with an option that speaks of the others ("all of the above", "A and C", "both") is not
    attackable: in another order it may say something else.

    *Differs from the papers.* Pezeshkpour and Hruschka look for the orders that raise or lower
    accuracy most; Zheng et al. use cyclic orders to estimate and remove the bias of each letter.
    Here nothing is searched for and nothing removed.

    References:
        Pezeshkpour and Hruschka, "Large language models sensitivity to the order of options in
        multiple-choice questions", 2023 (arXiv 2308.11483).
        Zheng, Zhou, Meng, Zhou and Huang, "Large language models are not robust multiple choice
        selectors", ICLR 2024.
    """

    name: ClassVar[str] = "option_order"
    edits_only: ClassVar[frozenset[str]] = frozenset(("options",))
    needs_listing: ClassVar[str | None] = (
        "the order of options that it does not see changes nothing"
    )

    orders: str = CYCLIC
    """`cyclic` or `random`."""
    budget: int = 9
    """Most orders asked, 1 to 100; 9 are all cyclic orders of ten options."""

    def __post_init__(self) -> None:
        check_word(self.name, "orders", self.orders, (CYCLIC, RANDOM))
        check_budget(self.name, self.budget, MAX_BUDGET)

    @property
    def most(self) -> int:
        """The budget."""
        return self.budget

    @property
    def deterministic(self) -> bool:
        """Whether the orders are cyclic."""
        return self.orders == CYCLIC

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        letter = about_others(item)
        return None if letter is None else f"option {letter} speaks of the others"

    def most_queries(self, item: Question, resources: Resources) -> int:
        """Return the number of orders, at most the budget."""
        n = len(item.options)
        return min(self.budget, n - 1 if self.orders == CYCLIC else factorial(n) - 1)

    def candidates(
        self, item: Question, rng: Generator, resources: Resources
    ) -> Iterator[Candidate]:
        """Yield the question in one order after another."""
        n = len(item.options)
        if self.orders == CYCLIC:
            for moved in range(1, n):
                yield reordered(item, tuple((at - moved) % n for at in range(n)))
            return
        for number in in_random_order(factorial(n) - 1, rng):
            yield reordered(item, order_at(number + 1, n))
