"""The lexicon of medical words, which noise perturbs wherever they occur.

The published lexicon holds the mentions that a scispaCy pipeline finds in the corpus (METHODS 4.2).
This one needs no model. It holds the words of gold entities, of the drug and disease vocabularies,
and all words that occur in enough sentences of the corpus, without a list of general words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from medstress.core.sentences import OUTSIDE
from medstress.core.text import tokenise
from medstress.entities.tables import SHIPPED
from medstress.entities.vocabularies import load_vocabulary

ONE_IN = 2280
"""A word that is in no entity or vocabulary counts if at least one in this many sentences has it;
a share, so that the strength of noise does not depend on the size of the corpus. Fitted by
`data/build/fit_noise_lexicon.py`: two of the 4,560 sentences of the train split of BC5CDR-chemical,
where swap noise then changes the share of O tokens nearest to the published 31 %."""


def noise_lexicon(
    sentences: Iterable[tuple[Sequence[str], Sequence[str]]], one_in: float = ONE_IN
) -> frozenset[str]:
    """Return the lexicon of a corpus, in lower case.

    Args:
        sentences: (tokens, IOB2 labels) of the whole corpus.
        one_in: a word of no entity or vocabulary must be in at least one of so many sentences.
    """
    counts: Counter[str] = Counter()
    gold: set[str] = set()
    n = 0
    for tokens, labels in sentences:
        n += 1
        lowered = [token.lower() for token in tokens]
        counts.update(set(lowered))
        gold.update(token for token, label in zip(lowered, labels, strict=True) if label != OUTSIDE)
    frequent = (word for word, count in counts.items() if count >= n / one_in)
    known = gold.union(vocabulary_words(), frequent) - stop_words()
    return frozenset(word for word in known if any(map(str.isalpha, word)))


@cache
def stop_words() -> frozenset[str]:
    """Return general English words and the common words of scientific abstracts."""
    text = (files("medstress.entities") / "data" / "stop_words.txt").read_text("utf-8")
    return frozenset(text.split())


@cache
def vocabulary_words() -> frozenset[str]:
    """Return the words of the names in the built-in vocabularies."""
    return frozenset(
        token.lower()
        for table in SHIPPED
        for name in load_vocabulary(table, Path()).names
        for token in tokenise(name)
    )
