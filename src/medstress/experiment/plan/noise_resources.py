"""Build the resources of noise from a data set."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from medstress.attacks.noise import (
    GAZETTEER,
    Abbreviation,
    Noise,
    NoiseResources,
    Scoped,
    Synonym,
    Tokens,
    listed_places,
    mention_key,
    word_key,
)
from medstress.attacks.noise_control import NonEntityNoise
from medstress.core.clusters import document_of
from medstress.core.errors import UsageError
from medstress.core.items import QUESTIONS, Marked, Question
from medstress.core.sentences import entities_of
from medstress.core.text import join_tokens

if TYPE_CHECKING:
    from medstress.entities.replacements import Surrogates

Tagged: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""Tokens and IOB2 labels of a sentence or text."""


def surrogates(
    kind: Synonym | Abbreviation,
    tagged: Sequence[Tagged],
    base: Path,
    without: Collection[str] = (),
) -> Surrogates:
    """Find other names for the mentions of a corpus, with their sources.

    Args:
        kind: the noise that uses the names.
        tagged: the corpus.
        base: folder that relative paths start from.
        without: names that synonyms must not use, after `folded`.

    Raises:
        UsageError: a table of names is missing or malformed.
    """
    from medstress.entities.replacements import (
        LISTED,
        Surrogates,
        abbreviations,
        defined_abbreviations,
        strict_names,
        with_nearest,
    )

    types: dict[str, str] = {}
    written: dict[str, set[str]] = {}
    for tokens, labels in tagged:
        for entity in entities_of(labels):
            own = tokens[entity.start : entity.end]
            types.setdefault(mention_key(own), entity.type)  # the first type of a mention wins
            written.setdefault(mention_key(own), set()).add(" ".join(own))
    if isinstance(kind, Abbreviation):
        listed = abbreviations(types, kind.synonyms, base, kind.direction)
        # Definitions in the corpus win over the table.
        table = listed | defined_abbreviations(tagged, kind.direction)
        return Surrogates(table=table, sources=dict.fromkeys(table, LISTED))
    made = strict_names(types, kind.synonyms, base, without)
    if kind.mode == "strict":
        return made
    return with_nearest(made, types, written, kind.vocabulary, kind.embedding, base, without)


def listed_words(kind: Scoped, tagged: Sequence[Tagged], base: Path) -> frozenset[str]:
    """Return the words of a user's list, or of the mentions that a recogniser finds in a corpus.

    Words have the form of `word_key`. A word with a hyphen is one entry, and so is a line of
    several words.

    Raises:
        UsageError: the file or recogniser is missing, or gives no word.
    """
    if kind.scope == "words":
        from medstress.entities.vocabularies import existing_file, read_lines

        assert kind.words is not None
        path, what = base / Path(kind.words).expanduser(), f"{kind.name}: words {kind.words!r}"
        existing_file(path, what, "give a text file with a word a line")
        words = frozenset(map(word_key, read_lines(path, what)))
    else:
        assert kind.recogniser is not None
        words = _recognised(kind.recogniser, tagged, base)
    with_letters = frozenset(word for word in words if any(map(str.isalpha, word)))
    if not with_letters:
        raise UsageError(
            f"{kind.name}: {kind.word_list} gives no word with a letter; give another one"
        )
    return with_letters


def _recognised(recogniser: str, tagged: Sequence[Tagged], base: Path) -> frozenset[str]:
    texts = [join_tokens(tokens) for tokens, _ in tagged]
    if recogniser == GAZETTEER:
        from medstress.entities.recognisers import shipped_gazetteer

        mentions = [
            text[mention.start : mention.end]
            for text, found in zip(texts, shipped_gazetteer().find(texts), strict=True)
            for mention in found
        ]
    else:
        from medstress.entities.recognisers import entity_texts

        mentions = entity_texts(recogniser, texts, base)
    return frozenset(word_key(word) for mention in mentions for word in mention.split())


