"""Other names for the mentions of a corpus: of the same concept, near names, abbreviations.

The rules are those of METHODS 4.5. Other names of a concept come from the shipped table
`other_names`, from a user's table, from UMLS or from an OBO file; near names from a vocabulary, in
an embedding other than the victim's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from medstress.core.errors import UsageError
from medstress.core.sentences import entities_of
from medstress.core.text import join_tokens, tokenise
from medstress.entities.groups import GROUPS
from medstress.entities.names import fold_word, folded, is_acronym, words
from medstress.entities.recognisers import MAX_INITIALS, is_initials
from medstress.entities.vocabularies import concept_rows, load_vocabulary, name_rules, shipped_rows

if TYPE_CHECKING:
    from medstress.entities.embeddings import Embedder

Tokens: TypeAlias = tuple[str, ...]
Replacements: TypeAlias = dict[str, tuple[Tokens, ...]]
"""Mention (tokens joined by spaces, in lower case) -> tokens of its other names, best first."""

OTHER_NAMES = "other_names"
"""The shipped table: columns concept (a MeSH identifier), kind (`drugs` or `diseases`), label
(folded), names (which may be put in, the best first) and keys (all names by which it is found,
folded), both joined by bars."""

LISTED, NEAREST, AMBIGUOUS, DISTANT = "listed", "nearest", "ambiguous", "distant"
"""Where the names of a mention come from; one that names several concepts has none, nor has one to
which no name is near enough (`with_nearest`)."""

_DEGREES = ("acute", "chronic", "failure", "insufficiency", "arrest", "shock", "and")
_KEPT = frozenset(map(fold_word, [*name_rules()["salt"], *_DEGREES]))
_MALIGNANT = re.compile(r"cancer|carcinom|malign|sarcom|leuka?em|lymphom|melanom|myelom|blastom")
_SPELLINGS = {"tumour": "tumor", "leucemi": "leukemi"}
"""Folded words in British spelling that folding leaves apart."""
_STARTS = {"chem": "drugs", "drug": "drugs", "dis": "diseases"}
_SINGULAR = (
    *("ss", "us", "is", "abetes", "herpes", "ascites", "rabies", "scabies", "caries", "measles"),
    *("mumps", "rickets", "shingles", "hives", "aids", "'s"),
)
"""Endings of words that are no plurals."""
_MARKS = re.compile(r"[,;()\[\]{}]")
_NUMBERS = re.compile(r"\d+|\b[ivx]{2,}\b")
_MOST_WORDS, _MOST_CHARACTERS = 5, 40


def may_become(mention: str, name: str) -> bool:
    """Return whether a name of the same concept is another name that may replace a mention.

    Words of salts and of degree (acute, failure) are equal, both names or none speak of a malignant
    tumour, both are plural or none is. Neither name's words contain the other's. The name has no
    comma or bracket, no number that the mention lacks, at most 5 words and 40 characters.

    >>> may_become("paracetamol", "acetaminophen"), may_become("heparin", "heparin sodium")
    (True, False)
    >>> may_become("valproic acid", "sodium valproate"), may_become("seizure", "convulsions")
    (False, False)
    """
    own, other = ([_SPELLINGS.get(word, word) for word in words(text)] for text in (mention, name))
    return (
        bool(other)
        and not (set(own) <= set(other) or set(other) <= set(own) or "".join(own) == "".join(other))
        and _KEPT.intersection(own) == _KEPT.intersection(other)
        and bool(_MALIGNANT.search(mention)) == bool(_MALIGNANT.search(name.lower()))
        and not _MARKS.search(name)
        and set(_NUMBERS.findall(name.lower())) <= set(_NUMBERS.findall(mention.lower()))
        and len(name.split()) <= _MOST_WORDS
        and len(name) <= _MOST_CHARACTERS
        and is_plural(mention) == is_plural(name)
    )


def is_plural(name: str) -> bool:
    """Return whether the last word looks like a plural.

    >>> [is_plural(name) for name in ("seizures", "abscess", "lupus", "diabetes", "gout")]
    [True, False, False, False, False]
    """
    last = name.lower().split()[-1:]
    return bool(last) and last[0].endswith("s") and not last[0].endswith(_SINGULAR)


@dataclass(frozen=True, slots=True)
class Concept:
    """One concept and its names."""

    kind: str
    """`drugs`, `diseases`, or empty where the source does not say."""
    label: str
    """Its preferred name, folded."""
    names: Sequence[str]
    """Those that may be put in, the best first, as written."""


class ConceptNames:
    """Finds the concept of a name regardless of plural, hyphens, case and accents."""

    def __init__(self, concepts: Iterable[tuple[Concept, Iterable[str]]]) -> None:
        """Read concepts, each with the folded names by which it is found."""
        self._concepts: dict[str, list[Concept]] = {}
        for concept, keys in concepts:
            for key in keys:
                self._concepts.setdefault(key, []).append(concept)

    @classmethod
    def load(cls, source: str, base: Path, needed: Collection[str] | None = None) -> ConceptNames:
        """Group the names of a source by concept; the first of each is its preferred one.

        Arguments and errors are those of `load_synonyms`.
        """
        names: dict[str, list[str]] = {}
        for concept, name in concept_rows(source, base, needed)[2]:
            names.setdefault(concept, []).append(name)
        is_ours = source == "default"  # then the concept begins with the table
        return cls(
            (Concept(key.partition(":")[0] if is_ours else "", keys[0], own), dict.fromkeys(keys))
            for key, own in names.items()
            for keys in [[*map(folded, own)]]
        )

    def of_mention(self, mention: str, kind: str | None) -> Sequence[Concept]:
        """Return the concept whose preferred name is the mention, else all that list it."""
        own = folded(mention)
        concepts = [
            concept
            for concept in self._concepts.get(own, ())
            if not kind or concept.kind in ("", kind)
        ]
        preferred = [concept for concept in concepts if concept.label == own]
        return preferred if len(preferred) == 1 else concepts


def shipped_names(needed: Collection[str]) -> ConceptNames:
    """Return the concepts of the shipped table of other names that list a needed name."""
    wanted = set(map(folded, needed))
    return ConceptNames(
        (Concept(kind, label, names.split("|")), keys)
        for _, kind, label, names, joined in shipped_rows(OTHER_NAMES)
        if not wanted.isdisjoint(keys := joined.split("|"))
    )


@cache
def _wide_names() -> ConceptNames:
    """Return all names of the shipped drugs and diseases, short forms too."""
    return ConceptNames.load("default", Path())


def kind_of(type_: str) -> str | None:
    """Return the shipped vocabulary with the names of an entity type, or None.

    >>> [kind_of(type_) for type_ in ("Chemical", "Disease", "T047", "Gene")]
    ['drugs', 'diseases', 'diseases', None]
    """
    starts = (kind for start, kind in _STARTS.items() if type_.lower().startswith(start))
    return next(starts, None) or next((kind for kind in GROUPS if type_ in GROUPS[kind]), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surrogates:
    """Other names of mentions, and where they come from."""

    table: Replacements
    """Mention -> tokens of other names, best first."""
    sources: Mapping[str, str]
    """Mention -> `listed`, `nearest` or, without any name, `ambiguous`."""


def strict_names(
    mentions: Mapping[str, str], source: str, base: Path, without: Collection[str] = ()
) -> Surrogates:
    """Return other names of the same concepts, in lower case and tokenised.

    The concept is the one whose preferred name is the mention, else the only one that lists it.
    Acronyms are put in for nothing, and what a mention in capitals may become, its document says
    (`definitions`).

    Args:
        mentions: tokens joined by spaces, in lower case -> type.
        source: as for `load_synonyms`, but `default` is the table `other_names`.
        base: folder that a relative path starts from.
        without: names that must not be used, after `folded`.

    Raises:
        UsageError: the source is missing or malformed.
    """
    table: Replacements = {}
    sources: dict[str, str] = {}
    for mention, read, concepts in _looked_up(mentions, source, base):
        if len(concepts) > 1:
            sources[mention] = AMBIGUOUS
            continue
        names: dict[str, str] = {}
        for name in concepts[0].names if concepts else ():
            if may_become(read, name) and not is_acronym(name) and folded(name) not in without:
                names.setdefault(folded(name), name)
        if names:
            table[mention] = tuple(dict.fromkeys(tokenise(n.lower()) for n in names.values()))
            sources[mention] = LISTED
    return Surrogates(table=table, sources=sources)


def _looked_up(
    mentions: Mapping[str, str],
    source: str,
    base: Path,
    shipped: Callable[[Collection[str]], ConceptNames] = shipped_names,
) -> Iterator[tuple[str, str, Sequence[Concept]]]:
    """Yield each mention, as it is read, and the concepts that it may name."""
    readable = {mention: join_tokens(mention.split()) for mention in mentions}
    if source == "default":
        concepts = shipped(readable.values())
    else:
        # Also without a final s, so that a file that lists the singular is searched for a plural.
        needed = {name for read in readable.values() for name in (read, read.removesuffix("s"))}
        concepts = ConceptNames.load(source, base, needed)
    for mention, read in readable.items():
        yield mention, read, concepts.of_mention(read, kind_of(mentions[mention]))


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
    for mention, read, concepts in _looked_up(mentions, source, base, lambda _: _wide_names()):
        names = concepts[0].names if len(concepts) == 1 else ()
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


def definitions(tokens: Sequence[str], labels: Sequence[str]) -> Iterator[tuple[Tokens, Tokens]]:
    """Yield (long form, short form), as written, where a text defines a short form.

    Args:
        tokens: of the text.
        labels: their IOB2 labels.

    References:
        Schwartz, Hearst. A simple algorithm for identifying abbreviation definitions in biomedical
        text. Pacific Symposium on Biocomputing, 2003. *Differs from the paper*: both forms are
        gold entities of one type, so a long form, then in brackets a shorter one of one word
        with the same first letter is enough.

    >>> tokens = "Myocardial infarction ( MI ) was rare".split()
    >>> list(definitions(tokens, ["B-D", "I-D", "O", "B-D", "O", "O", "O"]))
    [(('Myocardial', 'infarction'), ('MI',))]
    """
    for first, second in pairwise(entities_of(labels)):
        is_bracketed = (
            second.start == first.end + 1
            and second.end < len(tokens)
            and (tokens[first.end], tokens[second.end]) == ("(", ")")
        )
        long = tuple(tokens[first.start : first.end])
        short = tuple(tokens[second.start : second.end])
        if is_bracketed and first.type == second.type and _abbreviates(join_tokens(short), long):
            yield long, short


def _abbreviates(short: str, long: Tokens) -> bool:
    is_short = 2 <= len(short) <= MAX_INITIALS and " " not in short and not short.islower()
    return is_short and long[0][:1].lower() == short[0].lower() and len(short) < len("".join(long))


def defined_abbreviations(
    texts: Iterable[tuple[Sequence[str], Sequence[str]]], direction: str
) -> Replacements:
    """Return the short forms of long mentions as written, and long forms in lower case.

    Args:
        texts: (tokens, IOB2 labels) of the whole corpus.
        direction: `expand`, `contract` or `both`.

    Returns:
        Mention in lower case -> its other forms, in the order of their definitions.

    >>> tokens = "Myocardial infarction ( MI ) was rare".split()
    >>> defined_abbreviations([(tokens, ["B-D", "I-D", "O", "B-D", "O", "O", "O"])], "both")
    {'mi': (('myocardial', 'infarction'),), 'myocardial infarction': (('MI',),)}
    """
    forms: dict[str, dict[Tokens, None]] = {}
    for tokens, labels in texts:
        for long, short in definitions(tokens, labels):
            lowered = tuple(token.lower() for token in long)
            if direction != "contract":
                forms.setdefault(" ".join(short).lower(), {})[lowered] = None
            if direction != "expand":
                forms.setdefault(" ".join(lowered), {})[short] = None
    return {mention: tuple(names) for mention, names in forms.items()}


LEAST_SIMILARITY = 0.5
"""The least cosine of `ngram` vectors at which a name may stand for a mention that no list has.
Fitted by `data/build/fit_least_similarity.py` on the train split of BC5CDR."""

_WORDS = re.compile(r"[^\W\d_]+")


def with_nearest(
    listed: Surrogates,
    mentions: Mapping[str, str],
    written: Mapping[str, Collection[str]],
    vocabulary: str | None,
    embedding: str,
    base: Path,
    without: Collection[str] = (),
) -> Surrogates:
    """Add the nearest name, which may name something else, of each mention that has no listed one.

    Args:
        listed: names of the mentions' concepts.
        mentions: tokens joined by spaces, in lower case -> type.
        written: mention -> its spellings in the texts; a mention has no nearest name unless one of
            them is a word (`is_word`).
        vocabulary: `drugs`, `diseases` or a path; None: the built-in one of the type.
        embedding: as in `[[entities]]`; below `LEAST_SIMILARITY`, `ngram` gives no name.
        base: folder that relative paths start from.
        without: names that must not be used, after `folded`.

    Raises:
        UsageError: a type has no built-in vocabulary, or a file or model is missing.
    """
    from medstress.entities.embeddings import Embedder

    wanted: dict[str, list[str]] = {}
    for mention, type_ in mentions.items():
        if mention not in listed.table and any(map(is_word, written[mention])):
            source = vocabulary or kind_of(type_)
            if source is None:
                raise UsageError(
                    f"synonym: no built-in vocabulary has names of the type {type_!r}; set "
                    "vocabulary = 'drugs', 'diseases' or a file"
                )
            wanted.setdefault(source, []).append(mention)
    near: Replacements = {}
    for source in sorted(wanted):
        names = load_vocabulary(source, base).names
        near |= _nearest(wanted[source], names, Embedder(embedding, base=base), without)
    distant = {mention: DISTANT for own in wanted.values() for mention in own}
    return Surrogates(
        table=listed.table | near,
        sources={**distant, **listed.sources, **dict.fromkeys(near, NEAREST)},
    )


def _nearest(
    mentions: Sequence[str], names: Sequence[str], embedder: Embedder, without: Collection[str]
) -> Replacements:
    """Return for each mention the name with the largest cosine that is another one, a word."""
    from medstress.entities.embeddings import name_vectors

    # In a vocabulary that is all in capitals, case does not mark acronyms.
    is_upper_case = 2 * sum(map(str.isupper, names)) > len(names)
    forms = [folded(name) for name in names]
    is_barred = np.array(
        [
            form == "" or form in without or not is_word(name.lower() if is_upper_case else name)
            for name, form in zip(names, forms, strict=True)
        ]
    )
    readable = {mention: join_tokens(mention.split()) for mention in mentions}
    space = name_vectors(names, embedder)
    space.prepare(readable.values())
    least = LEAST_SIMILARITY if embedder.embedding == "ngram" else 0.0
    nearest: Replacements = {}
    for mention, read in readable.items():
        similarity = np.nan_to_num(1 - space.distances(read))
        similarity[is_barred] = 0
        own = folded(read)
        for place in np.argsort(-similarity, kind="stable").tolist():
            if similarity[place] <= 0 or similarity[place] < least:
                break
            if forms[place] != own:
                nearest[mention] = (tokenise(names[place].lower()),)
                break
    return nearest


def is_word(name: str) -> bool:
    """Return whether a name has a word of four letters or more that is no acronym.

    >>> [is_word(name) for name in ("HTN", "5-FU", "NaCl", "eye", "AML cells", "gout")]
    [False, False, False, False, True, True]
    """
    return not all(map(is_acronym, _WORDS.findall(name)))
