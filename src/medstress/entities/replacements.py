"""Other names for the mentions of a corpus: synonyms, near names, abbreviations, stand-ins."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import numpy as np

from medstress.core.errors import UsageError
from medstress.core.sentences import entities_of
from medstress.core.text import join_tokens, tokenise
from medstress.entities.embeddings import Embedder
from medstress.entities.names import folded
from medstress.entities.recognisers import MAX_INITIALS, is_initials
from medstress.entities.synonyms import concept_rows
from medstress.entities.vocabularies import Vocabulary, load_vocabulary

Tokens: TypeAlias = tuple[str, ...]
Replacements: TypeAlias = dict[str, tuple[Tokens, ...]]
"""Mention (tokens joined by spaces, in lower case) -> tokens of its other names, best first."""

BUILT_IN = {"chem": "drugs", "drug": "drugs", "dis": "diseases"}
"""First letters of an entity type -> the built-in vocabulary with its names."""


class ConceptNames:
    """Finds the concepts of a name regardless of plural, hyphens, case and accents."""

    def __init__(self, rows: Iterable[tuple[str, str]]) -> None:
        """Read (concept, name) rows; the names of a concept keep their order."""
        self._names: dict[str, list[str]] = {}
        self._concepts: dict[str, list[str]] = {}
        for concept, name in rows:
            known = self._concepts.setdefault(folded(name), [])
            if concept not in known:
                known.append(concept)
            self._names.setdefault(concept, []).append(name)

    def others(self, mention: str, kind: str = "") -> list[str]:
        """Return the names of the mention's concepts, without spelling variants of the mention.

        Args:
            mention: a name.
            kind: prefix of the identifiers of the concepts to use.

        >>> rows = [("1", "Aspirin"), ("1", "acetylsalicylic acid"), ("2", "Ibuprofen")]
        >>> ConceptNames(rows).others("aspirins")
        ['acetylsalicylic acid']
        """
        own = folded(mention)
        names = [
            name
            for concept in self._concepts.get(own, ())
            if concept.startswith(kind)
            for name in self._names[concept]
        ]
        distinct = {folded(name): name for name in reversed(names)}
        return [
            name
            for name in dict.fromkeys(names)
            if folded(name) not in ("", own) and distinct[folded(name)] == name
        ]


def strict_names(mentions: Mapping[str, str], source: str, base: Path) -> Replacements:
    """Return other names of the same concepts, in lower case and tokenised.

    In the shipped tables, chemicals are looked up among drugs and diseases among diseases.

    Args:
        mentions: tokens joined by spaces, in lower case -> type.
        source: as for `load_synonyms`.
        base: folder that a relative path starts from.

    Raises:
        UsageError: the source is missing or malformed.
    """
    return _table(mentions, source, base, lambda _, names: names)


def abbreviations(
    mentions: Mapping[str, str], source: str, base: Path, direction: str
) -> Replacements:
    """Return short forms of long names in capitals, and long forms of short ones in lower case.

    Args:
        mentions: tokens joined by spaces, in lower case -> type.
        source: as for `load_synonyms`.
        base: folder that a relative path starts from.
        direction: `expand`, `contract` or `both`.

    Raises:
        UsageError: the source is missing or malformed.
    """

    def related(mention: str, names: Sequence[str]) -> list[str]:
        found: list[str] = []
        if direction != "contract":
            found += [name.lower() for name in names if is_short_form(mention, name)]
        if direction != "expand":
            found += [name.upper() for name in names if is_short_form(name, mention)]
        return found

    return _table(mentions, source, base, related, lower=False)


def is_short_form(name: str, other: str) -> bool:
    """True if a name of two to eight letters consists of the initials of another.

    >>> is_short_form("MI", "myocardial infarction"), is_short_form("heart attack", "MI")
    (True, False)
    """
    return 2 <= len(name) <= MAX_INITIALS and is_initials(name.lower(), other)


def related_names(
    mentions: Mapping[str, str],
    vocabulary: str | None,
    embedding: str,
    base: Path,
    is_candidate: Callable[[Sequence[str]], Sequence[bool]] | None = None,
) -> Replacements:
    """Return for each mention the nearest other name of a vocabulary, in lower case.

    Args:
        mentions: tokens joined by spaces, in lower case -> type.
        vocabulary: `drugs`, `diseases` or a path; None: the built-in one of the type.
        embedding: as in `[[entities]]`; the nearest name has the largest cosine.
        base: folder that a relative path starts from.
        is_candidate: tells which names of a vocabulary may be used; None: all.

    Raises:
        UsageError: a type has no built-in vocabulary, or a file or model is missing.
    """
    chosen = {type_: vocabulary or vocabulary_of_type(type_) for type_ in set(mentions.values())}
    table: Replacements = {}
    for source in sorted(set(chosen.values())):
        texts = [mention for mention, type_ in mentions.items() if chosen[type_] == source]
        names = load_vocabulary(source, base)
        fits = None if is_candidate is None else is_candidate(names.names)
        nearest = _nearest(texts, names, embedding, base, fits)
        table |= {mention: (_lowered(name),) for mention, name in nearest.items()}
    return table


def vocabulary_of_type(type_: str) -> str:
    """Return the built-in vocabulary of an entity type, by the first letters of its name.

    Raises:
        UsageError: the type has none.

    >>> vocabulary_of_type("Chemical")
    'drugs'
    """
    if known := _built_in(type_):
        return known
    raise UsageError(
        f"synonym: no built-in vocabulary has names of the type {type_!r}; set vocabulary = "
        "'drugs', 'diseases' or a file"
    )


def _built_in(type_: str) -> str | None:
    begins = (known for start, known in BUILT_IN.items() if type_.lower().startswith(start))
    return next(begins, None)


def _nearest(
    texts: Sequence[str],
    vocabulary: Vocabulary,
    embedding: str,
    base: Path,
    fits: Sequence[bool] | None,
) -> dict[str, str]:
    embedder = Embedder(embedding, corpus=vocabulary.names, base=base)
    names = embedder.vectors(vocabulary.names)
    readable = [join_tokens(text.split()) for text in texts]
    cosines = embedder.vectors(readable) @ names.T
    known = [folded(name) for name in vocabulary.names]
    nearest = {}
    for text, read, row in zip(texts, readable, cosines, strict=True):
        own = folded(read)
        for place in np.argsort(-row, kind="stable"):
            if row[place] <= 0:
                break
            if known[place] not in ("", own) and (fits is None or fits[place]):
                nearest[text] = vocabulary.names[place]
                break
    return nearest


def _table(
    mentions: Mapping[str, str],
    source: str,
    base: Path,
    chosen: Callable[[str, Sequence[str]], Sequence[str]],
    *,
    lower: bool = True,
) -> Replacements:
    readable = {mention: join_tokens(mention.split()) for mention in mentions}
    # Also without a final s, so that a file that lists the singular is searched for a plural.
    needed = {name for read in readable.values() for name in (read, read.removesuffix("s"))}
    known = _known(source, base, frozenset(needed))
    table: Replacements = {}
    for mention, read in readable.items():
        kind = _built_in(mentions[mention]) if source == "default" else None
        if names := chosen(read, known.others(read, f"{kind}:" if kind else "")):
            tokens = (_lowered(name) if lower else tokenise(name) for name in names)
            table[mention] = tuple(dict.fromkeys(tokens))
    return table


def _known(source: str, base: Path, needed: frozenset[str]) -> ConceptNames:
    return (
        _shipped() if source == "default" else ConceptNames(concept_rows(source, base, needed)[2])
    )


@cache
def _shipped() -> ConceptNames:
    return ConceptNames(concept_rows("default", Path())[2])


def _lowered(name: str) -> Tokens:
    return tokenise(name.lower())


def defined_abbreviations(
    sentences: Iterable[tuple[Sequence[str], Sequence[str]]], direction: str
) -> Replacements:
    """Return the short forms of long mentions as written, and long forms in lower case.

    Args:
        sentences: (tokens, IOB2 labels) of the whole corpus.
        direction: `expand`, `contract` or `both`.

    Returns:
        Mention in lower case -> its other forms, in the order of their definitions.

    >>> tokens = "Myocardial infarction ( MI ) was rare".split()
    >>> labels = ["B-D", "I-D", "O", "B-D", "O", "O", "O"]
    >>> defined_abbreviations([(tokens, labels)], "both")
    {'mi': (('myocardial', 'infarction'),), 'myocardial infarction': (('MI',),)}
    """
    found: dict[str, dict[Tokens, None]] = {}
    for tokens, labels in sentences:
        for first, second in pairwise(entities_of(labels)):
            is_bracketed = (
                second.start == first.end + 1
                and second.end == second.start + 1 < len(tokens)
                and (tokens[first.end], tokens[second.end]) == ("(", ")")
            )
            long, short = tuple(tokens[first.start : first.end]), tokens[second.start]
            if not (is_bracketed and first.type == second.type and _abbreviates(short, long)):
                continue
            lowered = tuple(token.lower() for token in long)
            if direction != "contract":
                found.setdefault(short.lower(), {})[lowered] = None
            if direction != "expand":
                found.setdefault(" ".join(lowered), {})[(short,)] = None
    return {mention: tuple(names) for mention, names in found.items()}


def _abbreviates(short: str, long: Tokens) -> bool:
    is_short = 2 <= len(short) <= MAX_INITIALS and short.isalnum() and not short.islower()
    return is_short and long[0][:1].lower() == short[0].lower() and len(short) < len("".join(long))


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
