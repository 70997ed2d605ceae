"""Other names for the mentions of a corpus: synonyms, near names and abbreviations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np

from medstress.core.errors import UsageError
from medstress.core.text import join_tokens, tokenise
from medstress.entities.embeddings import Embedder
from medstress.entities.names import folded
from medstress.entities.recognisers.gazetteer import MAX_INITIALS, is_initials
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
