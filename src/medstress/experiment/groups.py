"""Entity groups as the plan has them: with their names, and with what noise reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    noise_of,
    word_key,
)
from medstress.attacks.noise_control import NonEntityNoise
from medstress.attacks.protocol import Attack
from medstress.core.clusters import document_of
from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash
from medstress.core.items import QUESTIONS, Marked, Question
from medstress.core.resources import DrugNames, Passages, Resources
from medstress.core.sentences import entities_of
from medstress.core.text import Edit, comparison_key, join_tokens
from medstress.datasets.source import draw
from medstress.entities.groups import LABEL, NoNames, typed_options, types_of
from medstress.experiment import config
from medstress.experiment.data import DatasetPart
from medstress.tasks.kinds import KINDS, Kind, kind_of_all

if TYPE_CHECKING:
    from medstress.entities.perturbations import VectorPerturbationSet
    from medstress.entities.replacements import Surrogates


def kind_of_datasets(datasets: Sequence[DatasetPart]) -> Kind:
    """Return the kind of the items in data sets.

    Raises:
        UsageError: they hold several kinds; the message names the data sets.
    """
    kinds = {part.label: kind_of_all(part.questions) for part in datasets}
    if len(set(kinds.values())) > 1:
        contents = ", ".join(f"{label!r} holds {kind.name}" for label, kind in kinds.items())
        raise UsageError(
            f"dataset: {contents}: a model does one task, so write one experiment for each kind"
        )
    return next(iter(kinds.values()), KINDS[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPart:
    """One entity group, with its vectors."""

    label: str
    """Name in results."""
    table: config.Entities | None
    """Its table; None for the group of attacks that draw no names, which tagged texts and pairs
    have alone."""
    resources: Resources
    """What attacks on it may read."""
    perturbations: VectorPerturbationSet | NoNames
    """The perturbation set of `resources`, with its hash."""
    needs_passages: bool = False
    """Whether an attack on it reads the passages of the data set."""
    recogniser: Mapping[str, Any] = field(default_factory=dict)
    """What recognised the mentions of the group."""
    remarks: tuple[str, ...] = ()
    """Warnings about names without a distance or with the same one, or word lists that do not
    occur."""

    @property
    def noise(self) -> NoiseResources | None:
        """What noise may read, if an attack is noise."""
        return noise_of(self.resources)

    @property
    def fingerprint(self) -> str:
        """Hash of what attacks may read."""
        parts = [sorted(self.resources.types), self.perturbations.hash]
        return content_hash([*parts, self.noise.hash] if self.noise else parts)

    def describe(self) -> dict[str, Any]:
        """Return its entry in the manifest."""
        names, remark = self.perturbations, "; ".join(self.remarks) or None
        described = {
            "n_names": len(names.names),
            "undefined": remark,
            "hash": names.hash,
            "recogniser": dict(self.recogniser),
        }
        if self.table is None or isinstance(names, NoNames):
            return described
        return {
            "vocabulary": self.table.vocabulary,
            "vocabulary_hash": names.vocabulary.hash,
            "embedding": self.table.embedding,
            "distance": self.table.distance,
            "n_undefined": len(names.undefined),
            **described,
        }

    def resources_on(self, dataset: DatasetPart) -> Resources:
        """Return what attacks may read on a data set, with its passages if one needs them."""
        if not self.needs_passages:
            return self.resources
        # All items, so that neither a limit nor the draw of a sample changes what is read.
        passages = Passages.of(item.passage for item in dataset.all_items)
        return replace(self.resources, passages=passages)

    def items(self, dataset: DatasetPart) -> tuple[Any, ...]:
        """Return the items that its trials run over.

        A group's limit draws among the attackable items. Items that are not attackable stay, so
        that they are counted; they are never asked.
        """
        if self.table is None or self.table.limit is None:
            return dataset.questions
        attackable = [q for q in dataset.questions if typed_options(q, self.resources.types)]
        drawn = {q.id for q in draw(attackable, self.table.limit, dataset.sample_seed)}
        left_out = {q.id for q in attackable} - drawn
        return tuple(q for q in dataset.questions if q.id not in left_out)


def load_groups(
    tables: Sequence[config.Entities],
    base: Path,
    datasets: Sequence[DatasetPart],
    note: Callable[[str], None],
    on_vectors: Callable[[int, int], None] | None = None,
) -> list[GroupPart]:
    """Build every entity group: vocabulary, synonyms, vectors of names, keys and spans.

    Raises:
        UsageError: a resource is missing or malformed.
    """
    from medstress.entities.distances import check_types
    from medstress.entities.embeddings import Embedder
    from medstress.entities.perturbations import VectorPerturbationSet
    from medstress.entities.vocabularies import load_synonyms, load_vocabulary

    labels = config.labels_of(tables)
    questions = [item for dataset in datasets for item in dataset.questions]
    parts = []
    for table, label in zip(tables, labels, strict=True):
        types = types_of(table.type)
        check_types(table.distance, types)
        vocabulary = load_vocabulary(table.vocabulary, base, table.column)
        note(f"vectors of {len(vocabulary.names):,} names ({label}, {table.embedding})")
        embedder = Embedder(table.embedding, table.pooling, base=base, choices=table.choices)
        # Synonyms are looked up for the right answers and the entities in them, too.
        needed = {*vocabulary.names, *(item.key_text for item in questions)}
        for item in questions:
            own = (m for m in item.mentions if m.field == item.key)
            needed |= {item.key_text[m.start : m.end] for m in own}
        synonyms = load_synonyms(table.synonyms, base, needed)
        perturbations = VectorPerturbationSet(
            vocabulary, embedder, synonyms, table.distance, base=base
        )
        attackable = [item for item in questions if typed_options(item, types)]
        anchors = list(dict.fromkeys(item.key_text for item in attackable))
        spans = dict.fromkeys(
            item.option(m.field)[m.start : m.end]
            for item in attackable
            for m in item.mentions
            if m.type in types and m.field in item.letters and m.field != item.key
        )
        perturbations.prepare(anchors, list(spans), progress=on_vectors)
        remarks = []
        if n := len(perturbations.undefined):
            remarks.append(
                f"group {label!r}: {n:,} of {len(vocabulary.names):,} names are "
                f"{perturbations.lack}: never drawn"
            )
        if embedder.is_sparse and (ties := tied_names(label, perturbations, anchors)):
            remarks.append(ties)
        for remark in remarks:
            note(remark)
        resources = Resources(
            group=label, types=types, perturbations=perturbations, names_in=_names_in
        )
        parts.append(
            GroupPart(
                label=label,
                table=table,
                resources=resources,
                perturbations=perturbations,
                remarks=tuple(remarks),
            )
        )
    return parts


_KEYS_LOOKED_AT = 200
"""Right answers that the share of tied names is measured on: enough for a percentage."""
_FEW = 0.005
"""A smaller share of tied names is not worth a warning."""


def tied_names(label: str, perturbations: VectorPerturbationSet, keys: Sequence[str]) -> str | None:
    """Return a warning about names that share nothing with right answers; None if there are none.

    In the embedding `ngram` they are all at the largest distance: 1, or by `euclidean` its root.
    """
    largest = {"cosine": 1.0, "euclidean": math.sqrt(2)}.get(perturbations.distance)
    looked_at = list(dict.fromkeys(keys))[:_KEYS_LOOKED_AT]
    if largest is None or not looked_at:
        return None
    n_tied = sum(int((perturbations.distances(key) >= largest).sum()) for key in looked_at)
    share = n_tied / (len(looked_at) * len(perturbations.names))
    if share < _FEW:
        return None
    return (
        f"group {label!r}: {share:.0%} of the names share nothing with the right answer (on "
        "average) and are equally far from it by ngram: a draw of far names is a random one among "
        "them"
    )


def free_group(attacks: Sequence[Attack], noise: NoiseResources | None = None) -> list[GroupPart]:
    """Return the group of the attacks that draw no names; empty if there are none.

    Args:
        attacks: all attacks.
        noise: what noise may read, if some of them are noise.
    """
    free = [attack.needs for attack in attacks if "names" not in attack.needs]
    if not free:
        return []
    names, drugs = NoNames(), DrugNames()
    if any("drugs" in needs for needs in free):
        from medstress.entities.alike import shipped_drug_names

        drugs = shipped_drug_names()
    resources = Resources(
        group=LABEL,
        types=frozenset(),
        perturbations=names,
        names_in=_names_in,
        noise=noise,
        drugs=drugs,
    )
    absent = () if noise is None else noise.absent
    remark = (
        f"none of the words of {', '.join(absent)} occurs in the data, so noise with this list "
        "changes nothing; list whole words as the data spell them, one per line"
    )
    return [
        GroupPart(
            label=LABEL,
            table=None,
            resources=resources,
            perturbations=names,
            needs_passages=any("passages" in needs for needs in free),
            remarks=(remark,) if absent else (),
        )
    ]


def _names_in(text: str) -> list[str]:
    """Return the drugs and diseases in a text, found by the shipped gazetteer."""
    from medstress.entities.recognisers import shipped_gazetteer

    (mentions,) = shipped_gazetteer().find([text])
    return [text[mention.start : mention.end] for mention in mentions]


# -- what noise reads ------------------------------------------------------------------------------


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
            for text, spans in zip(texts, shipped_gazetteer().find(texts), strict=True)
            for mention in spans
        ]
    else:
        from medstress.entities.recognisers import entity_texts

        mentions = entity_texts(recogniser, texts, base)
    return frozenset(word_key(word) for mention in mentions for word in mention.split())


def noise_resources(
    items: Sequence[Any],
    attacks: Iterable[Attack],
    base: Path,
) -> NoiseResources:
    """Build lexicon and tables of names for a data set.

    Args:
        items: the whole data set before any limit, because the lexicon counts its words.
        attacks: those that are noise count; only the resources that they read are built.
        base: folder that relative paths start from.

    Raises:
        UsageError: a table of names is missing or malformed.
    """
    # A control reads the resources of the perturbation that it copies.
    noise = [one for one in attacks if isinstance(one, Noise)]
    kinds = [one.counted if isinstance(one, NonEntityNoise) else one for one in noise]
    mentions = _find_mentions(items)
    tagged = _sentences(items, mentions)
    lexicon: frozenset[str] = frozenset()
    if any(isinstance(kind, Scoped) and kind.scope == "lexicon" for kind in kinds):
        from medstress.entities.vocabularies import noise_lexicon

        lexicon = noise_lexicon(tagged)
    tagged = _tagged(items, mentions)
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
        absent=tuple(name for name, own in words.items() if not _occur(own, tagged)),
        sources={table: of_table.sources for table, of_table in names.items()},
        defined=_defined(items, mentions) if synonyms else {},
        means_another=_clashes(
            {k.synonyms for k in synonyms if k.field == "options"}, mentions, tagged, base
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
        of_document += _tagged([item], mentions)
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
    sources: Collection[str],
    mentions: Mapping[str, tuple[Marked, ...]],
    tagged: Sequence[Tagged],
    base: Path,
) -> Callable[[Question, Edit, Sequence[Edit]], bool] | None:
    """Return `NoiseResources.means_another`."""
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

    def clashes(item: Question, edit: Edit, kept: Sequence[Edit]) -> bool:
        options = [item.option(letter) for letter in item.letters if letter != edit.field]
        others = [text for o in item.letters if o != edit.field for text in option_texts(item, o)]
        others += [text[start:end] for text in options for start, end, _ in mentions.get(text, ())]
        others += [one.replacement for one in kept if one.field != edit.field]
        name = f" {comparison_key(edit.replacement)} "
        return any(name in f" {comparison_key(text)} " for text in options) or any(
            settled(relations.between(text, edit.replacement)) for text in dict.fromkeys(others)
        )

    return clashes


def _occur(listed: frozenset[str], tagged: Sequence[Tagged]) -> bool:
    longest = max(word.count(" ") + 1 for word in listed)
    return any(listed_places(tokens, listed, longest) for tokens, _ in tagged)


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
        perturbations: the tables of the synonyms among them are built again.
        base: folder that relative paths start from.
    """
    from medstress.entities.names import folded

    tagged = _tagged(items, noise.mentions)
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

    return frozenset(
        folded(mention_key(tokens[entity.start : entity.end]))
        for tokens, labels in _tagged(items, noise.mentions)
        for entity in entities_of(labels)
    )


