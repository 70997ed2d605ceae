"""Split running text into sentences by a rule that needs no model.

A sentence ends at `.`, `?` or `!` with any closing brackets and quotes, if white space and then a
capital, a digit, an opening bracket or a quote follow. It does not end after one of
`ABBREVIATIONS`, after a single capital (E. coli), or inside an entity.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable

ABBREVIATIONS = frozenset(
    (
        "al",
        "approx",
        "ca",
        "cf",
        "dr",
        "e.g",
        "eg",
        "fig",
        "figs",
        "i.e",
        "ie",
        "no",
        "nos",
        "p",
        "pp",
        "ref",
        "refs",
        "resp",
        "sp",
        "spp",
        "st",
        "vs",
    )
)

_END = re.compile(r"[.?!][)\]\"']*(?=\s+[A-Z0-9(\[\"'])")
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
