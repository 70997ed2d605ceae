"""Turn a document with entities at character offsets into tagged sentences.

`core.passages` finds the sentences, `core.text.token_spans` the tokens. An entity
covers every token it touches. Of overlapping entities the one that begins first is kept, and of
those that begin together the longest.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from medstress.core.passages import sentence_spans
from medstress.core.sentences import OUTSIDE, TaggedText
from medstress.core.text import token_spans


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Annotation:
    """One entity of a document."""

    start: int
    """First character."""
    end: int
    """One past the last."""
    type: str
    """What becomes its label."""


@dataclass(slots=True, kw_only=True)
class Document:
    """A text with entities."""

    id: str
    """Unique within its file."""
    text: str
    """Title and abstract, or passages, with one character between them."""
    passages: Sequence[int] = (0,)
    """Where each passage begins; no sentence crosses from one passage into the next."""
    annotations: list[Annotation] = field(default_factory=list)
    """In any order; they may overlap."""


@dataclass(slots=True)
class Tally:
    """Counts of entities that token labels cannot express as they are."""

    overlapping: int = 0
    """Entities left out because another covers some of their tokens."""
    crossing: int = 0
    """Entities left out because they cross the border of a passage."""
    widened: int = 0
    """Entities that begin or end inside a token."""
    discontinuous: int = 0
    """Entities of several parts, which were labelled with the text between them."""

    def notes(self, path: object) -> tuple[str, ...]:
        """Return one sentence for each count above zero."""
        sentences = {
            "overlap others and were left out": self.overlapping,
            "cross the border of a passage and were left out": self.crossing,
            "begin or end inside a token and were widened to all of it": self.widened,
            "are discontinuous and were joined with the text between their parts": (
                self.discontinuous
            ),
        }
        return tuple(f"{path}: {n:,} entities {what}" for what, n in sentences.items() if n)


def tagged_sentences(document: Document, tally: Tally) -> Iterator[TaggedText]:
    """Yield the sentences of a document; an id is the document's id and the sentence's number."""
    number, used = 0, 0
    borders = [*document.passages, len(document.text)]
    kept = sorted(document.annotations, key=lambda a: (a.start, -a.end, a.type))
    begins = [a.start for a in kept]
    for first, last in pairwise(borders):
        here = kept[bisect_left(begins, first) : bisect_left(begins, last)]
        inside = [a for a in here if a.end <= last]
        used += len(inside)
        starts = [a.start for a in inside]
        passage = document.text[first:last]
        entities = [(a.start - first, a.end - first) for a in inside]
        for start, end in sentence_spans(passage, entities):
            spans = [
                (first + start + a, first + start + b) for a, b in token_spans(passage[start:end])
            ]
            if not spans:
                continue
            number += 1
            low, high = (bisect_left(starts, first + place) for place in (start, end))
            yield TaggedText(
                id=f"{document.id}.{number}",
                tokens=tuple(document.text[a:b] for a, b in spans),
                labels=_labels(spans, inside[low:high], tally),
                metadata={"document": document.id},
            )
    tally.crossing += len(kept) - used


def _labels(
    spans: Sequence[tuple[int, int]], annotations: Sequence[Annotation], tally: Tally
) -> tuple[str, ...]:
    labels = [OUTSIDE] * len(spans)
    starts, ends = [a for a, _ in spans], [b for _, b in spans]
    for entity in annotations:
        touched = range(bisect_right(ends, entity.start), bisect_left(starts, entity.end))
        if not touched or any(labels[n] != OUTSIDE for n in touched):
            tally.overlapping += 1
            continue
        exact = spans[touched[0]][0] == entity.start and spans[touched[-1]][1] == entity.end
        tally.widened += not exact
        for n in touched:
            labels[n] = f"{'B' if n == touched[0] else 'I'}-{entity.type}"
    return tuple(labels)
