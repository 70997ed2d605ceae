"""Spans, edits and how edits are applied, words and sentences; pure functions of strings.

A sentence ends at `.`, `?` or `!` with any closing brackets and quotes, if white space and then a
capital, a digit, an opening bracket or a quote follow. It does not end after one of
`ABBREVIATIONS`, after a single capital (E. coli), or inside an entity. It also ends at `。`, `！`
or `？`, which no white space follows.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from typing import Any

from medstress.core.frozen import fast_init

WHOLE = "item"
"""The unit of a trial that is about the whole item."""


@fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One replacement in one field of an item."""

    field: str
    """An option letter, `context` or `stem`; `tokens`; `text_a` or `text_b`."""
    start: int
    """First character replaced, in the original field text; for `tokens` the first token."""
    end: int
    """One past the last character replaced."""
    replacement: str
    """The new text, in its final case."""


def edit_rows(edits: Iterable[Edit]) -> list[list[Any]]:
    """Return edits as JSON values: field, start, end and replacement of each."""
    return [[edit.field, edit.start, edit.end, edit.replacement] for edit in edits]


def edits_of(rows: Iterable[Sequence[Any]]) -> tuple[Edit, ...]:
    """Return edits from JSON values, the inverse of `edit_rows`."""
    if not rows:  # most trials
        return ()
    return tuple(
        Edit(field=name, start=start, end=end, replacement=replacement)
        for name, start, end, replacement in rows
    )


_PLACE = attrgetter("start", "end")
_NO_WORD = re.compile(r"[\W_]+")


def apply_edits(text: str, edits: Collection[Edit]) -> str:
    """Apply non-overlapping edits, given in the offsets of the original `text`.

    Raises:
        ValueError: a span lies outside the text, or two spans overlap.

    >>> apply_edits("Take aspirin.", [Edit(field="A", start=5, end=12, replacement="ibuprofen")])
    'Take ibuprofen.'
    """
    pieces: list[str] = []
    position = 0
    for edit in sorted(edits, key=_PLACE) if len(edits) > 1 else edits:
        if not position <= edit.start <= edit.end <= len(text):
            raise ValueError(f"edit [{edit.start}, {edit.end}) overlaps or leaves the text")
        pieces += (text[position : edit.start], edit.replacement)
        position = edit.end
    pieces.append(text[position:])
    return "".join(pieces)


_OF_WORDS = frozenset(("Lu", "Ll", "Lt", "Nd", "Mn", "Mc", "Me"))
"""Unicode categories of characters that make up words: letters with case, digits, accents."""


MAX_DISTANCE = 10_000
"""Largest distance that is counted: no edit of a question is as large, and counting is slow."""
_LONGEST_WORD = 100
"""Characters of a cut word that are shown on either side."""


