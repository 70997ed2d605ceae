"""Which source reads the rows of a file, by the names of their columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from medstress.core.attacked import FIELD, HEAD
from medstress.datasets.forms.naming import plain_name

Source = Literal["questions", "nli", "pairs", "iob", "attacked"]

_TOKENS = {"tokens"}
_TAGS = {"labels", "nertags", "tags"}
_LABELS = {"label", "goldlabel"}
_UNLABELLED = {"pubid", "context", "longanswer"}
"""PubMedQA where its labels are left out."""
_TEXTS = (
    {"texta", "textb"},
    {"premise", "hypothesis"},
    {"sentence1", "sentence2"},
    {"text1", "text2"},
)


def source_of(columns: Iterable[str]) -> Source:
    """Return what reads rows with these columns; questions, if nothing speaks for another.

    >>> source_of(["premise", "hypothesis", "label"]), source_of(["question", "choices", "answer"])
    ('nli', 'questions')
    """
    given = list(columns)
    names = {plain_name(column) for column in given}
    if {FIELD, HEAD} <= set(given):
        return "attacked"
    if names >= _TOKENS and names & _TAGS:
        return "iob"
    if "finaldecision" in names or names >= {"contexts", "meshes"} or names >= _UNLABELLED:
        return "nli"
    if any(texts <= names for texts in _TEXTS):
        return "nli" if names & _LABELS else "pairs"
    return "questions"
