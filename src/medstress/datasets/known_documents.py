"""Which document each sentence of a file without document marks comes from.

The documents are those of a PubTator file. Sentences are compared with them letter by letter, white
space left out, so that tokens may be cut in any way. The file's documents may stand in any order,
and some of their sentences may be missing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from medstress.datasets.documents import Document
from medstress.datasets.pubtator import read_documents
from medstress.errors import DataError
from medstress.sentences import TaggedText

_MOST_PLACES = 10_000
"""A sentence that stands in so many, such as a single letter, may be of any document."""
_AHEAD = 100
"""Sentences after one that may tell where it stands: no file can ask for endless comparing."""
_END = "\n"
"""Ends each document's letters; no sentence holds it."""
_ANYWHERE = [0]
"""Stands for the places of such a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """What became of the sentences of a file."""

    items: tuple[TaggedText, ...]
    """The sentences, their metadata with `document`."""
    notes: tuple[str, ...]
    """How many stand in several documents, so that theirs is unknown."""


def with_documents(items: Sequence[TaggedText], source: Path, path: Path) -> Placed:
    """Give every sentence the document it comes from.

    Args:
        items: the sentences of a file, in its order.
        source: the file, for messages.
        path: a PubTator file with their documents; its annotations do not matter.

    Raises:
        DataError: `path` is malformed or empty, or a sentence stands in none of its documents.
    """
    letters = _Letters(list(read_documents(path)))
    if not letters.ids:
        raise DataError(f"{path}: expected documents in PubTator format, got none; give another")
    found, missing = letters.documents_of(["".join(item.tokens) for item in items])
    if missing:
        first = items[missing[0]]
        raise DataError(
            f"{source}: {len(missing):,} of {len(items):,} sentences stand in no document of "
            f"{path}; the first is sentence {first.id!r}, {' '.join(first.tokens)[:60]!r}: name "
            "the file that the sentences come from with the key 'documents', or leave it out"
        )
    n_unknown = found.count(None)
    return Placed(
        items=tuple(
            item
            if document is None
            else replace(item, metadata={**item.metadata, "document": document})
            for item, document in zip(items, found, strict=True)
        ),
        notes=(
            f"{source}: {n_unknown:,} sentences stand in several documents of {path} and belong to "
            "none",
        )
        if n_unknown
        else (),
    )


class _Letters:
    """The letters of all documents in one text."""

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
        """The document of each sentence, None where several may be; and which stand in none."""
        found: list[str | None] = []
        places: list[list[int]] = []
        after: int | None = None
        for number, sentence in enumerate(sentences):
            if after is not None and self._text.startswith(sentence, after):
                here = [after]  # most sentences follow the one before
            else:
                here = self._narrowed(self._places(sentence), sentences, number)
            places.append(here)
            of = {self._document(place) for place in here}
            found.append(of.pop() if len(of) == 1 and here is not _ANYWHERE else None)
            after = here[0] + len(sentence) if found[-1] is not None else None
        missing = [number for number, here in enumerate(places) if not here]
        self._between(found, places)
        return found, missing

    def _places(self, sentence: str) -> list[int]:
        """Where a sentence stands; `_ANYWHERE` where that is nearly everywhere."""
        if sentence in self._anywhere:
            return _ANYWHERE
        found, at = [], self._text.find(sentence)
        while at >= 0:
            found.append(at)
            if len(found) == _MOST_PLACES:
                self._anywhere.add(sentence)
                return _ANYWHERE
            at = self._text.find(sentence, at + 1)
        return found

    def _narrowed(self, places: list[int], sentences: Sequence[str], number: int) -> list[int]:
        """Of the places of a sentence, those where the next ones follow, as far as that tells."""
        length = len(sentences[number])
        for following in sentences[number + 1 : number + 1 + _AHEAD]:
            if len({self._document(place) for place in places}) < 2:
                break
            kept = [p for p in places if self._text.startswith(following, p + length)]
            if not kept:
                break
            places, length = kept, length + len(following)
        return places

    def _between(self, found: list[str | None], places: Sequence[Sequence[int]]) -> None:
        """A sentence of several documents is of the one that stands before and after it."""
        nexts = list(found)
        for number in range(len(found) - 2, -1, -1):
            nexts[number] = found[number] or nexts[number + 1]
        before: str | None = None
        for number, here in enumerate(places):
            may_be = here is _ANYWHERE or before in {self._document(place) for place in here}
            if found[number] is None and before == nexts[number] and may_be:
                found[number] = before
            before = found[number] or before

    def _document(self, place: int) -> str:
        return self.ids[bisect_right(self._starts, place) - 1]
