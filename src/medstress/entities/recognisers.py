"""Finding typed entities in texts: a gazetteer, spaCy pipelines, or mentions given in the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from medstress.core.errors import UsageError, did_you_mean
from medstress.core.extras import importing
from medstress.core.hashing import content_hash
from medstress.core.items import TEXTS, Mention, Question
from medstress.core.reading import loading
from medstress.core.text import cut_word
from medstress.entities.groups import GROUPS, SEMANTIC_TYPES
from medstress.entities.names import first_form, forms, split
from medstress.entities.vocabularies import SHIPPED, lines_of_word, shipped_hash

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Span


SUMMARIES: dict[str, str] = {
    "given": "mentions that come with the rows, or with annotations = ...",
    "gazetteer": "longest names of the drug and disease tables and of the group's vocabulary",
    "spacy": "an installed spaCy or scispaCy pipeline (key model); extra: medstress[spacy]",
}
"""One line about each recogniser."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Found:
    """One typed entity in one text."""

    start: int
    """First character."""
    end: int
    """One past the last character."""
    type: str
    """``drugs``, ``diseases`` or a UMLS semantic type identifier."""


def recognise(
    items: Sequence[Question], recogniser: Gazetteer | SpacyPipeline, types: frozenset[str]
) -> tuple[Question, ...]:
    """Replace the items' mentions of `types` by those that the recogniser finds.

    Options, passage, context and stem are searched. Mentions of other types, or without a type,
    stay. An entity that begins or ends inside a word is dropped: a pipeline may split words
    ("10mg"), and replacing a part would break them.

    Args:
        items: items of one data set.
        recogniser: finds the new mentions.
        types: the types to replace; other types it finds are ignored.
    """
    texts = list(dict.fromkeys(text for item in items for _, text in _fields(item)))
    mentions = dict(zip(texts, recogniser.find(texts), strict=True))
    remade = []
    for item in items:
        kept = [mention for mention in item.mentions if mention.type not in types]
        kept += [
            Mention(field=name, start=entity.start, end=entity.end, type=entity.type)
            for name, text in _fields(item)
            for entity in sorted(set(mentions[text]))
            if entity.type in types and cut_word(text, entity.start, entity.end) is None
        ]
        remade.append(item.with_mentions(tuple(kept)))
    return tuple(remade)


def _fields(item: Question) -> list[tuple[str, str]]:
    named = [*zip(item.letters, item.options, strict=True)]
    return [*named, *((name, item.text_of(name)) for name in TEXTS)]


MIN_CHARACTERS = 3
"""Shorter names, and names without a letter, are not searched: too many mean something else."""
MAX_INITIALS = 8
"""Most letters of a word that counts as an abbreviation of its concept's other names."""


class Case(IntEnum):
    """The case a name must have to count as mentioned."""

    ANY = 0
    CAPITALISED = 1
    CAPITALS = 2


_CASES = {str(case.value): case for case in Case}
"""As a shipped table writes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Names of one type."""

    names: Sequence[str]
    """The names as written."""
    type: str
    """Type of all their mentions: ``drugs``, ``diseases`` or a UMLS identifier."""
    case: Case = Case.ANY
    """The case they must have in a text."""


