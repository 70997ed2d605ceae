"""Edits without meaning: what a harmless change with the same budget does to the victim."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from medstress.attacks.controls.control import Control
from medstress.core.items import Candidate, Question
from medstress.core.passages import ABBREVIATIONS
from medstress.core.queries import Predict
from medstress.core.resources import Resources
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
_GAPS = ("  ", "   ", "\n")
"""What may stand in place of a single space."""
_OPENS = re.compile(
    r"\W*(who(?:m|se)?|which|what|where|when|why|how|the|in|of|all|each|most|this|these|among|for"
    r"|with|if|is|are|does|do|can|name|choose|select|identify)\b",
    re.IGNORECASE,
)
"""A word at the beginning of a stem that means the same in any case."""
_FEW = 400
"""Up to so many variants are listed and put in random order; of more they are drawn."""

Place: TypeAlias = tuple[Edit, ...]
"""The edits of which one may be made at a place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOp(Control):
    """Ask variants of a question that mean exactly what it means.

    An edit is white space between two words (two or three spaces, or a line break, in place of
    one space), a full stop added or removed at the end of the stem, the letter case of the word
    that begins the stem ("which" for "Which"), or a straight quotation mark in place of a
    typographic one and back. A variant has one to three edits (each number is equally likely) at
    places in context and stem. Variants are distinct and drawn without replacement until the
    victim errs or the budget is used. Nothing is edited inside a word or a number, but for that
    one letter; options and passage stay. A question of four words has at least 63 variants.

    Edits are of the item, so that they can be stored and shown as all edits are. What the prompt
    says around the item, such as "Choose the right option", stays: it is the victim's, and no
    edit of an item reaches it.
    """

    name: ClassVar[str] = "no_op"
    edits_only: ClassVar[frozenset[str]] = frozenset(_FIELDS)
    most_bytes: ClassVar[int | None] = 2 * MOST_PLACES
    lack: ClassVar[str] = "it has no place for an edit without meaning"

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Predict]:
        """Yield all variants, in random order."""
        for edits in variants(places(item), rng):
            yield Predict(Candidate(item=item, edits=edits))

    def n_variants(self, item: Question, resources: Resources) -> int:
        """Return the number of variants."""
        return sum(by_size(places(item)))


def by_size(found: Sequence[Place]) -> list[int]:
    """Return how many variants there are of one edit, of two and so on.

    >>> gap = tuple(Edit(field="stem", start=1, end=2, replacement=each) for each in _GAPS)
    >>> by_size([gap, gap, gap]), by_size([gap, gap[:1]])
    ([9, 27, 27], [4, 3])
    """
    counts = [1] + [0] * min(MOST_PLACES, len(found))
    for place in found:  # the elementary symmetric polynomials of the numbers of edits
        for k in range(len(counts) - 1, 0, -1):
            counts[k] += counts[k - 1] * len(place)
    return counts[1:]


def variants(found: Sequence[Place], rng: Generator) -> Iterator[tuple[Edit, ...]]:
    """Yield all variants, in random order, without replacement.

    What is drawn does not depend on how many are taken.
    """
    counts = by_size(found)
    if sum(counts) <= _FEW:
        subsets = chain(*(combinations(found, k + 1) for k in range(len(counts))))
        listed = [edits for subset in subsets for edits in product(*subset)]
        # A race in which each number of edits is equally likely to win, as in the draws below.
        times = [rng.exponential() * counts[len(each) - 1] for each in listed]
        yield from (listed[i] for i in sorted(range(len(listed)), key=times.__getitem__))
        return
    seen: set[tuple[Edit, ...]] = set()
    while len(seen) < sum(counts):
        places = sorted(_distinct(len(found), 1 + int(rng.integers(len(counts))), rng))
        # Not equally likely where places have unequal numbers of edits, which does no harm.
        edits = tuple(found[j][int(rng.integers(len(found[j])))] for j in places)
        if edits not in seen:
            seen.add(edits)
            yield edits


def _distinct(n: int, size: int, rng: Generator) -> set[int]:
    """Draw distinct whole numbers below n; `Generator.choice` takes longer than a query."""
    drawn: set[int] = set()
    while len(drawn) < size:
        drawn.add(int(rng.integers(n)))
    return drawn


def places(item: Question) -> list[Place]:
    """Return all places of an item, with the edits possible there; no two places overlap."""
    found: list[Place] = []
    for name in _FIELDS:
        text = item.text_of(name)
        found += (_place(name, i, *_GAPS) for i in _gaps(text))
        found += (_place(name, i, mark) for i, mark in _quotes(text))
    if opens := _OPENS.match(item.stem):
        at = opens.start(1)
        if item.stem[at + 1 : opens.end()].islower():  # not a word in capitals
            found.append(_place("stem", at, item.stem[at].swapcase()))
    found += ((edit,) for edit in _full_stop(item.stem))
    return found


def _place(field: str, at: int, *texts: str) -> Place:
    return tuple(Edit(field=field, start=at, end=at + 1, replacement=text) for text in texts)


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
