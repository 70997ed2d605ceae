"""Passages of a data set, sentences of running text, and where a text names something.

A sentence ends at `.`, `?` or `!` with any closing brackets and quotes, if white space and then a
capital, a digit, an opening bracket or a quote follow. It does not end after one of
`ABBREVIATIONS`, after a single capital (E. coli), or inside an entity. It also ends at `。`, `！`
or `？`, which no white space follows.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from medstress.core.hashing import content_hash

DECIDES = "passage_decides"
"""Field of a row: false for a passage that does not decide its question."""
ABBREVIATIONS = frozenset(
    (
        *("al", "approx", "ca", "cf", "dr", "e.g", "eg", "fig", "figs", "i.e", "ie", "no", "nos"),
        *("p", "pp", "ref", "refs", "resp", "sp", "spp", "st", "vs"),
    )
)

_END = re.compile(r"[.?!][)\]\"']*(?=\s+[A-Z0-9(\[\"'])|[。！？｡]+[」』）】”’)\]\"']*")
_LOOKBEHIND = 32
"""Characters inspected before a full stop; every abbreviation is shorter."""
_LAST_WORD = re.compile(r"[A-Za-z.]*$")


def sentence_spans(text: str, unbroken: Iterable[tuple[int, int]] = ()) -> list[tuple[int, int]]:
    """Return the offsets of the sentences of a text, without white space at their ends.

    Args:
        text: running text.
        unbroken: ranges that are never split, such as entities.

    >>> text = "It fell (E. coli, see Fig. 2). Why? No."
    >>> [text[start:end] for start, end in sentence_spans(text)]
    ['It fell (E. coli, see Fig. 2).', 'Why?', 'No.']
    """
    starts, ends = _merged(unbroken)
    spans = []
    start = 0
    for found in _END.finditer(text):
        end = found.end()
        before = text[max(start, found.start() - _LOOKBEHIND) : found.start()]
        if _is_abbreviation(before, found.group()):
            continue
        at = bisect_left(starts, end) - 1  # the last range that begins before
        if at >= 0 and end < ends[at]:
            continue
        spans.append((start, end))
        start = end
    spans.append((start, len(text)))
    return [trimmed for span in spans if (trimmed := _trimmed(text, *span))]


def _merged(ranges: Iterable[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Return the starts and ends of ranges in order, overlapping ones merged."""
    starts: list[int] = []
    ends: list[int] = []
    for first, last in sorted(ranges):
        if ends and first < ends[-1]:
            ends[-1] = max(ends[-1], last)
        else:
            starts.append(first)
            ends.append(last)
    return starts, ends


def _is_abbreviation(before: str, ending: str) -> bool:
    if ending[0] != ".":
        return False
    found = _LAST_WORD.search(before)
    word = found.group() if found else ""
    return word.lower() in ABBREVIATIONS or (len(word) == 1 and word.isupper())


def _trimmed(text: str, start: int, end: int) -> tuple[int, int] | None:
    piece = text[start:end]
    left = len(piece) - len(piece.lstrip())
    length = len(piece.strip())
    return (start + left, start + left + length) if length else None


def named_at(text: str, name: str) -> list[tuple[int, int]]:
    """Return where a text names something: whole words, in any case and spacing.

    >>> named_at("Aspirin, not aspirins; low-dose ASPIRIN.", "aspirin")
    [(0, 7), (32, 39)]
    """
    # Most texts do not name it, and this is faster than a search.
    words = name.split()
    if not words or words[0].casefold() not in text.casefold():
        return []
    return [found.span() for found in _pattern(name).finditer(text)]


@lru_cache(maxsize=1024)
def _pattern(name: str) -> re.Pattern[str]:
    words = r"\s+".join(map(re.escape, name.split()))
    return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text."""
    return [text[start:end] for start, end in sentence_spans(text)]


@dataclass(frozen=True, slots=True, eq=False)
class Passages:
    """The distinct passages of a data set, before its sample and limit are drawn.

    They are sorted by their content hash, so that what is drawn from them depends on which
    passages the data set has, and on neither the order of its rows nor `--limit`.
    """

    texts: tuple[str, ...] = ()
    """The passages; they are those of the items, not copies."""

    @classmethod
    def of(cls, passages: Iterable[str]) -> Passages:
        """Return passages without empty and repeated ones, in order."""
        return cls(tuple(sorted({each for each in passages if each.strip()}, key=content_hash)))

    @property
    def hash(self) -> str:
        """Content hash of the passages."""
        return content_hash(list(self.texts))

    def naming(self, name: str) -> tuple[int, ...]:
        """Return the indices of the passages that name something, ascending."""
        return _naming(self, name)


@lru_cache(maxsize=4096)
def _naming(passages: Passages, name: str) -> tuple[int, ...]:
    return tuple(i for i, text in enumerate(passages.texts) if named_at(text, name))