class Gazetteer:
    """Finds names at word boundaries: the leftmost, and of those the longest.

    Words are compared without case, accents, hyphens, possessive 's and plural (`split`).
    A name in several sources is found once with each of their types.

    The shipped tables are in lower case, and a brand (Today) or an abbreviation (AIR) can look like
    an everyday word. So they say that a brand must be capitalised in a text, and that a name of the
    initials of another name of its concept must be in capitals.
    """

    def __init__(self, sources: Iterable[Source] = (), *, with_shipped: bool = False) -> None:
        """Sort the names by their first word; the rest is read when a text has that word.

        Args:
            sources: names.
            with_shipped: whether the names of medstress's two tables are found too.
        """
        self._sources = tuple(sources)
        self._tables = SHIPPED if with_shipped else ()
        self._unread: dict[str, list[tuple[str, str, Case]]] = {}
        for source in self._sources:
            for name in source.names:
                if first_word := first_form(name):
                    named = (name, source.type, source.case)
                    self._unread.setdefault(first_word, []).append(named)
        self._read: dict[str, _Beginning] = {}

    def find(self, texts: Sequence[str]) -> list[list[Found]]:
        """Return the mentions of each text; one of several types comes once for each type."""
        return [list(self._find(text)) for text in texts]

    def spec(self) -> dict[str, Any]:
        """Return name and hash, for the manifest."""
        own = [
            [source.type, source.case, sorted({name.casefold() for name in source.names})]
            for source in self._sources
        ]
        hash_ = content_hash([sorted(own), [shipped_hash(table) for table in self._tables]])
        return {"name": "gazetteer", "hash": hash_}

    def _find(self, text: str) -> Iterator[Found]:
        words = split(text)
        in_text = [word.form for word in words]
        last_end = 0
        for at, word in enumerate(words):
            if word.start < last_end:
                continue
            beginning = self._beginning(word.form)
            # A long name in the wrong case hides no shorter one in the right case.
            for n in beginning.lengths:
                name = tuple(in_text[at : at + n])
                if name not in beginning.names:
                    continue
                end = words[at + len(name) - 1].end
                actual = Case.CAPITALISED if text[word.start].isupper() else Case.ANY
                if text[word.start : end].isupper():
                    actual = Case.CAPITALS
                if types := [
                    type_ for type_, case in beginning.names[name].items() if case <= actual
                ]:
                    last_end = end
                    yield from (Found(start=word.start, end=end, type=type_) for type_ in types)
                    break

    def _beginning(self, first: str) -> _Beginning:
        if first not in self._read:
            names: dict[tuple[str, ...], dict[str, Case]] = {}
            named = list(self._unread.get(first, ()))
            for table in self._tables:
                for line in lines_of_word(table, first):
                    _, name, _, _, written, _ = line.split("\t")
                    named.append((name, table, _CASES[written]))
            has_letter = any(map(str.isalpha, first))
            for name, type_, case in sorted(named, key=itemgetter(1)):
                words = tuple(forms(name))
                # Too many short names and numbers mean something else.
                if len(name.strip()) >= MIN_CHARACTERS and (
                    has_letter or any(map(str.isalpha, "".join(words)))
                ):
                    types = names.setdefault(words, {})
                    types[type_] = min(case, types.get(type_, case))
            lengths = sorted({len(words) for words in names}, reverse=True)
            self._read[first] = _Beginning(names=names, lengths=lengths)
        return self._read[first]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beginning:
    """The names that begin with one word."""

    names: Mapping[tuple[str, ...], Mapping[str, Case]]
    """Compared forms of all their words -> types, and the case that each needs."""
    lengths: Sequence[int]
    """Their numbers of words, the largest first."""


@cache
def shipped_gazetteer() -> Gazetteer:
    """Return the gazetteer of the built-in tables, made once."""
    return Gazetteer(with_shipped=True)


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
    words, reached = forms(other), {0}
    for word in words:
        for at in tuple(reached):
            reached |= {at + n for n in (1, 2) if len(word) >= n and name.startswith(word[:n], at)}
    return name.isalpha() and len(words) > 1 and len(name) in reached


LABELS: dict[str, str] = {
    "CHEMICAL": "drugs",
    "SIMPLE_CHEMICAL": "drugs",
    "DRUG": "drugs",
    "MEDICATION": "drugs",
    "DISEASE": "diseases",
    "DISORDER": "diseases",
    "CANCER": "diseases",
    **{type_: type_ for type_ in (*GROUPS, *SEMANTIC_TYPES)},
}
"""Default types of labels, for scispaCy's and other public pipelines."""

LINKER = "scispacy_linker"
"""Name of scispaCy's linking component."""

_BATCH = 64


class SpacyPipeline:
    """Runs a pipeline over texts; types come from its labels, or from a linked UMLS concept.

    With a linker, an entity has all semantic types of its best-scoring concept, and entities
    without a concept are dropped. *Differs from the annotations of Xian et al. (2025)*, which have
    one type per entity.
    """

    def __init__(
        self,
        model: str,
        base: Path,
        labels: Mapping[str, str] | None = None,
        linker: str | None = None,
    ) -> None:
        """Load the pipeline.

        Args:
            model: the name of an installed pipeline, or the path of a saved one.
            base: folder that a relative path starts from.
            labels: label -> type; default `LABELS`. Entities with other labels are dropped.
            linker: ``umls`` takes the semantic types of linked concepts instead of labels.

        Raises:
            UsageError: spaCy, scispaCy or the pipeline is missing or cannot be loaded, or the
                pipeline lacks the labels.
        """
        self._labels = dict(LABELS if labels is None else labels)
        expected = (*GROUPS, *sorted(SEMANTIC_TYPES))
        for label, type_ in self._labels.items():
            if type_ not in expected:
                raise UsageError(
                    f"labels: {label} = {type_!r}: expected drugs, diseases or a UMLS type "
                    f"identifier such as T047{did_you_mean(type_, expected)}"
                )
        self._linker = linker
        self._nlp = load_pipeline(model, base)
        if linker is not None:
            _add_linker(self._nlp, linker)
            return
        _check_declared(model, declared_labels(self._nlp), self._labels, labels)

    def find(self, texts: Sequence[str]) -> list[list[Found]]:
        """Return the mentions of each text; see `Gazetteer.find`."""
        documents = self._nlp.pipe(texts, batch_size=_BATCH)
        return [
            [
                Found(start=span.start_char, end=span.end_char, type=type_)
                for span in document.ents
                for type_ in self._types(span)
            ]
            for document in documents
        ]

    def spec(self) -> dict[str, Any]:
        """Describe the recogniser; the model by its own metadata, not by its path."""
        meta, declared = self._nlp.meta, declared_labels(self._nlp)
        labels = {k: v for k, v in sorted(self._labels.items()) if not declared or k in declared}
        return {
            "name": "spacy",
            "model": f"{meta['lang']}_{meta['name']} {meta['version']}",
            "labels": None if self._linker else labels,
            "linker": self._linker,
        }

    def _types(self, span: Span) -> Iterator[str]:
        if self._linker is None:
            if span.label_ in self._labels:
                yield self._labels[span.label_]
            return
        # (concept, score) pairs, best first; the concept's `types` are semantic type identifiers.
        for concept, _ in span._.kb_ents[:1]:
            yield from self._nlp.get_pipe(LINKER).kb.cui_to_entity[concept].types  # type: ignore[attr-defined]


