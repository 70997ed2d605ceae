"""Find the document that each sentence of a file without document marks comes from.

A PubTator file holds the documents. Sentences are compared with them letter by letter without white
space, so tokenisation does not matter. The documents may come in any order, and some of their
sentences may be missing from the file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from medstress.core.errors import DataError
from medstress.core.sentences import TaggedText
from medstress.datasets.documents import Document
from medstress.datasets.pubtator import read_documents

_MAX_PLACES = 10_000
"""A sentence found in this many places, such as a single letter, may belong to any document."""
_LOOKAHEAD = 100
"""Most following sentences used to locate one; it bounds the time that a file can cost."""
_END = "\n"
"""Ends the letters of each document; no sentence contains it."""
_ANYWHERE = [0]
"""The places of a sentence that is found in `_MAX_PLACES` places."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """The sentences of a file with their documents."""

    items: tuple[TaggedText, ...]
    """The sentences; their metadata has `document` where it is known."""
    notes: tuple[str, ...]
    """A sentence with the number of those found in several documents, if there are any."""


def with_documents(items: Sequence[TaggedText], source: Path, path: Path) -> Placed:
    """Add its document to the metadata of every sentence.

    Args:
        items: the sentences of a file, in order.
        source: the file, for messages.
        path: a PubTator file with their documents; its annotations are ignored.

    Raises:
        DataError: `path` is malformed or empty, or none of its documents contains a sentence.
    """
    index = _DocumentIndex(list(read_documents(path)))
    if not index.ids:
        raise DataError(f"{path}: expected documents in PubTator format, got none; give another")
    documents, missing = index.documents_of(["".join(item.tokens) for item in items])
    if missing:
        first = items[missing[0]]
        raise DataError(
            f"{source}: {len(missing):,} of {len(items):,} sentences are in no document of "
            f"{path}; the first is sentence {first.id!r}, {' '.join(first.tokens)[:60]!r}; set "
            "the key 'documents' to the file that the sentences come from, or leave it out"
        )
    n_unknown = documents.count(None)
    return Placed(
        items=tuple(
            item
            if document is None
            else replace(item, metadata={**item.metadata, "document": document})
            for item, document in zip(items, documents, strict=True)
        ),
        notes=(
            f"{source}: {n_unknown:,} sentences are in several documents of {path}; their document "
            "stays unknown",
        )
        if n_unknown
        else (),
    )


class _DocumentIndex:
    """The letters of all documents joined into one text, to search sentences in."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.ids: list[str] = []
        self._starts: list[int] = []
        texts, at = [], 0
        for document in documents:
            texts.append("".join(document.text.split()) + _END)
            self.ids.append(document.id)
            self._starts.append(at)
            at += len(texts[-1])
        self._text = "".join(texts)
        self._anywhere: set[str] = set()

    def documents_of(self, sentences: Sequence[str]) -> tuple[list[str | None], list[int]]:
        """Return the document of each sentence (None: ambiguous), and the sentences in none."""
        documents: list[str | None] = []
        places: list[list[int]] = []
        next_start: int | None = None
        for number, sentence in enumerate(sentences):
            if next_start is not None and self._text.startswith(sentence, next_start):
                here = [next_start]  # most sentences follow the one before
            else:
                here = self._disambiguated(self._places(sentence), sentences, number)
            places.append(here)
            candidates = {self._document(place) for place in here}
            is_clear = len(candidates) == 1 and here is not _ANYWHERE
            documents.append(candidates.pop() if is_clear else None)
            next_start = here[0] + len(sentence) if is_clear else None
        missing = [number for number, here in enumerate(places) if not here]
        self._fill_from_neighbours(documents, places)
        return documents, missing

    def _places(self, sentence: str) -> list[int]:
        """Return where a sentence begins in the text; `_ANYWHERE` if it is nearly everywhere."""
        if sentence in self._anywhere:
            return _ANYWHERE
        places, at = [], self._text.find(sentence)
        while at >= 0:
            places.append(at)
            if len(places) == _MAX_PLACES:
                self._anywhere.add(sentence)
                return _ANYWHERE
            at = self._text.find(sentence, at + 1)
        return places

    def _disambiguated(self, places: list[int], sentences: Sequence[str], number: int) -> list[int]:
        """Keep the places where the following sentences follow too, while any is left."""
        length = len(sentences[number])
        for following in sentences[number + 1 : number + 1 + _LOOKAHEAD]:
            if len({self._document(place) for place in places}) < 2:
                break
            kept = [p for p in places if self._text.startswith(following, p + length)]
            if not kept:
                break
            places, length = kept, length + len(following)
        return places

    def _fill_from_neighbours(
        self, documents: list[str | None], places: Sequence[Sequence[int]]
    ) -> None:
        """Give an ambiguous sentence the document of both its neighbours, where possible."""
        following = list(documents)
        for number in range(len(documents) - 2, -1, -1):
            following[number] = documents[number] or following[number + 1]
        previous: str | None = None
        for number, here in enumerate(places):
            is_possible = here is _ANYWHERE or previous in {self._document(p) for p in here}
            if documents[number] is None and previous == following[number] and is_possible:
                documents[number] = previous
            previous = documents[number] or previous

    def _document(self, place: int) -> str:
        return self.ids[bisect_right(self._starts, place) - 1]
