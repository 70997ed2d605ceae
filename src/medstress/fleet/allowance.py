"""A worker's share of the caps of the whole run."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

from medstress.engine.progress import Progress
from medstress.fleet.grants import Amounts


class Allowance:
    """What one lease may still ask; more is asked for when it is used up."""

    def __init__(self, ask: Callable[[dict[str, float]], Amounts]) -> None:
        """Begin with nothing.

        Args:
            ask: given what the lease has used, returns all that it is granted.
        """
        self._ask = ask
        self._granted = Amounts(queries=0, tokens=0, usd=0)

    def room(self, progress: Progress, n_in_flight: int) -> int:
        """Return how many more calls may be made now; see `Limits.granted`."""
        room = self._room(progress, n_in_flight)
        if room <= 0:
            used = used_of(progress)
            used["queries"] += n_in_flight
            self._granted = self._ask(used)
            room = self._room(progress, n_in_flight)
        return room

    def _room(self, progress: Progress, n_in_flight: int) -> int:
        granted = self._granted
        if progress.n_tokens >= granted.tokens or progress.usd >= granted.usd:
            return 0
        if math.isinf(granted.queries):
            return sys.maxsize
        return int(granted.queries) - progress.n_computed - n_in_flight


def used_of(progress: Progress) -> dict[str, float]:
    """Return what a lease has used of each cap."""
    return {"queries": progress.n_computed, "tokens": progress.n_tokens, "usd": progress.usd}
