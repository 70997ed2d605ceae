"""The controls of one test, made from the lexicon or by a role."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from medstress.attacks.controls.neutral import Gate, neutral_controls
from medstress.attacks.controls.slots import Slot
from medstress.attacks.medfuzz.judges import Panel
from medstress.core.errors import TrialError
from medstress.core.items import Candidate, Question
from medstress.engine.study import Replies

ControlSteps = Generator[Any, Replies, list[Candidate]]
"""Yields requests and returns the controls."""
RngOf = Callable[[str, int], np.random.Generator]
"""(purpose, number) -> random stream of its own."""


class Writer(Protocol):
    """Writes controls with a role."""

    def neutral(self, n: int) -> ControlSteps:
        """Write n more neutral controls, distinct unless the role repeats itself."""


@dataclass(slots=True, kw_only=True)
class Controls:
    """The controls of one success."""

    item: Question
    """The clean item."""
    slots: Sequence[Slot]
    """The fuzz's insertions without their words."""
    rng_of: RngOf
    """Makes the random streams."""
    gate: Gate
    """The check that every neutral control must pass."""
    writer: Writer | None = None
    """Writes them; None if the lexicon does."""
    panel: Panel | None = None
    """Judges who must still pick the key on a control; None without a panel."""
    _drawn: Iterator[Candidate] | None = None
    _n_starts: int = 0

    def neutral(self, n: int) -> ControlSteps:
        """Return the next n neutral controls; none repeats in a test until all are used up.

        The attempts of loops also come from here. If loops drew again from a fixed pool, they
        would be alike, and a success unlike the few texts of the pool would look too rare.

        Raises:
            TrialError: no control can be made.
        """
        if self.writer is not None:
            return (yield from self.writer.neutral(n))
        return [self._next() for _ in range(n)]

    def _next(self) -> Candidate:
        if self._drawn is not None:
            try:
                return next(self._drawn)
            except TrialError:
                # The words for the slots are used up; from here on controls repeat.
                self._n_starts += 1
        rng = self.rng_of("neutral", self._n_starts)
        self._drawn = neutral_controls(self.item, self.slots, rng, self.gate)
        return next(self._drawn)
