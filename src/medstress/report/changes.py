"""Mark which words of a text changed."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from functools import lru_cache
from itertools import groupby

_LARGEST_DIFF = 1_000_000
"""Limit of words before times words after; beyond it the whole stretch counts as changed."""

_MOST_PAIRS = 50_000_000
"""Limit of pairs of equal words times words before; takes half a second."""
_PUNCTUATION = string.punctuation + "“”‘’…"
_CHUNK = re.compile(r"\s+|\S+")


class Change(StrEnum):
    """How a stretch of text changed."""

    SAME = "same"
    REMOVED = "removed"
    ADDED = "added"


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of text that was kept, removed or added as a whole."""

    change: Change
    text: str


def mark_changes(before: str, after: str) -> tuple[Segment, ...]:
    """Compare two texts word by word.

    The removed and unchanged segments give `before`; the added and unchanged ones give `after`.

    >>> [s.change + ":" + s.text for s in mark_changes("Give old aspirin.", "Give warfarin.")]
    ['same:Give ', 'removed:old aspirin', 'added:warfarin', 'same:.']
    """
    old, new = _split(before), _split(after)
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    middle = _compare(old[start : len(old) - end], new[start : len(new) - end])
    pieces = [
        (Change.SAME, "".join(old[:start])),
        *middle,
        (Change.SAME, "".join(old[len(old) - end :])),
    ]
    return tuple(_merge([(change, text) for change, text in pieces if text]))


@lru_cache(maxsize=64)
def _split(text: str) -> list[str]:
    """Return `_words` as a list; many texts are compared with one clean prompt."""
    return list(_words(text))


def _words(text: str) -> Iterator[str]:
    """Split into words, the white space between them and the punctuation around them."""
    for chunk in _CHUNK.findall(text):
        bare = chunk.lstrip(_PUNCTUATION)
        word = bare.rstrip(_PUNCTUATION)
        lead, trail = chunk[: len(chunk) - len(bare)], bare[len(word) :]
        yield from (piece for piece in (lead, word, trail) if piece)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many words at the start are equal."""
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _compare(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[Change, str]]:
    if len(old) * len(new) > _LARGEST_DIFF or _alternates(old, new):
        yield Change.REMOVED, "".join(old)
        yield Change.ADDED, "".join(new)
        return
    matcher = SequenceMatcher(str.isspace, old, new, autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag == "equal":
            yield Change.SAME, "".join(old[i:j])
        else:
            yield Change.REMOVED, "".join(old[i:j])
            yield Change.ADDED, "".join(new[k:m])


def _alternates(old: Sequence[str], new: Sequence[str]) -> bool:
    """True if the texts repeat so many common words that comparing takes seconds.

    `SequenceMatcher` visits every pair of equal words once for each stretch that it finds.
    """
    known = Counter(new)
    return sum(known[word] for word in old if not word.isspace()) * len(old) > _MOST_PAIRS


def _merge(pieces: Sequence[tuple[Change, str]]) -> Iterator[Segment]:
    """Join changes separated only by white space and punctuation into one removal and addition."""
    ends = (0, len(pieces) - 1)
    kept = [
        change is Change.SAME and (i in ends or any(map(str.isalnum, text)))
        for i, (change, text) in enumerate(pieces)
    ]
    for same, group in groupby(zip(kept, pieces, strict=True), key=lambda each: each[0]):
        stretch = [piece for _, piece in group]
        for change in (Change.SAME,) if same else (Change.REMOVED, Change.ADDED):
            text = "".join(text for kind, text in stretch if kind in (change, Change.SAME))
            if text:
                yield Segment(change=change, text=text)
