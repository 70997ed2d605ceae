"""Dictionary recognition: the longest names of vocabularies that occur in a text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any

from ahocorasick_rs import AhoCorasick, Implementation

from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash
from medstress.entities.recognisers.recogniser import Found
from medstress.entities.recognisers.words import forms, split
from medstress.entities.tables import SHIPPED, shipped_rows

MIN_CHARACTERS = 3
"""Shorter names, and names without a letter, are not searched: too many mean something else."""
MAX_INITIALS = 8
"""Most letters of a word that counts as an abbreviation of its concept's other names."""


class Case(IntEnum):
    """The case a name must have to count as mentioned."""

    ANY = 0
    CAPITALISED = 1
    CAPITALS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Names of one type."""

    names: Sequence[str]
    """The names as written."""
    type: str
    """Type of all their mentions: ``drugs``, ``diseases`` or a UMLS identifier."""
    case: Case = Case.ANY
    """The case they must have in a text."""


@cache
def shipped_sources() -> tuple[Source, ...]:
    """Return the two tables of medstress with all synonyms and brands, typed by table.

    The tables are in lower case, and a brand (Today) or an abbreviation (AIR) can look like an
    everyday word. So a brand must be capitalised in a text, and a name that consists of the
    initials of another name of its concept must be in capitals.
    """
    return tuple(source for table in SHIPPED for source in _shipped(table))


class Gazetteer:
    """Finds names at word boundaries: the leftmost, and of those the longest.

    Words are compared without case, accents, hyphens, possessive 's and plural (`words.split`).
    A name in several sources is found once with each of their types.
    """

    def __init__(self, sources: Iterable[Source]) -> None:
        """Build the automaton.

        Raises:
            UsageError: no source has a name that can be searched.
        """
        known: dict[str, dict[str, Case]] = {}
        for source in sources:
            for name in source.names:
                if (pattern := _pattern(name)) is not None:
                    types = known.setdefault(pattern, {})
                    types[source.type] = min(source.case, types.get(source.type, source.case))
        if not known:
            raise UsageError(
                "recogniser 'gazetteer': expected a name with a letter and at least "
                f"{MIN_CHARACTERS} characters in its vocabularies, got none"
            )
        self._types = [dict(sorted(types.items())) for types in known.values()]
        self._hash = content_hash(sorted([name, types] for name, types in known.items()))
        # The library's default implementation takes 35 s to build for 93,000 names, this one 1 s;
        # both search equally fast.
        self._automaton = AhoCorasick(
            known, store_patterns=False, implementation=Implementation.ContiguousNFA
        )

    def find(self, texts: Sequence[str]) -> list[list[Found]]:
        """Return the mentions of each text; see `Recogniser.find`."""
        return [list(self._find(text)) for text in texts]

    def spec(self) -> dict[str, Any]:
        """Return name, number of names and hash; see `Recogniser.spec`."""
        return {"name": "gazetteer", "n_names": len(self._types), "hash": self._hash}

    def _find(self, text: str) -> Iterator[Found]:
        words = split(text)
        starts: dict[int, int] = {}
        ends: dict[int, int] = {}
        position = 0
        for word in words:
            starts[position] = word.start
            position += len(word.form) + 2
            ends[position] = word.end
        # All matches, not the library's leftmost-longest ones: a long name in the wrong case would
        # hide a shorter one in the right case.
        matches = self._automaton.find_matches_as_indexes(
            _encode(word.form for word in words), overlapping=True
        )
        last_end = 0
        for number, first, last in sorted(matches, key=lambda match: (match[1], -match[2])):
            start, end = starts[first], ends[last]
            if start < last_end:
                continue
            actual = _case_of(text[start:end])
            types = [type_ for type_, case in self._types[number].items() if case <= actual]
            if types:
                last_end = end
            for type_ in types:
                yield Found(start=start, end=end, type=type_)


@cache
def shipped_gazetteer() -> Gazetteer:
    """Return the gazetteer of the built-in tables, built once since it takes seconds."""
    return Gazetteer(shipped_sources())


def _encode(words: Iterable[str]) -> str:
    # A space on either side of every word, so that patterns match whole words only.
    return "".join(f" {word} " for word in words)


def _pattern(name: str) -> str | None:
    words = forms(name)
    if len(name.strip()) < MIN_CHARACTERS or not any(c.isalpha() for c in "".join(words)):
        return None
    return _encode(words)


def _case_of(text: str) -> Case:
    if text.isupper():
        return Case.CAPITALS
    return Case.CAPITALISED if text[0].isupper() else Case.ANY


def _shipped(table: str) -> Iterator[Source]:
    concepts: dict[str, list[str]] = {}
    kinds: dict[str, set[str]] = {}
    for concept, name, kind, _ in shipped_rows(table):
        concepts.setdefault(concept, []).append(name)
        kinds.setdefault(name, set()).add(kind)
    initials = {
        name
        for names in concepts.values()
        for name in _initials(names)
        if "preferred" not in kinds[name]
    }
    by_case: Mapping[Case, list[str]] = {case: [] for case in Case}
    for name, kinds_of_name in kinds.items():
        if name in initials:
            by_case[Case.CAPITALS].append(name)
        else:
            is_brand = kinds_of_name == {"brand"}
            by_case[Case.CAPITALISED if is_brand else Case.ANY].append(name)
    for case, names in by_case.items():
        yield Source(names=names, type=table, case=case)


def _initials(names: Sequence[str]) -> Iterator[str]:
    """Yield the names of one concept that abbreviate another of them."""
    short = [name for name in names if len(name) <= MAX_INITIALS and name.isalpha()]
    if short:
        others = [words for name in names if len(words := forms(name)) > 1]
        yield from (name for name in short if any(_spells(name, words) for words in others))


def is_initials(name: str, other: str) -> bool:
    """True if a name of one word abbreviates another of two or more words.

    Its letters must be the first one or two letters of words of the other name, in order.

    >>> is_initials("copd", "chronic obstructive pulmonary disease")
    True
    >>> is_initials("child", "childhood interstitial lung disease")
    True
    >>> is_initials("gout", "gouty toe")
    False
    """
    words = forms(other)
    return name.isalpha() and len(words) > 1 and _spells(name, words)


def _spells(name: str, words: Sequence[str]) -> bool:
    reached = {0}
    for word in words:
        for at in tuple(reached):
            reached |= {at + n for n in (1, 2) if len(word) >= n and name.startswith(word[:n], at)}
    return len(name) in reached
