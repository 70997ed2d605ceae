"""Other names for the mentions of a corpus: synonyms, near names and abbreviations.

A stand-in for a synonym (METHODS 4.5) is a listed name of the concept, else a near name of a
vocabulary. Nearness is measured in an embedding other than the victim's. Acronyms and names of
fewer than four letters have no near names, since an embedding knows little but their spelling.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
from medstress.entities.vocabularies import load_vocabulary

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
    return {
        mention: tuple(dict.fromkeys(tokenise(name.lower()) for name in names))
        for mention, _, names in _of_concepts(mentions, source, base)
    }


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
    table: Replacements = {}
    for mention, read, names in _of_concepts(mentions, source, base):
        forms: list[str] = []
        if direction != "contract":
            forms += [name.lower() for name in names if _is_short_form(read, name)]
        if direction != "expand":
            forms += [name.upper() for name in names if _is_short_form(name, read)]
        if forms:
            table[mention] = tuple(dict.fromkeys(map(tokenise, forms)))
    return table


def _is_short_form(name: str, other: str) -> bool:
    """Whether a name of two to eight letters consists of the initials of another."""
    return 2 <= len(name) <= MAX_INITIALS and is_initials(name.lower(), other)


def _of_concepts(
    mentions: Mapping[str, str], source: str, base: Path
) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each mention that has other names, as it is read, and these names."""
    readable = {mention: join_tokens(mention.split()) for mention in mentions}
    if source == "default":
        concepts = _shipped()
    else:
        # Also without a final s, so that a file that lists the singular is searched for a plural.
        needed = {name for read in readable.values() for name in (read, read.removesuffix("s"))}
        concepts = ConceptNames(concept_rows(source, base, needed)[2])
    for mention, read in readable.items():
        kind = _built_in(mentions[mention]) if source == "default" else None
        if names := concepts.others(read, f"{kind}:" if kind else ""):
            yield mention, read, names


@cache
def _shipped() -> ConceptNames:
    return ConceptNames(concept_rows("default", Path())[2])


def _built_in(type_: str) -> str | None:
    """Return the shipped vocabulary of an entity type, by the first letters of its name."""
    return next((v for start, v in BUILT_IN.items() if type_.lower().startswith(start)), None)


def defined_abbreviations(
    sentences: Iterable[tuple[Sequence[str], Sequence[str]]], direction: str
) -> Replacements:
    """Return the short forms of long mentions as written, and long forms in lower case.

    Args:
        sentences: (tokens, IOB2 labels) of the whole corpus.
        direction: `expand`, `contract` or `both`.

    Returns:
        Mention in lower case -> its other forms, in the order of their definitions.

    References:
        Schwartz, Hearst. A simple algorithm for identifying abbreviation definitions in biomedical
        text. Pacific Symposium on Biocomputing, 2003. *Differs from the paper*: both forms are
        gold entities of one type, so a long form, then in brackets a shorter one of a single token
        with the same first letter is enough.

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
    wanted: dict[str, list[str]] = {}
    for mention, type_ in mentions.items():
        if mention not in listed and any(map(is_word, written[mention])):
            source = vocabulary or _built_in(type_)
            if source is None:
                raise UsageError(
                    f"synonym: no built-in vocabulary has names of the type {type_!r}; set "
                    "vocabulary = 'drugs', 'diseases' or a file"
                )
            wanted.setdefault(source, []).append(mention)
    near: Replacements = {}
    for source in sorted(wanted):
        names = load_vocabulary(source, base).names
        near |= _nearest(
            wanted[source], names, Embedder(embedding, corpus=names, base=base), without
        )
    sources = {**dict.fromkeys(listed, LISTED), **dict.fromkeys(near, NEAREST)}
    return Surrogates(table={**listed, **near}, sources=sources)


def _nearest(
    mentions: Sequence[str], names: Sequence[str], embedder: Embedder, without: Collection[str]
) -> Replacements:
    """Return for each mention the name with the largest cosine that is another one, a word."""
    # In a vocabulary that is all in capitals, case does not mark acronyms.
    is_upper_case = 2 * sum(map(str.isupper, names)) > len(names)
    forms = [folded(name) for name in names]
    is_candidate = [
        form != "" and form not in without and is_word(name.lower() if is_upper_case else name)
        for name, form in zip(names, forms, strict=True)
    ]
    vectors = embedder.vectors(names)
    readable = [join_tokens(mention.split()) for mention in mentions]
    nearest: Replacements = {}
    for mention, read, row in zip(
        mentions, readable, embedder.vectors(readable) @ vectors.T, strict=True
    ):
        own = folded(read)
        for place in np.argsort(-row, kind="stable"):
            if row[place] <= 0:
                break
            if is_candidate[place] and forms[place] != own:
                nearest[mention] = (tokenise(names[place].lower()),)
                break
    return nearest


def is_word(name: str) -> bool:
    """True if a name has a word of four letters or more that is not an acronym.

    >>> [is_word(name) for name in ("HTN", "5-FU", "NaCl", "eye", "AML cells", "gout")]
    [False, False, False, False, True, True]
    """
    for word in _LETTERS.findall(name):
        stem = word.removesuffix("s")
        is_acronym = len(stem) <= MAX_INITIALS and 2 * sum(map(str.isupper, stem)) >= len(stem)
        if len(word) >= _MIN_LETTERS and not is_acronym:
            return True
    return False
