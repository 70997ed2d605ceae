"""From a document with entities in characters to tagged sentences.

Sentences by `sentence_splitting`, tokens by `medstress.text.token_spans`. An entity takes every
token it touches; where entities overlap, the one that begins first stays, and of those the longest.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from medstress.datasets.sentence_splitting import sentence_spans
from medstress.sentences import OUTSIDE, TaggedText
from medstress.text import token_spans


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
    """Where each passage begins; no sentence reaches over such a place."""
    annotations: list[Annotation] = field(default_factory=list)
    """In any order; they may overlap."""


@dataclass(slots=True)
class Tally:
    """What does not fit labels of tokens."""

    overlapping: int = 0
    """Entities left out because another covers some of their tokens."""
    crossing: int = 0
    """Entities left out because they reach over the border of a passage."""
    widened: int = 0
    """Entities whose border lies inside a token."""

    parted: int = 0
    """Entities of several parts, which take what stands between them."""

    def notes(self, path: object) -> tuple[str, ...]:
        """One sentence for each kind."""
        said = []
        if self.overlapping:
            said.append(f"{path}: {self.overlapping:,} entities overlap others and were left out")
        if self.crossing:
            said.append(
                f"{path}: {self.crossing:,} entities reach over a passage and were left out"
            )
        if self.widened:
            said.append(f"{path}: {self.widened:,} entities end inside a token and took all of it")
        if self.parted:
            said.append(
                f"{path}: {self.parted:,} entities have several parts and took what stands between"
            )
        return tuple(said)


def tagged_sentences(document: Document, tally: Tally) -> Iterator[TaggedText]:
    """Yield the sentences of a document; ids are the document's and the sentence's number."""
    number, used = 0, 0
    borders = [*document.passages, len(document.text)]
    kept = sorted(document.annotations, key=lambda a: (a.start, -a.end, a.type))
    for first, last in pairwise(borders):
        inside = [a for a in kept if first <= a.start and a.end <= last]
        used += len(inside)
        starts = [a.start for a in inside]
        passage = document.text[first:last]
        whole = [(a.start - first, a.end - first) for a in inside]
        for start, end in sentence_spans(passage, whole):
            spans = [
                (first + start + a, first + start + b) for a, b in token_spans(passage[start:end])
            ]
            if not spans:
                continue
            number += 1
            low, high = (bisect_left(starts, first + place) for place in (start, end))
            here = inside[low:high]
            yield TaggedText(
                id=f"{document.id}.{number}",
                tokens=tuple(document.text[a:b] for a, b in spans),
                labels=_labels(spans, here, tally),
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
