"""What stands for a synonym: a listed name of the concept, else a near name of a vocabulary.

METHODS 4.5: nearness is measured in an embedding other than the victim's, and never of acronyms or
of names of fewer than four letters, of which an embedding knows no more than how they are spelt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medstress.entities.names import folded
from medstress.entities.recognisers.gazetteer import MAX_INITIALS
from medstress.entities.replacements import (
    Replacements,
    related_names,
    strict_names,
)

LISTED, NEAREST = "listed", "nearest"
"""Where a name comes from."""

_LETTERS = re.compile(r"[^\W\d_]+")
_LEAST = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Surrogates:
    """Other names of mentions, and where they come from."""

    table: Replacements
    """Mention -> tokens of other names, the first first."""
    sources: Mapping[str, str]
    """Mention -> `listed` or `nearest`."""


def listed_first(
    mentions: Mapping[str, str],
    written: Mapping[str, Collection[str]],
    synonyms: str,
    vocabulary: str | None,
    embedding: str,
    base: Path,
    without: Collection[str] = (),
) -> Surrogates:
    """Listed names of each mention; the nearest name of those that have none.

    Args:
        mentions: tokens joined by spaces, in lower case -> type.
        written: mention -> how it stands in the texts; a mention that is nowhere written as a word
            (`is_word`) has no nearest name.
        synonyms: as for `load_synonyms`.
        vocabulary: `drugs`, `diseases` or a path; None: the built-in one of the type.
        embedding: as in `[[entities]]`.
        base: folder that relative paths start from.
        without: names that may not be put in, after `folded`.

    Raises:
        UsageError: no built-in vocabulary for a type, or a missing part.
    """
    listed = {
        mention: kept
        for mention, names in strict_names(mentions, synonyms, base).items()
        if (kept := tuple(name for name in names if folded(" ".join(name)) not in without))
    }
    others = {
        mention: type_
        for mention, type_ in mentions.items()
        if mention not in listed and any(map(is_word, written[mention]))
    }
    near = related_names(others, vocabulary, embedding, base, is_candidate=_candidates(without))
    sources = {**dict.fromkeys(listed, LISTED), **dict.fromkeys(near, NEAREST)}
    return Surrogates(table={**listed, **near}, sources=sources)


def is_word(name: str) -> bool:
    """Whether a name has a word of four letters or more that is not written as an acronym.

    >>> [is_word(name) for name in ("HTN", "5-FU", "NaCl", "eye", "AML cells", "gout")]
    [False, False, False, False, True, True]
    """
    return any(len(word) >= _LEAST and not _is_initials(word) for word in _LETTERS.findall(name))


def _is_initials(word: str) -> bool:
    stem = word.removesuffix("s")
    return len(stem) <= MAX_INITIALS and 2 * sum(map(str.isupper, stem)) >= len(stem)


def _candidates(without: Collection[str]) -> Callable[[Sequence[str]], list[bool]]:
    """Which names of a vocabulary may be put in."""

    def chosen(names: Sequence[str]) -> list[bool]:
        # Of a vocabulary that is written in capitals case says nothing.
        shouts = 2 * sum(map(str.isupper, names)) > len(names)
        return [
            is_word(name.lower() if shouts else name) and folded(name) not in without
            for name in names
        ]

    return chosen