def _sentences(items: Sequence[Any], mentions: Mapping[str, tuple[Marked, ...]]) -> list[Tagged]:
    return [(text.tokens, text.labels) for item in items for text in item.words(mentions)]


def _tagged(items: Sequence[Any], mentions: Mapping[str, tuple[Marked, ...]]) -> list[Tagged]:
    """Return sentences, and options of questions: these have mentions, but are no sentences."""
    options = (item.words(mentions, "options") for item in items if item.kind == QUESTIONS)
    return [
        *_sentences(items, mentions),
        *((words.tokens, words.labels) for of_item in options for words in of_item),
    ]


def _find_mentions(items: Sequence[Any]) -> dict[str, tuple[Marked, ...]]:
    """Return the entities of each text; texts without any get the names of the shipped tables."""
    marks_by_text: dict[str, tuple[Marked, ...] | None] = {}
    for item in items:
        for text, marks in item.marks().items():
            if marks_by_text.get(text) is None:
                marks_by_text[text] = marks
    texts = [text for text, marks in marks_by_text.items() if marks is None]
    settled = {text: marks for text, marks in marks_by_text.items() if marks is not None}
    if not texts:
        return settled
    from medstress.entities.recognisers import shipped_gazetteer

    recognised = shipped_gazetteer().find(texts)
    return settled | {
        text: tuple((mention.start, mention.end, mention.type) for mention in mentions)
        for text, mentions in zip(texts, recognised, strict=True)
    }
