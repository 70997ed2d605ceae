"""Where words go of which an attacker says after which words they stand."""

from __future__ import annotations

import re
from collections.abc import Sequence

from medstress.attacks.alignment import Word, words_of
from medstress.attacks.item_edits import placed
from medstress.errors import MedstressError
from medstress.items import Candidate, Question
from medstress.text import Edit

_CLOSING = re.compile(r"[.,;:?!)\]\"'’”]+(?=\s|$)")
"""Marks behind which white space follows: words may stand before them."""
_SENTENCE_END = re.compile(r"[.?!][\"'’”)\]]*$")
_MARKS, _LEADS = (".", ",", ";", ":"), (",", ".", ";", ":", ")")
_SHOWN = 60
"""Characters of an attacker's words that are said back."""


class NoPlaceError(MedstressError):
    """Words after which something is to stand are not found once, or part a word."""


def inserted(item: Question, told: Sequence[tuple[str, str]]) -> Candidate:
    """Put texts into the question, each after the words that are named.

    Quotes and dashes of either kind are one. A sentence of its own goes behind the full stop that
    follows the words; a comma or full stop that the question has already is not written twice.

    Args:
        item: the original.
        told: (words of the question right before the text, text); no words: at the beginning.

    Raises:
        NoPlaceError: in words for the attacker.

    >>> item = Question(id="q", context="A man coughs.", stem="Why?", options=("Flu", "Cold"),
    ...                 key="A")
    >>> inserted(item, [("A man", ", a teacher,"), ("coughs", "He sings.")]).context
    'A man, a teacher, coughs. He sings.'
    """
    words = words_of(item.question)
    edits = [edit for after, text in told for edit in _edit(item, words, after, text.strip())]
    return Candidate(item=item, edits=tuple(sorted(edits, key=lambda e: (e.field, e.start))))


def _edit(item: Question, words: Sequence[Word], after: str, text: str) -> list[Edit]:
    if not any(map(str.isalnum, text)):
        raise NoPlaceError(f"text: {text[:_SHOWN]!r} holds no word")
    if not words_of(after):
        return placed(item, 0, 0, f"{text} ")
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
    return placed(item, at, at, lead + text)


def _end_of(words: Sequence[Word], after: str) -> int:
    """Where the words end that stand once in a question."""
    sought, shown = [word.text for word in words_of(after)], after[-_SHOWN:]
    known = [word.text for word in words]
    n = len(sought)
    found = [i + n for i in range(len(known) - n + 1) if known[i : i + n] == sought]
    if not found:
        raise NoPlaceError(f"after: the question does not hold the words {shown!r}")
    if len(found) > 1:
        raise NoPlaceError(
            f"after: the words {shown!r} stand {len(found)} times; give more of them"
        )
    return words[found[0] - 1].end
