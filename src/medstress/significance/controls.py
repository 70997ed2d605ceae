"""The controls of one test, made from the lexicon, from the fuzz's own words, or by a role."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np

from medstress.attacks.controls.neutral import Gate, neutral_controls
from medstress.attacks.controls.scrambled import scrambled_controls
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

    def paraphrases(self, n: int) -> ControlSteps:
        """Write n more paraphrases of the clean item, distinct unless the role repeats itself."""


@dataclass(slots=True, kw_only=True)
class Controls:
    """The controls of one success."""

    fuzz: Candidate
    """The tested edit; only scrambled controls use its words."""
    slots: Sequence[Slot]
    """The fuzz's insertions without their words."""
    rng_of: RngOf
    """Makes the random streams."""
    gate: Gate
    """The check that every neutral control must pass."""
    writer: Writer | None = None
    """Writes paraphrases, and neutral controls if `written`; None without a role."""
    written: bool = False
    """True if the writer makes neutral insertions, False if the lexicon does."""
    panel: Panel | None = None
    """Judges who must still pick the key on a control; None without a panel."""
    _drawn: Iterator[Candidate] | None = None
    _n_starts: int = 0
    _scrambles: Iterator[Candidate] | None = None

    @property
    def item(self) -> Question:
        """The clean item."""
        return self.fuzz.item

    def neutral(self, n: int) -> ControlSteps:
        """Return the next n neutral controls; none repeats in a test until all are used up.

        The attempts of loops also come from here. If loops drew again from a fixed pool, they
        would be alike, and a success unlike the few texts of the pool would look too rare.

        Raises:
            TrialError: no control can be made.
        """
        if self.written:
            return (yield from self._role_writer().neutral(n))
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

    def scrambled(self, n: int) -> ControlSteps:
        """Return the next n scrambled controls."""
        yield from ()
        if self._scrambles is None:
            self._scrambles = scrambled_controls(self.fuzz, self.rng_of("scrambled", 0))
        return list(islice(self._scrambles, n))

    def paraphrases(self, n: int) -> ControlSteps:
        """Return the next n paraphrases."""
        return (yield from self._role_writer().paraphrases(n))

    def _role_writer(self) -> Writer:
        if self.writer is None:
            raise TrialError("these controls are written by a role: add a [role.attacker] table")
        return self.writer
