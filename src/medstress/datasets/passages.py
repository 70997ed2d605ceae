"""Passages of questions, without the words that give an option away by its letter.

Explanations of exams begin with "Ans. is 'b' i.e., Etomidate" or say "choice C is wrong". A letter
there would tell the victim which option is right without reading, so those words are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from medstress.core.items import Mention, Question

_LETTER = r"[A-Ja-j]"
_IE = r"(?:\s*,?\s*i\.?\s?e\.?\s*,?)?"
_QUOTED = rf"(?:\(\s*{_LETTER}\s*\)|['\"‘“`]\s*{_LETTER}\s*(?:>\s*{_LETTER}\s*)*['\"’”`])"
_BEFORE_IE = rf"[^\w\n]{{0,3}}\d?{_LETTER}(?:\s*>\s*{_LETTER})*[^\w\n]{{0,4}}(?=i\.?\s?e\b)"
_BARE = rf"(?:{_LETTER}(?=\s*(?:[.,:;)\]\-(#>]|Ref\b|$))|[A-J](?=\s+[A-Z]))"
"""A letter that is no article, to judge by what follows it."""
_ANSWER = (
    r"\b(?i:(?:the\s+)?(?:(?:correct|right|best)\s+)?(?:ans|answer|correct)s?)\b[\s.,:)\-=*_]*"
    r"(?:is|are|was|(?:will|would|must|should)\s+be)?[\s.:\-=*_]*"
    rf"(?:{_QUOTED}|{_BEFORE_IE}|{_BARE}|(?i:option)\s*\d\b){_IE}"
)
_NAMED = rf"(?:\(\s*{_LETTER}\s*\)|['\"‘“`]?(?:[A-Jb-j]|\d|a(?=\W?[^\w\s]|\W*$))\b['\"’”`]?)"
_VERDICT = (
    r"(?:(?<=^)|(?<=[.;:\n]\s)|(?<=\b[Ss]o\s))"
    r"[A-J](?:\s*(?:,|&|/|and|or)\s*[A-J])*\s+(?:is|are)\s+(?:the\s+)?"
    r"(?:right|correct|wrong|incorrect|false)"
    r"(?:\s+(?:answer|option|choice)s?\b|(?=\s*(?:[.,;:)]|$|because\b|since\b|as\b)))"
)
_OPTION = (
    r"\b(?i:(?:(?:correct|right|best)\s+)?(?:option|choice|opt)\.?s?)\s*(?:is\s+|[:\-]\s*)?"
    rf"{_NAMED}(?:\s*(?:,|&|/|and|or)\s*{_NAMED})*"
)
_LISTED = (
    r"(?:(?<=^)|(?<=[.;:\n]\s))"
    rf"(?:\(\s*{_LETTER}\s*\)|{_LETTER}\)|[A-J]\s+(?=i\.?\s?e\b)){_IE}"
)
HINT = re.compile(
    rf"(?:{_ANSWER}|{_VERDICT}|\(\s*{_OPTION}\s*\)|{_OPTION}|{_LISTED})"
    r"(?:\s*[.,:;\-]+(?=\s|$|[A-Z(]))?\s*"
)
"""Words that name an option by its letter, with the punctuation after them."""


def without_hints(passage: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Leave out the words of a passage that name an option by its letter.

    Returns:
        The rest, and the places of what was left out in the original.

    >>> without_hints("Ans. is 'b' i.e., Etomidate. Thiopental (choice C) does not.")[0]
    'Etomidate. Thiopental does not.'
    """
    places = tuple(found.span() for found in HINT.finditer(passage))
    pieces, at = [], 0
    for start, end in places:
        pieces.append(passage[at:start])
        at = end
    return "".join([*pieces, passage[at:]]), places


def clean_passages(questions: Sequence[Question]) -> tuple[tuple[Question, ...], tuple[str, ...]]:
    """Remove hints at letters from passages, and passages without text.

    Returns:
        The questions, and one sentence for each kind of change, with its count.
    """
    found, examples, n_empty = [], [], 0
    for item in questions:
        text, places = without_hints(item.passage)
        if places:
            start, end = places[0]
            examples.append(item.passage[start:end].strip())
        if item.passage and not text.strip():
            n_empty, text = n_empty + 1, ""
        if text != item.passage:
            mentions = tuple(_moved(item.mentions, places)) if text else _elsewhere(item.mentions)
            item = replace(item, passage=text, mentions=mentions)
        found.append(item)
    notes = []
    if examples:
        notes.append(
            f"{len(examples)} of {len(questions)} questions have a passage that names an option "
            f"by its letter, such as {examples[0]!r}; those words are left out"
        )
    if n_empty:
        notes.append(
            f"{n_empty} of {len(questions)} questions have a passage without text, which counts "
            "as none"
        )
    return tuple(found), tuple(notes)


def _elsewhere(mentions: Iterable[Mention]) -> tuple[Mention, ...]:
    return tuple(mention for mention in mentions if mention.field != "passage")


def _moved(mentions: Iterable[Mention], places: Sequence[tuple[int, int]]) -> Iterable[Mention]:
    """Yield mentions at their new places, without those that a removed place touches."""
    for mention in mentions:
        if mention.field != "passage":
            yield mention
        elif all(end <= mention.start or mention.end <= start for start, end in places):
            shift = sum(end - start for start, end in places if end <= mention.start)
            yield replace(mention, start=mention.start - shift, end=mention.end - shift)
