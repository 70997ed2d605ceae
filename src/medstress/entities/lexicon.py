"""Which words count as medical: the lexicon that noise perturbs wherever they stand.

The published lexicon is what a scispaCy pipeline finds as mentions over the corpus (METHODS 4.2);
this one needs no model: the words of gold entities and of the drug and disease vocabularies, and
the corpus' words outside a list of general words that stand in enough of its sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from medstress.entities.tables import SHIPPED
from medstress.entities.vocabularies import load_vocabulary
from medstress.sentences import OUTSIDE
from medstress.text import tokenise

MIN_SENTENCES = 2
"""Of `scripts/fit_noise_lexicon.py`: the number of sentences with which the share of O tokens that
swap noise changes in the train split of BC5CDR-chemical comes nearest to the published 31 %."""


def noise_lexicon(
    sentences: Iterable[tuple[Sequence[str], Sequence[str]]], min_sentences: int = MIN_SENTENCES
) -> frozenset[str]:
    """The lexicon of a corpus, in lower case.

    Args:
        sentences: (tokens, IOB2 labels) of the whole corpus.
        min_sentences: in how many sentences another word must stand.
    """
    counts: Counter[str] = Counter()
    gold: set[str] = set()
    for tokens, labels in sentences:
        lowered = [token.lower() for token in tokens]
        counts.update(set(lowered))
        gold.update(token for token, label in zip(lowered, labels, strict=True) if label != OUTSIDE)
    frequent = (word for word, n in counts.items() if n >= min_sentences)
    known = gold.union(vocabulary_words(), frequent) - stop_words()
    return frozenset(word for word in known if any(map(str.isalpha, word)))


@cache
def stop_words() -> frozenset[str]:
    """General English words, and those that every scientific abstract is made of."""
    text = (files("medstress.entities") / "data" / "stop_words.txt").read_text("utf-8")
    return frozenset(text.split())


@cache
def vocabulary_words() -> frozenset[str]:
    """The words of the names in the built-in vocabularies."""
    return frozenset(
        token.lower()
        for table in SHIPPED
        for name in load_vocabulary(table, Path()).names
        for token in tokenise(name)
    )