def edit_distance(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the Levenshtein distance of two texts or lists of words, at most `MAX_DISTANCE` + 1.

    >>> edit_distance("aspirin", "aspirins"), edit_distance("a b".split(), "b a".split())
    (1, 2)
    """
    from rapidfuzz.distance import Levenshtein  # slow to import

    return Levenshtein.distance(old, new, score_cutoff=MAX_DISTANCE)


def cut_word(text: str, start: int, end: int) -> str | None:
    """Return the word that a span cuts, with the rest of the span; None if it cuts none.

    A word is a run of letters that have case (Latin, Greek, Cyrillic and so on), digits and
    accents; hyphens, apostrophes and all other marks separate words. Letters without case are
    ignored: Chinese, Japanese and Thai do not separate words, and Korean, Hebrew and Arabic attach
    particles to them.

    >>> cut_word("Ranitidine 50 mg", 0, 3), cut_word("vitamin B12", 0, 9)
    ('Ranitidine', 'vitamin B12')
    >>> cut_word("beta-blocker", 0, 4), cut_word("Crohn's", 0, 5), cut_word("阿司匹林片", 0, 4)
    (None, None, None)
    """
    first, last = start, end
    while start - first < _LONGEST_WORD and _is_inside(text, first):
        first -= 1
    while last - end < _LONGEST_WORD and _is_inside(text, last):
        last += 1
    return None if (first, last) == (start, end) else text[first:last]


def _is_inside(text: str, place: int) -> bool:
    """Whether the characters before and at a place belong to one word."""
    return 0 < place < len(text) and all(
        unicodedata.category(character) in _OF_WORDS for character in text[place - 1 : place + 1]
    )


def join_tokens(tokens: Sequence[str]) -> str:
    """Join tokens to a text, without spaces around hyphens, apostrophes and punctuation.

    >>> join_tokens(tokenise("alpha-methyldopa for Parkinson's disease (3 mg)."))
    "alpha-methyldopa for Parkinson's disease (3 mg)."
    """
    text = tokens[0] if tokens else ""
    for before, token in pairwise(tokens):
        tight = before in _TIGHT_AFTER or token in _TIGHT_BEFORE
        text += token if tight else f" {token}"
    return text


_TIGHT_AFTER = frozenset("-'’/([{")
_TIGHT_BEFORE = frozenset("-'’/)]},.;:%")


def copy_case(replacement: str, original: str) -> str:
    """Give the first character of `replacement` the case of the first of `original`.

    Only the first character changes. Differs from the released code (METHODS 3.4), which
    lower-cases the rest as well and so breaks names such as "DNA polymerase".

    >>> copy_case("warfarin", "Aspirin"), copy_case("DNA", "aspirin"), copy_case("dNA", "Aspirin")
    ('Warfarin', 'dNA', 'DNA')
    """
    if not replacement or not original or not original[0].isalpha():
        return replacement
    first = replacement[0].upper() if original[0].isupper() else replacement[0].lower()
    return first + replacement[1:]


def copy_case_as_released(replacement: str, original: str) -> str:
    """Give `replacement` the case of `original` as the code released with Xian et al. does.

    Capitalised throughout or lower case throughout, which breaks names such as "DNA polymerase";
    `choices = "as_released"` reproduces it for comparison.

    >>> copy_case_as_released("DNA polymerase", "Aspirin"), copy_case_as_released("DNA", "aspirin")
    ('Dna polymerase', 'dna')
    """
    return replacement.capitalize() if original[:1].isupper() else replacement.lower()


_HAN = "\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_HAN += "\U00020000-\U0003ffff"
_KANA = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9d"
_THAI = "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46"
_UNSPACED = _HAN + _KANA + _THAI
"""Characters of scripts that put no spaces between words."""
_ATTACHED = "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u3099\u309a\uff9e\uff9f"
"""Marks that belong to the character before: of Thai vowels and tones, of voiced Kana."""
_TOKEN = re.compile(rf"[{_UNSPACED}][{_ATTACHED}]*|[^\W_{_UNSPACED}]+|[^\s]")


def token_spans(text: str) -> list[tuple[int, int]]:
    """Return the offsets of the tokens of a text.

    A token is a run of letters and digits, or any other single character that is no white space,
    as in the published files of BC5CDR. Han, Kana and Thai have no spaces between words: there a
    token is a character, with the marks that belong to it.

    >>> [text[a:b] for text in ["Parkinson's (2.5-mg)"] for a, b in token_spans(text)]
    ['Parkinson', "'", 's', '(', '2', '.', '5', '-', 'mg', ')']
    >>> tokenise("口服aspirin 5mg")
    ('口', '服', 'aspirin', '5mg')
    """
    return [match.span() for match in _TOKEN.finditer(text)]


def tokenise(text: str) -> tuple[str, ...]:
    """Return the tokens of a text, by the rule of `token_spans`."""
    return tuple(_TOKEN.findall(text))


def comparison_key(text: str) -> str:
    """Return a text without what does not count in comparisons.

    That is case, variants of a letter, white space, invisible marks and punctuation.

    >>> comparison_key("Who works  as a\u00a0BAKER ."), comparison_key("(who works as a baker)")
    ('who works as a baker', 'who works as a baker')
    """
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    seen = "".join(character for character in plain if unicodedata.category(character) != "Cf")
    return _NO_WORD.sub(" ", seen).strip()


# -- Sentences ----------------------------------------------------------------
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
    for match in _END.finditer(text):
        end = match.end()
        before = text[max(start, match.start() - _LOOKBEHIND) : match.start()]
        if _is_abbreviation(before, match.group()):
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
    match = _LAST_WORD.search(before)
    word = match.group() if match else ""
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
    return [match.span() for match in _pattern(name).finditer(text)]


@lru_cache(maxsize=1024)
def _pattern(name: str) -> re.Pattern[str]:
    words = r"\s+".join(map(re.escape, name.split()))
    return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text."""
    return [text[start:end] for start, end in sentence_spans(text)]