def noise_resources(
    items: Sequence[Any],
    perturbations: Iterable[Noise],
    base: Path,
) -> NoiseResources:
    """Build lexicon and tables of names for a data set.

    Args:
        items: the whole data set before any limit, because the lexicon counts its words.
        perturbations: the noise; only the resources that it reads are built.
        base: folder that relative paths start from.

    Raises:
        UsageError: a table of names is missing or malformed.
    """
    # A control reads the resources of the perturbation that it copies.
    kinds = [kind.counted if isinstance(kind, NonEntityNoise) else kind for kind in perturbations]
    mentions = _find_mentions(items)
    tagged = _sentences(items, mentions)
    lexicon: frozenset[str] = frozenset()
    if any(isinstance(kind, Scoped) and kind.scope == "lexicon" for kind in kinds):
        from medstress.entities.vocabularies import noise_lexicon

        lexicon = noise_lexicon(tagged)
    tagged += _options(items, mentions)
    names = {
        kind.table: surrogates(kind, tagged, base)
        for kind in kinds
        if isinstance(kind, Synonym | Abbreviation)
    }
    words = {
        kind.word_list: listed_words(kind, tagged, base)
        for kind in kinds
        if isinstance(kind, Scoped) and kind.word_list is not None
    }
    synonyms = [kind for kind in kinds if isinstance(kind, Synonym)]
    return NoiseResources(
        lexicon=lexicon,
        replacements={table: of_table.table for table, of_table in names.items()},
        mentions=mentions,
        words=words,
        absent=tuple(_absent(words, tagged)),
        sources={table: of_table.sources for table, of_table in names.items()},
        defined=_defined(items, mentions) if synonyms else {},
        means_another=_clashes(
            {k.synonyms for k in synonyms if k.field == "options"}, tagged, base
        ),
    )


def _defined(
    items: Sequence[Any], mentions: Mapping[str, tuple[Marked, ...]]
) -> dict[Tokens, dict[Tokens, Tokens]]:
    """Return text -> acronyms in it -> their long forms, as its document defines them."""
    from medstress.entities.replacements import definitions

    documents: dict[str, list[Tagged]] = {}
    for item in items:
        of_document = documents.setdefault(document_of(item.metadata) or f"item {item.id}", [])
        of_document += _sentences([item], mentions)
        of_document += _options([item], mentions)
    defined: dict[Tokens, dict[Tokens, Tokens]] = {}
    for texts in documents.values():
        long_forms: dict[Tokens, Tokens] = {}
        for text in texts:
            for long, short in definitions(*text):
                long_forms.setdefault(short, long)
        for tokens, labels in texts if long_forms else ():
            own = {tokens[entity.start : entity.end] for entity in entities_of(labels)}
            if forms := {short: long for short, long in long_forms.items() if short in own}:
                defined.setdefault(tokens, forms)
    return defined


def _clashes(
    sources: Collection[str], tagged: Sequence[Tagged], base: Path
) -> Callable[[Question, str, str], bool] | None:
    """Return what tells whether a name in one option means what another option says."""
    if not sources:
        return None
    from medstress.entities.alike import Relations, option_texts, settled
    from medstress.entities.vocabularies import load_synonyms

    texts = {
        join_tokens(tokens[entity.start : entity.end])
        for tokens, labels in tagged
        for entity in entities_of(labels)
    }
    relations = Relations([load_synonyms(source, base, texts) for source in sorted(sources)])

    def clashes(item: Question, letter: str, name: str) -> bool:
        others = [text for o in item.letters if o != letter for text in option_texts(item, o)]
        return any(settled(relations.between(text, name)) for text in others)

    return clashes


def absence_remark(noise: NoiseResources) -> str | None:
    """Return a warning about word lists without a word that occurs in the data, or None."""
    if not noise.absent:
        return None
    return (
        f"none of the words of {', '.join(noise.absent)} occurs in the data, so noise with this "
        "list changes nothing; list whole words as the data spell them, one per line"
    )


def _absent(words: Mapping[str, frozenset[str]], tagged: Sequence[Tagged]) -> Iterator[str]:
    for name, listed in words.items():
        longest = max(word.count(" ") + 1 for word in listed)
        if not any(listed_places(tokens, listed, longest) for tokens, _ in tagged):
            yield name


