"""One attack with an ask-and-tell interface, for the scheduler, tests, notebooks and workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from medstress.attacks.protocol import Attack
from medstress.core.errors import BudgetExhausted
from medstress.core.items import Edited
from medstress.core.queries import Replies, Step

if TYPE_CHECKING:
    from numpy.random import Generator


class Session:
    """Wraps the generator of one attack on one item.

    Read `step`, answer with `tell`, until `step` is None; then `pick` is the candidate the
    attack prefers.
    """

    def __init__(self, attack: Attack, item: Any, rng: Generator, resources: Any) -> None:
        self._steps = attack.run(item, rng, resources)
        self.step: Step | None = None
        self.pick: Edited | None = None
        self._advance(self._steps.__next__)

    def tell(self, replies: Replies) -> None:
        """Send the answers to the current step, same length and order."""
        self._advance(self._steps.send, replies)

    def refuse(self, remaining: int) -> None:
        """Throw `BudgetExhausted` at the current step, which asks for more than is left."""
        self._advance(self._steps.throw, BudgetExhausted(remaining))

    def close(self) -> None:
        """Close the attack at its current step."""
        self.step = None
        self._steps.close()

    def _advance(self, move: Callable[..., Step], *values: Any) -> None:
        try:
            self.step = move(*values)
        except StopIteration as stop:
            self.step, self.pick = None, stop.value
        except BudgetExhausted:
            self.step = None
        else:
            if self.step is None:
                # None would read as the attack's end, and its next queries would be lost.
                raise TypeError("it yielded None; expected a step")
