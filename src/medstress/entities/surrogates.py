"""Stand-ins for synonyms: a listed name of the concept, else a near name of a vocabulary.

METHODS 4.5: nearness is measured in an embedding other than the victim's. Acronyms and names of
fewer than four letters have no near names, since an embedding knows little but their spelling.
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
_MIN_LETTERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Surrogates:
    """Other names of mentions, and where they come from."""

    table: Replacements
    """Mention -> tokens of other names, best first."""
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
    """Return the listed names of each mention, or the nearest name if none is listed.

    Args:
        mentions: tokens joined by spaces, in lower case -> type.
        written: mention -> its spellings in the texts; a mention has no nearest name unless one of
            them is a word (`is_word`).
        synonyms: as for `load_synonyms`.
        vocabulary: `drugs`, `diseases` or a path; None: the built-in one of the type.
        embedding: as in `[[entities]]`.
        base: folder that relative paths start from.
        without: names that must not be used, after `folded`.

    Raises:
        UsageError: a type has no built-in vocabulary, or a file or model is missing.
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
    """True if a name has a word of four letters or more that is not an acronym.

    >>> [is_word(name) for name in ("HTN", "5-FU", "NaCl", "eye", "AML cells", "gout")]
    [False, False, False, False, True, True]
    """
    words = _LETTERS.findall(name)
    return any(len(word) >= _MIN_LETTERS and not _is_acronym(word) for word in words)


def _is_acronym(word: str) -> bool:
    stem = word.removesuffix("s")
    return len(stem) <= MAX_INITIALS and 2 * sum(map(str.isupper, stem)) >= len(stem)


def _candidates(without: Collection[str]) -> Callable[[Sequence[str]], list[bool]]:
    """Return a function that tells which names of a vocabulary may be used."""

    def are_candidates(names: Sequence[str]) -> list[bool]:
        # In a vocabulary that is all in capitals, case does not mark acronyms.
        is_upper_case = 2 * sum(map(str.isupper, names)) > len(names)
        return [
            is_word(name.lower() if is_upper_case else name) and folded(name) not in without
            for name in names
        ]

    return are_candidates
