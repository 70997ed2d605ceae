"""No attack: the clean answers alone, for runs that are about these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medstress.attacks.protocol import Attack, parameters
from medstress.core.items import Candidate, Question
from medstress.core.queries import Steps
from medstress.core.resources import Resources

if TYPE_CHECKING:
    from numpy.random import Generator


@parameters
class Unasked(Attack):
    """Ask the clean items and nothing else.

    Accuracy, criteria, slices and comparisons of clean answers work as in every run. No item is
    lost, because none is attacked: the summary counts them as never asked.
    """

    name = "none"
    is_random = False
    control = None

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return None: every item has a clean answer."""
        return None

    def run(self, item: Question, rng: Generator, resources: Resources) -> Steps[Candidate | None]:
        """Ask nothing."""
        yield from ()
        return None
