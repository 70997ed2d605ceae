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
        """Write n further distinct neutral controls."""

    def paraphrases(self, n: int) -> Making:
        """Write n further distinct paraphrases of the clean item."""


class Source(Protocol):
    """The attempts of one loop."""

    def draw(self) -> Generator[Any, Replies, Candidate]:
        """The next attempt, unlike those before it in the loop."""


@dataclass(frozen=True, slots=True)
class _FromLexicon:
    """Attempts from the lexicon; the loop starts over where it is exhausted."""

    restart: Callable[[], Iterator[Candidate]]
    held: list[Iterator[Candidate]]

    def draw(self) -> Generator[Any, Replies, Candidate]:
        """The next attempt."""
        yield from ()
        try:
            return next(self.held[0])
        except TrialError:
            # A long loop may use up a short slot's words: later attempts then repeat earlier ones.
            self.held[0] = self.restart()
            return next(self.held[0])


@dataclass(frozen=True, slots=True)
class _FromWriter:
    """Attempts drawn from what a role wrote for all loops of a test."""

    pool: list[Candidate]
    rng: np.random.Generator
    write: Callable[[], Making]

    def draw(self) -> Generator[Any, Replies, Candidate]:
        """The next attempt."""
        if not self.pool:
            self.pool.extend((yield from self.write()))
        return self.pool[int(self.rng.integers(len(self.pool)))]


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
    pool_size: int = 30
    """Controls that the writer makes for all loops together."""
    _pool: list[Candidate] | None = None
    _singles: Iterator[Candidate] | None = None
    _scrambles: Iterator[Candidate] | None = None

    @property
    def item(self) -> Question:
        """The clean item."""
        return self.fuzz.item

    def neutral(self, n: int) -> Making:
        """The next n neutral controls, distinct over the whole test."""
        if self.written:
            return (yield from self._by_role().neutral(n))
        if self._singles is None:
            self._singles = self._neutral("neutral", 0)
        return list(islice(self._singles, n))

    def loop(self, number: int) -> Source:
        """The attempts of the number-th loop, distinct within it as far as there are others."""
        if self.written:
            self._pool = self._pool if self._pool is not None else []
            writer = self._by_role()
            return _FromWriter(
                self._pool, self.rng_of("loop", number), lambda: writer.neutral(self.pool_size)
            )

        def restart() -> Iterator[Candidate]:
            return self._neutral("loop", number)

        return _FromLexicon(restart, [restart()])

    def scrambled(self, n: int) -> Making:
        """The next n scrambled controls."""
        yield from ()
        if self._scrambles is None:
            self._scrambles = scrambled_controls(self.fuzz, self.rng_of("scrambled", 0))
        return list(islice(self._scrambles, n))

    def paraphrases(self, n: int) -> Making:
        """The next n paraphrases."""
        return (yield from self._by_role().paraphrases(n))

    def _neutral(self, what: str, number: int) -> Iterator[Candidate]:
        return neutral_controls(self.item, self.slots, self.rng_of(what, number), self.gate)

    def _by_role(self) -> Writer:
        if self.writer is None:
            raise TrialError("these controls are written by a role: add a [role.attacker] table")
        return self.writer
