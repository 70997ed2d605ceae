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

ONE_IN = 2280
"""A general word counts that stands in at least one of so many sentences, so that the strength of
noise does not depend on the size of the corpus. By `scripts/fit_noise_lexicon.py`: twice in the
4,560 sentences of the train split of BC5CDR-chemical, where swap noise then changes the share of O
tokens nearest to the published 31 %."""
FIXED = 2
"""How many sentences it took, of a corpus of any size, in run folders of the first edition."""


def noise_lexicon(
    sentences: Iterable[tuple[Sequence[str], Sequence[str]]], n_sentences: int | None = None
) -> frozenset[str]:
    """The lexicon of a corpus, in lower case.

    Args:
        sentences: (tokens, IOB2 labels) of the whole corpus.
        n_sentences: in how many sentences another word must stand; None: in one of `ONE_IN`.
    """
    counts: Counter[str] = Counter()
    gold: set[str] = set()
    n = 0
    for tokens, labels in sentences:
        n += 1
        lowered = [token.lower() for token in tokens]
        counts.update(set(lowered))
        gold.update(token for token, label in zip(lowered, labels, strict=True) if label != OUTSIDE)
    enough = n / ONE_IN if n_sentences is None else n_sentences
    frequent = (word for word, count in counts.items() if count >= enough)
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
