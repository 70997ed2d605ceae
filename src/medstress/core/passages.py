"""The passages of a data set, and where a text names something."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from medstress.core.hashing import content_hash
from medstress.core.sentence_splitting import sentence_spans

DECIDES = "passage_decides"
"""Field of a row: false for a passage that does not decide its question."""


def named_at(text: str, name: str) -> list[tuple[int, int]]:
    """Return where a text names something: whole words, in any case and spacing.

    >>> named_at("Aspirin, not aspirins; low-dose ASPIRIN.", "aspirin")
    [(0, 7), (32, 39)]
    """
    # Most texts do not name it, and this is faster than a search.
    words = name.split()
    if not words or words[0].casefold() not in text.casefold():
        return []
    return [found.span() for found in _pattern(name).finditer(text)]


@lru_cache(maxsize=1024)
def _pattern(name: str) -> re.Pattern[str]:
    words = r"\s+".join(map(re.escape, name.split()))
    return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text."""
    return [text[start:end] for start, end in sentence_spans(text)]


@dataclass(frozen=True, slots=True, eq=False)
class Passages:
    """The distinct passages of a data set, before its sample and limit are drawn.

    They are sorted by their content hash, so that what is drawn from them depends on which
    passages the data set has, and on neither the order of its rows nor `--limit`.
    """

    texts: tuple[str, ...] = ()
    """The passages; they are those of the items, not copies."""

    @classmethod
    def of(cls, passages: Iterable[str]) -> Passages:
        """Return passages without empty and repeated ones, in order."""
        return cls(tuple(sorted({each for each in passages if each.strip()}, key=content_hash)))

    @property
    def hash(self) -> str:
        """Content hash of the passages."""
        return content_hash(list(self.texts))

    def naming(self, name: str) -> tuple[int, ...]:
        """Return the indices of the passages that name something, ascending."""
        return _naming(self, name)


@lru_cache(maxsize=4096)
def _naming(passages: Passages, name: str) -> tuple[int, ...]:
    return tuple(i for i, text in enumerate(passages.texts) if named_at(text, name))