Recogniser: TypeAlias = Gazetteer | SpacyPipeline
"""What finds typed entities in texts; the result depends on the texts alone."""


def entity_texts(model: str, texts: Sequence[str], base: Path) -> list[str]:
    """Return the texts of all entities that a pipeline finds, whatever their labels.

    Args:
        model: the name of an installed pipeline, or the path of a saved one.
        texts: the texts to search.
        base: folder that a relative path starts from.

    Raises:
        UsageError: spaCy or the pipeline is missing or cannot be loaded.
    """
    documents = load_pipeline(model, base).pipe(texts, batch_size=_BATCH)
    return [span.text for document in documents for span in document.ents]


def _check_declared(
    model: str, declared: Sequence[str], labels: Mapping[str, str], types: Mapping[str, str] | None
) -> None:
    """Refuse labels that the pipeline lacks, and a pipeline without any known label."""
    if not declared:
        return  # a pipeline need not declare its labels
    for label in types or ():
        if label not in declared:
            raise UsageError(
                f"spaCy pipeline {model!r} has no label {label!r}"
                f"{did_you_mean(label, declared)} (it has: {', '.join(declared)})"
            )
    if not set(declared) & labels.keys():
        raise UsageError(
            f"spaCy pipeline {model!r}: none of its labels ({', '.join(declared)}) is mapped "
            f'to a type; map them, e.g. labels = {{{declared[0]} = "drugs"}}'
        )


def load_pipeline(model: str, base: Path, what: str = "recogniser 'spacy'") -> Language:
    """Load a spaCy pipeline: an installed one by name, or a saved one by its folder.

    Args:
        model: the name or the path.
        base: folder that a relative path starts from.
        what: who needs it, for messages.

    Raises:
        UsageError: spaCy or the pipeline is missing or cannot be loaded.
    """
    with importing(f"the package spacy of {what}", "spacy"):
        import spacy
    folder = base / Path(model).expanduser()
    installed = spacy.util.get_installed_models()
    if model not in installed and not folder.is_dir():
        raise UsageError(
            f"{what}: there is no pipeline {model!r}; give the name of an installed one "
            f"(installed: {', '.join(installed) or 'none'}), or the folder of a saved one"
            f"{did_you_mean(model, installed)}"
        )
    with loading(lambda why: f"spaCy cannot load the pipeline {model!r}: {why}"):
        return spacy.load(model if model in installed else folder)


def _add_linker(nlp: Language, linker: str) -> None:
    if LINKER in nlp.pipe_names:
        return
    try:
        import_module("scispacy.linking")  # registers the component
    except ImportError as error:
        raise UsageError(
            f"linker = {linker!r} needs scispaCy, which is not installed here; it runs in an "
            "environment of its own (constraints-scispacy.txt), with `medstress check DATA --to "
            "FILE`"
        ) from error
    nlp.add_pipe(LINKER, config={"linker_name": linker})


def declared_labels(nlp: Language) -> list[str]:
    """Return the labels that a pipeline declares for entities, sorted; empty without any."""
    labels = {
        label
        for name in nlp.pipe_names
        if "doc.ents" in nlp.get_pipe_meta(name).assigns
        for label in nlp.pipe_labels.get(name, ())
    }
    return sorted(labels)
