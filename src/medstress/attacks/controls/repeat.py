"""Repeats: what asking the same prompt again does to the victim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, ClassVar

from medstress.attacks.controls.control import Control
from medstress.core.items import Candidate, Question
from medstress.core.queries import Predict
from medstress.core.resources import Resources

if TYPE_CHECKING:
    from numpy.random import Generator

FIRST_SAMPLE = 2_000_000
"""Smallest sample index of a repeat: above those of clean answers and of flip checks."""
_LAST_SAMPLE = 2**31
UNLIMITED = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat(Control):
    """Ask the unchanged question again, each time with another sample index.

    A repeat never reads back a stored answer: its calls are calls of their own, in other batches
    than the clean item's. A deterministic victim holds always; one that samples, or whose answers
    depend on the batch, may err. Seeds and items have sample indices of their own, so that
    repeats under two seeds are independent. Nothing is edited, so no item lacks variants.
    """

    name: ClassVar[str] = "repeat"
    most_bytes: ClassVar[int | None] = 0
    lack: ClassVar[str] = ""  # never needed

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Predict]:
        """Yield the clean question without end, with counted sample indices."""
        first = int(rng.integers(FIRST_SAMPLE, _LAST_SAMPLE))
        for sample in count(first):
            yield Predict(Candidate(item=item), sample=sample)

    def n_variants(self, item: Question, resources: Resources) -> int:
        """Return more than any budget."""
        return UNLIMITED
