"""Scrambled controls: the fuzz's own words in random order."""

from __future__ import annotations

from collections.abc import Iterator
from math import factorial
from typing import TYPE_CHECKING

from medstress.attacks.controls.neutral import MAX_TRIES
from medstress.attacks.controls.slots import core_of, is_distinct
from medstress.core.errors import TrialError
from medstress.core.items import Candidate
from medstress.core.text import Edit

if TYPE_CHECKING:
    from numpy.random import Generator


def scrambled(fuzz: Candidate, rng: Generator) -> Candidate:
    """Put the words of every insertion in random order, in their place.

    Shows whether an attack works by what it says or by its words and length alone.
    """
    edits = []
    for edit in fuzz.edits:
        lead, core, trail = core_of(edit)
        words = core.split()
        shuffled = " ".join(words[i] for i in rng.permutation(len(words)))
        edits.append(
            Edit(
                field=edit.field,
                start=edit.start,
                end=edit.end,
                replacement=f"{lead}{shuffled}{trail}",
            )
        )
    return Candidate(item=fuzz.item, edits=tuple(edits))


def scrambled_controls(fuzz: Candidate, rng: Generator) -> Iterator[Candidate]:
    """Draw scrambled controls, all distinct and none the fuzz itself.

    Raises:
        TrialError: the words have no further order.
    """
    seen: set[str] = set()
    is_distinct(fuzz, seen, fuzz.item)
    while True:
        for _ in range(MAX_TRIES):
            candidate = scrambled(fuzz, rng)
            if is_distinct(candidate, seen, fuzz.item):
                yield candidate
                break
        else:
            n_words = max((len(core_of(edit)[1].split()) for edit in fuzz.edits), default=0)
            raise TrialError(
                f"insertions of at most {n_words} words have about {factorial(n_words)} orders, "
                f"too few for another scrambled control after {len(seen) - 1}"
            )
