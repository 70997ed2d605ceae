"""Place insertions after the words that an attacker names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from medstress.attacks.medfuzz.alignment import Word, words_of
from medstress.attacks.medfuzz.item_edits import field_edits
from medstress.core.errors import MedstressError
from medstress.core.items import Candidate, Question
from medstress.core.text import Edit

_CLOSING = re.compile(r"[.,;:?!)\]\"'’”]+(?=\s|$)")
"""Marks followed by white space: words may be inserted before them."""
_SENTENCE_END = re.compile(r"[.?!][\"'’”)\]]*$")
_MARKS, _LEADS = (".", ",", ";", ":"), (",", ".", ";", ":", ")")
_SHOWN = 60
"""Most characters of an attacker's words that an error quotes."""


class NoPlaceError(MedstressError):
    """The words to insert after do not occur exactly once, or end inside a word."""


def inserted(item: Question, insertions: Sequence[tuple[str, str]]) -> Candidate:
    """Insert texts into the question, each after the words given for it.

    Kinds of quotes and dashes do not count. A whole sentence goes behind the full stop that follows
    the words. A comma or full stop that is already there is not repeated.

    Args:
        item: the original.
        insertions: (words of the question right before the text, text); no words: at the beginning.

    Raises:
        NoPlaceError: with a message for the attacker.

    >>> item = Question(id="q", context="A man coughs.", stem="Why?", options=("Flu", "Cold"),
    ...                 key="A")
    >>> inserted(item, [("A man", ", a teacher,"), ("coughs", "He sings.")]).context
    'A man, a teacher, coughs. He sings.'
    """
    words = words_of(item.question)
    edits = [edit for after, text in insertions for edit in _edit(item, words, after, text.strip())]
    return Candidate(item=item, edits=tuple(sorted(edits, key=lambda e: (e.field, e.start))))


def _edit(item: Question, words: Sequence[Word], after: str, text: str) -> list[Edit]:
    if not any(map(str.isalnum, text)):
        raise NoPlaceError(f"text: {text[:_SHOWN]!r} holds no word")
    if not words_of(after):
        return field_edits(item, 0, 0, f"{text} ")
    at, question = _end_of(words, after), item.question
    rest = _CLOSING.match(question, at)
    if rest is None and question[at : at + 1].strip():
        raise NoPlaceError(f"after {after[-_SHOWN:]!r} it would stand inside a word")
    marks = rest.group() if rest else ""
    if _SENTENCE_END.match(marks) and _SENTENCE_END.search(text) and text[0].isupper():
        at += len(marks)
    elif marks and text.endswith(_MARKS):
        text = text[:-1]
    if question[at - 1] in _MARKS and text.startswith(_MARKS):
        text = text[1:].lstrip()
    lead = "" if text.startswith(_LEADS) else " "
    return field_edits(item, at, at, lead + text)


def _end_of(words: Sequence[Word], after: str) -> int:
    """Return where words that occur exactly once in a question end."""
    sought, shown = [word.text for word in words_of(after)], after[-_SHOWN:]
    known = [word.text for word in words]
    n = len(sought)
    ends = [i + n for i in range(len(known) - n + 1) if known[i : i + n] == sought]
    if not ends:
        raise NoPlaceError(f"after: the question does not hold the words {shown!r}")
    if len(ends) > 1:
        raise NoPlaceError(f"after: the words {shown!r} stand {len(ends)} times; give more of them")
    return words[ends[0] - 1].end
