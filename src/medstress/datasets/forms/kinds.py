"""Which source reads the rows of a file, by the names of their columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from medstress.core.attacked import FIELD, HEAD
from medstress.datasets.forms.naming import plain_name

Source = Literal["questions", "pairs", "iob", "attacked"]

_TOKENS = {"tokens"}
_TAGS = {"labels", "nertags", "tags"}
_TEXTS = (
    {"texta", "textb"},
    {"premise", "hypothesis"},
    {"sentence1", "sentence2"},
    {"text1", "text2"},
)


def source_of(columns: Iterable[str]) -> Source:
    """Return what reads rows with these columns; questions, if nothing speaks for another.

    >>> source_of(["sentence1", "sentence2", "score"]), source_of(["question", "choices", "answer"])
    ('pairs', 'questions')
    """
    given = list(columns)
    names = {plain_name(column) for column in given}
    if {FIELD, HEAD} <= set(given):
        return "attacked"
    if names >= _TOKENS and names & _TAGS:
        return "iob"
    if any(texts <= names for texts in _TEXTS):
        return "pairs"
    return "questions"
