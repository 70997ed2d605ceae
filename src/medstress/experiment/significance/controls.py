"""Where the controls of one test come from: the lexicon, the fuzz's own words, or a role."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np

from medstress.attacks.controls.neutral import Gate, neutral_controls
from medstress.attacks.controls.scrambled import scrambled_controls
from medstress.attacks.controls.slots import Slot
from medstress.attacks.judges import Panel
from medstress.errors import TrialError
from medstress.items import Candidate, Question
from medstress.scheduler.study import Replies

Making = Generator[Any, Replies, list[Candidate]]
RngOf = Callable[[str, int], np.random.Generator]
"""(what for, number) -> its own stream."""


class Writer(Protocol):
    """A role that writes controls."""

    def neutral(self, n: int) -> Making:
        """Write n further neutral controls, distinct as far as the role has others."""

    def paraphrases(self, n: int) -> Making:
        """Write n further paraphrases of the clean item, likewise."""


@dataclass(slots=True, kw_only=True)
class Controls:
    """The controls of one success."""

    fuzz: Candidate
    """What was tested; its words are used by scrambled controls alone."""
    slots: Sequence[Slot]
    """Its insertions without their words."""
    rng_of: RngOf
    """Streams."""
    gate: Gate
    """What every neutral control must pass."""
    writer: Writer | None = None
    """Writes neutral controls and paraphrases, where a role does."""
    written: bool = False
    """Whether the writer rather than the lexicon makes neutral insertions."""
    panel: Panel | None = None
    """Judges who must still pick the key on a control; None where nobody is asked."""
    _drawn: Iterator[Candidate] | None = None
    _n_starts: int = 0
    _scrambles: Iterator[Candidate] | None = None

    @property
    def item(self) -> Question:
        """The clean item."""
        return self.fuzz.item

    def neutral(self, n: int) -> Making:
        """The next n neutral controls: none twice in the whole test while there are others.

        Attempts of loops come from here too. A pool from which loops drew again would make them
        alike, and a success that none of its few texts equals would look rarer than it is.

        Raises:
            TrialError: nobody can make any.
        """
        if self.written:
            return (yield from self._by_role().neutral(n))
        return [self._next() for _ in range(n)]

    def _next(self) -> Candidate:
        if self._drawn is not None:
            try:
                return next(self._drawn)
            except TrialError:
                # The slots' words are used up: later controls repeat earlier ones.
                self._n_starts += 1
        rng = self.rng_of("neutral", self._n_starts)
        self._drawn = neutral_controls(self.item, self.slots, rng, self.gate)
        return next(self._drawn)

    def scrambled(self, n: int) -> Making:
        """The next n scrambled controls."""
        yield from ()
        if self._scrambles is None:
            self._scrambles = scrambled_controls(self.fuzz, self.rng_of("scrambled", 0))
        return list(islice(self._scrambles, n))

    def paraphrases(self, n: int) -> Making:
        """The next n paraphrases."""
        return (yield from self._by_role().paraphrases(n))

    def _by_role(self) -> Writer:
        if self.writer is None:
            raise TrialError("these controls are written by a role: add a [role.attacker] table")
        return self.writer
