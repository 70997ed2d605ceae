"""The texts of items as noise reads them: tokens and labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from medstress.attacks.noise.texts import Side, labels_of
from medstress.core.text import token_spans
from medstress.kinds.kind import Marked, Words


def words_of(text: str, mentions: Iterable[Marked]) -> Words:
    """Return the tokens of a text, and the labels of its entities."""
    spans = token_spans(text)
    return tuple(text[start:end] for start, end in spans), labels_of(spans, mentions)


def two_texts(
    text_a: str, text_b: str, mentions: Mapping[str, tuple[Marked, ...]], side: Side
) -> list[Words]:
    """Return the texts of a pair that noise may change; both for `random`."""
    texts = {"first": (text_a,), "second": (text_b,)}.get(side, (text_a, text_b))
    return [words_of(text, mentions[text]) for text in texts]