def without_names(
    noise: NoiseResources,
    names: Collection[str],
    items: Sequence[Any],
    perturbations: Iterable[Noise],
    base: Path,
) -> NoiseResources:
    """Return the resources without some of the names that synonyms may put in.

    Args:
        noise: resources of `items`.
        names: the names to leave out, after `folded`.
        items: the items to perturb.
        perturbations: the tables of the synonyms among them are built anew.
        base: folder that relative paths start from.
    """
    from medstress.entities.names import folded

    tagged = [*_sentences(items, noise.mentions), *_options(items, noise.mentions)]
    tables, sources = dict(noise.replacements), dict(noise.sources)
    for kind in perturbations:
        if isinstance(kind, Synonym):
            made = surrogates(kind, tagged, base, names)
            tables[kind.table], sources[kind.table] = made.table, made.sources
    defined = {
        text: {short: long for short, long in forms.items() if folded(" ".join(long)) not in names}
        for text, forms in noise.defined.items()
    }
    return replace(noise, replacements=tables, sources=sources, defined=defined)


def names_put_into(
    items: Sequence[Any], attack: Synonym | Abbreviation, noise: NoiseResources
) -> frozenset[str]:
    """Return the names that an attack may put into items, after `folded`."""
    names = (
        names_put_in(names, attack.choice) for names, _ in other_names_in(items, attack, noise)
    )
    return frozenset().union(*names)


def names_put_in(names: Sequence[Tokens], choice: str) -> frozenset[str]:
    """Return which of a mention's other names may be put in, after `folded`."""
    from medstress.entities.names import folded

    return frozenset(folded(" ".join(name)) for name in names[: 1 if choice == "fixed" else None])


def other_names_in(
    items: Sequence[Any], attack: Synonym | Abbreviation, noise: NoiseResources
) -> Iterator[tuple[Sequence[Tokens], str]]:
    """Yield other names and their source for every mention that an attack comes across.

    Args:
        items: tagged texts, pairs or questions.
        attack: only the texts of pairs and questions count that it changes, never a right answer.
        noise: the tables.
    """
    for item in items:
        for words in item.words(noise.mentions, attack.field, attack.side):
            if item.kind == QUESTIONS and words.field == item.key:
                continue
            for entity in entities_of(words.labels):
                yield attack.other_names(words, entity, noise)


def mentions_in(items: Sequence[Any], noise: NoiseResources) -> frozenset[str]:
    """Return the mentions in items, after `folded`."""
    from medstress.entities.names import folded

    tagged = [*_sentences(items, noise.mentions), *_options(items, noise.mentions)]
    return frozenset(
        folded(mention_key(tokens[entity.start : entity.end]))
        for tokens, labels in tagged
        for entity in entities_of(labels)
    )


def describe_noise(noise: NoiseResources) -> dict[str, Any]:
    """Return the manifest's entries about noise."""
    remark = absence_remark(noise)
    return {
        "n_lexicon": len(noise.lexicon),
        **({"undefined": remark} if remark else {}),
        "n_replacements": {label: len(table) for label, table in noise.replacements.items()},
        "hash": noise.hash,
    }


def _sentences(items: Sequence[Any], mentions: Mapping[str, tuple[Marked, ...]]) -> list[Tagged]:
    return [(text.tokens, text.labels) for item in items for text in item.words(mentions)]


def _options(items: Sequence[Any], mentions: Mapping[str, tuple[Marked, ...]]) -> list[Tagged]:
    """Return the options of questions: they have mentions, but are no sentences."""
    texts = (item.words(mentions, "options") for item in items if item.kind == QUESTIONS)
    return [(words.tokens, words.labels) for of_item in texts for words in of_item]


def _find_mentions(items: Sequence[Any]) -> dict[str, tuple[Marked, ...]]:
    """Return the entities of each text; texts without any get the names of the shipped tables."""
    given_by_text: dict[str, tuple[Marked, ...] | None] = {}
    for item in items:
        for text, given in item.marks().items():
            if given_by_text.get(text) is None:
                given_by_text[text] = given
    texts = [text for text, given in given_by_text.items() if given is None]
    known = {text: given for text, given in given_by_text.items() if given is not None}
    if not texts:
        return known
    from medstress.entities.recognisers import shipped_gazetteer

    found = shipped_gazetteer().find(texts)
    return known | {
        text: tuple((mention.start, mention.end, mention.type) for mention in mentions)
        for text, mentions in zip(texts, found, strict=True)
    }
