"""What perturbations may read, built from a data set before anything is perturbed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from medstress.attacks.noise import Abbreviation, NoiseResources, Perturbation, Synonym
from medstress.attacks.noise.mention_table import mention_key
from medstress.attacks.noise.protocol import Replacements
from medstress.attacks.noise.texts import Marked, labels_of
from medstress.items import Question
from medstress.sentences import SentencePair, TaggedText, entities_of
from medstress.text import token_spans

AnyItem: TypeAlias = Question | TaggedText | SentencePair
Tagged: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""Tokens and IOB2 labels of a sentence or text."""


def noise_resources(
    items: Sequence[AnyItem],
    perturbations: Iterable[Perturbation],
    base: Path,
    n_sentences: int | None = None,
) -> NoiseResources:
    """Build lexicon and tables of names for a data set.

    Args:
        items: the whole data set, before any limit: the lexicon counts its words.
        perturbations: what will be done to it; only what they read is built.
        base: folder that relative paths start from.
        n_sentences: see `noise_lexicon`.

    Raises:
        UsageError: a table of names is missing or malformed.
    """
    # A control reads what the perturbation that it counts reads.
    kinds = [getattr(kind, "counted", kind) for kind in perturbations]
    mentions = _found_mentions(items)
    tagged = [text for item in items for text in _tagged(item, mentions)]
    lexicon: frozenset[str] = frozenset()
    if any(getattr(kind, "scope", None) == "lexicon" for kind in kinds):
        from medstress.entities.lexicon import noise_lexicon

        lexicon = noise_lexicon(tagged, n_sentences)
    return NoiseResources(
        lexicon=lexicon,
        replacements={
            kind.table: _names(kind, tagged, base)
            for kind in kinds
            if isinstance(kind, Synonym | Abbreviation)
        },
        mentions=mentions,
    )


def _names(kind: Synonym | Abbreviation, tagged: Sequence[Tagged], base: Path) -> Replacements:
    from medstress.entities.definitions import defined_abbreviations
    from medstress.entities.replacements import abbreviations, related_names, strict_names

    types = {
        mention_key(tokens[entity.start : entity.end]): entity.type
        for tokens, labels in reversed(tagged)  # the first type of a mention wins
        for entity in reversed(entities_of(labels))
    }
    if isinstance(kind, Abbreviation):
        listed = abbreviations(types, kind.synonyms, base, kind.direction)
        # What the corpus says itself comes first.
        return listed | defined_abbreviations(tagged, kind.direction)
    if kind.mode == "related":
        return related_names(types, kind.vocabulary, kind.embedding, base)
    return strict_names(types, kind.synonyms, base)


def _found_mentions(items: Sequence[AnyItem]) -> dict[str, tuple[Marked, ...]]:
    """Entities of the texts of pairs, which bring none: names of the built-in tables."""
    texts = list(
        dict.fromkeys(
            text
            for item in items
            if isinstance(item, SentencePair)
            for text in (item.text_a, item.text_b)
        )
    )
    if not texts:
        return {}
    from medstress.entities.recognisers.gazetteer import shipped_gazetteer

    found = shipped_gazetteer().find(texts)
    return {
        text: tuple((mention.start, mention.end, mention.type) for mention in mentions)
        for text, mentions in zip(texts, found, strict=True)
    }


def _tagged(item: AnyItem, mentions: Mapping[str, tuple[Marked, ...]]) -> Iterable[Tagged]:
    if isinstance(item, TaggedText):
        return [(item.tokens, item.labels)]
    if isinstance(item, SentencePair):
        return [_text(text, mentions[text]) for text in (item.text_a, item.text_b)]
    return [
        _text(
            item.text_of(field),
            [(m.start, m.end, m.type or "entity") for m in item.mentions if m.field == field],
        )
        for field in ("context", "stem")
    ]


def _text(text: str, mentions: Iterable[Marked]) -> Tagged:
    spans = token_spans(text)
    return tuple(text[start:end] for start, end in spans), labels_of(spans, mentions)
