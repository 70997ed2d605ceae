"""The names and words of noise: from tables, vocabularies, lists and recognisers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from medstress.attacks.noise import Abbreviation, Synonym
from medstress.attacks.noise.mention_table import mention_key
from medstress.attacks.noise.scopes import GAZETTEER, Scoped, word_key
from medstress.core.errors import UsageError
from medstress.core.sentences import entities_of
from medstress.core.text import join_tokens

if TYPE_CHECKING:
    from medstress.entities.surrogates import Surrogates

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
    from medstress.entities.definitions import defined_abbreviations
    from medstress.entities.names import folded
    from medstress.entities.replacements import abbreviations, strict_names
    from medstress.entities.surrogates import LISTED, Surrogates, listed_first

    types = {
        mention_key(tokens[entity.start : entity.end]): entity.type
        for tokens, labels in reversed(tagged)  # the first type of a mention wins
        for entity in reversed(entities_of(labels))
    }
    if isinstance(kind, Abbreviation):
        listed = abbreviations(types, kind.synonyms, base, kind.direction)
        # Definitions in the corpus win over the table.
        table = listed | defined_abbreviations(tagged, kind.direction)
        return Surrogates(table=table, sources=dict.fromkeys(table, LISTED))
    if kind.mode == "related":
        return listed_first(
            types,
            _as_written(tagged),
            kind.synonyms,
            kind.vocabulary,
            kind.embedding,
            base,
            without,
        )
    table = strict_names(types, kind.synonyms, base)
    kept = {
        mention: others
        for mention, names in table.items()
        if (others := tuple(name for name in names if folded(" ".join(name)) not in without))
    }
    return Surrogates(table=kept, sources=dict.fromkeys(kept, LISTED))


def listed_words(kind: Scoped, tagged: Sequence[Tagged], base: Path) -> frozenset[str]:
    """Return the words of a user's list, or of the mentions that a recogniser finds in a corpus.

    Words have the form of `word_key`. A word with a hyphen is one entry, and so is a line of
    several words.

    Raises:
        UsageError: the file or recogniser is missing, or gives no word.
    """
    if kind.scope == "words":
        assert kind.words is not None
        words = _words_of_file(kind.name, kind.words, base)
    else:
        assert kind.recogniser is not None
        words = _recognised(kind.recogniser, tagged, base)
    with_letters = frozenset(word for word in words if any(map(str.isalpha, word)))
    if not with_letters:
        raise UsageError(
            f"{kind.name}: {kind.word_list} gives no word with a letter; give another one"
        )
    return with_letters


def _words_of_file(name: str, given: str, base: Path) -> frozenset[str]:
    from medstress.entities.tables import existing_file, read_text

    path = base / Path(given).expanduser()
    what = f"{name}: words {given!r}"
    existing_file(path, what, "give a text file with a word a line")
    return frozenset(map(word_key, read_text(path, what).splitlines()))


def _recognised(recogniser: str, tagged: Sequence[Tagged], base: Path) -> frozenset[str]:
    texts = [join_tokens(tokens) for tokens, _ in tagged]
    if recogniser == GAZETTEER:
        from medstress.entities.recognisers.gazetteer import shipped_gazetteer

        mentions = [
            text[mention.start : mention.end]
            for text, found in zip(texts, shipped_gazetteer().find(texts), strict=True)
            for mention in found
        ]
    else:
        from medstress.entities.recognisers.spacy_pipeline import entity_texts

        mentions = entity_texts(recogniser, texts, base)
    return frozenset(word_key(word) for mention in mentions for word in mention.split())


def _as_written(tagged: Sequence[Tagged]) -> dict[str, set[str]]:
    """Return mention -> its spellings in the corpus; none for defined short forms."""
    from medstress.entities.definitions import defined_abbreviations

    found: dict[str, set[str]] = {}
    for tokens, labels in tagged:
        for entity in entities_of(labels):
            own = tokens[entity.start : entity.end]
            found.setdefault(mention_key(own), set()).add(" ".join(own))
    for short in defined_abbreviations(tagged, "expand"):
        found[short] = set()
    return found
