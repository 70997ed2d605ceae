"""Edits without meaning: what a harmless change with the same budget does to the victim."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import comb
from typing import TYPE_CHECKING, ClassVar

from medstress.attacks.controls.control import Control
from medstress.core.items import Candidate, Question
from medstress.core.queries import Predict
from medstress.core.resources import Resources
from medstress.core.sentence_splitting import ABBREVIATIONS
from medstress.core.text import Edit

if TYPE_CHECKING:
    from numpy.random import Generator

MOST_PLACES = 3
"""Most edits of one variant."""
_FIELDS = ("context", "stem")
_SPACE = re.compile(r"(?<=\S) (?=\S)")
_QUOTE = re.compile("[\"“”'‘’]")
_OPENED_AFTER = " ([{-–—/"
_STRAIGHT = {"“": '"', "”": '"', "‘": "'", "’": "'"}
_TYPOGRAPHIC = {'"': ("“", "”"), "'": ("‘", "’")}
_STOP = re.compile(r"(?<![\w.])([^\W\d_]{2,})\)?\.\Z")
_NO_STOP = re.compile(r"[^\W\d_]\)?\Z")
_FEW = 12
"""Up to so many places, all variants are listed and put in random order; else they are drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOp(Control):
    """Ask variants of a question that mean exactly what it means.

    An edit is one more space between two words, a full stop added or removed at the end of the
    stem, or a straight quotation mark in place of a typographic one and back. A variant has one to
    three of them (each number is equally likely), in context and stem. Variants are distinct and
    drawn without replacement until the victim errs or the budget is used. Nothing is edited inside
    a word or a number; options and passage stay. A question of 8 words has at least 63 variants.

    Edits are of the item: the letter case of the prompt's instruction is out of reach.
    """

    name: ClassVar[str] = "no_op"
    edits_only: ClassVar[frozenset[str]] = frozenset(_FIELDS)
    adds_bytes: ClassVar[int | None] = 2 * MOST_PLACES
    lack: ClassVar[str] = "it has no place for an edit without meaning"

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Predict]:
        """Yield all variants, in random order."""
        for edits in variants(places(item), rng):
            yield Predict(Candidate(item=item, edits=edits))

    def n_variants(self, item: Question, resources: Resources) -> int:
        """Return the number of variants."""
        return n_variants(len(places(item)))


def n_variants(n_places: int) -> int:
    """Return the number of variants of an item with so many places.

    >>> n_variants(7)
    63
    """
    return sum(comb(n_places, k) for k in range(1, MOST_PLACES + 1))


def variants(found: Sequence[Edit], rng: Generator) -> Iterator[tuple[Edit, ...]]:
    """Yield all variants, in random order, without replacement.

    What is drawn does not depend on how many are taken.
    """
    n, sizes = len(found), min(MOST_PLACES, len(found))
    if n <= _FEW:
        subsets = list(chain(*(combinations(found, k) for k in range(1, sizes + 1))))
        # A race in which each number of edits is equally likely to win, as in the draws below.
        times = [rng.exponential() * comb(n, len(each)) for each in subsets]
        yield from (subsets[i] for i in sorted(range(len(subsets)), key=times.__getitem__))
        return
    seen: set[tuple[int, ...]] = set()
    while len(seen) < n_variants(n):
        size = 1 + int(rng.integers(sizes))
        chosen = tuple(sorted(int(j) for j in rng.choice(n, size, replace=False)))
        if chosen not in seen:
            seen.add(chosen)
            yield tuple(found[j] for j in chosen)


def places(item: Question) -> list[Edit]:
    """Return every single edit of an item; no two overlap."""
    found: list[Edit] = []
    for name in _FIELDS:
        text = item.text_of(name)
        found += (Edit(field=name, start=i, end=i + 1, replacement="  ") for i in _gaps(text))
        found += (Edit(field=name, start=i, end=i + 1, replacement=q) for i, q in _quotes(text))
    found += _full_stop(item.stem)
    return found


def _gaps(text: str) -> Iterator[int]:
    """Yield the places of single spaces, but of none between two digits (10 000)."""
    for match in _SPACE.finditer(text):
        i = match.start()
        if not (text[i - 1].isdigit() and text[i + 1].isdigit()):
            yield i


def _quotes(text: str) -> Iterator[tuple[int, str]]:
    """Yield the places of quotation marks, with the mark of the other style.

    Apostrophes inside words and marks after digits (inches, 5' ends) do not count.
    """
    for match in _QUOTE.finditer(text):
        i, mark = match.start(), match.group()
        before, after = text[max(i - 1, 0) : i], text[i + 1 : i + 2]
        if before.isdigit() or (before.isalnum() and after.isalnum()):
            continue
        if mark in _STRAIGHT:
            yield i, _STRAIGHT[mark]
        else:
            yield i, _TYPOGRAPHIC[mark][bool(before) and before not in _OPENED_AFTER]


def _full_stop(stem: str) -> list[Edit]:
    """Return the edit that adds or removes the full stop of the stem; none where it may matter.

    It is added after a letter, and removed after a word that is no abbreviation, so that no number
    changes. After any other mark (`?`, `:`, a blank) nothing is added.
    """
    text = stem.rstrip()
    stop = _STOP.search(text)
    if stop is not None and stop[1].casefold() not in ABBREVIATIONS:
        return [Edit(field="stem", start=len(text) - 1, end=len(text), replacement="")]
    if _NO_STOP.search(text):
        return [Edit(field="stem", start=len(text), end=len(text), replacement=".")]
    return []
