"""Fit the one number of the noise lexicon, and compare its noise with the published statistics.

    python data/build/fit_noise_lexicon.py FOLDER

FOLDER holds train.tsv of BC5CDR-chemical. For each number of its sentences in which a general word
must stand, it prints the share of O tokens that swap noise changes (seed 0); of the one nearest to
the published 31 % `medstress.entities.vocabularies.ONE_IN` is made. Then the other statistics that
METHODS 4.2 recovered of the published files, for that number, and how the share of O tokens depends
on the size of the corpus.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

from medstress.attacks.noise import NoiseResources, SwapNoise
from medstress.core.hashing import rng_for
from medstress.core.sentences import OUTSIDE, TaggedText
from medstress.core.text import Edit
from medstress.datasets.named import load_bc5cdr
from medstress.datasets.source import DatasetOptions
from medstress.entities.vocabularies import ONE_IN, noise_lexicon

PUBLISHED = 0.31
TRIED = (1, 2, 3, 4, 5, 10, 20)
SIZES = (100, 500, 1500, 4560)


def main(folder: str) -> None:
    """Print the table."""
    loaded = load_bc5cdr(DatasetOptions(path=Path(folder), split="train"))
    items = [item for item in loaded.items if isinstance(item, TaggedText)]
    shares = {}
    for n in TRIED:
        lexicon = _lexicon(items, len(items) / n)
        shares[n] = outside_share(items, swapped(items, lexicon))
        print(f"words in at least {n:2} sentences: {shares[n]:.4f} of O tokens changed")
    best = min(shares, key=lambda n: abs(shares[n] - PUBLISHED))
    print(f"nearest to {PUBLISHED}: {best} (in use: {len(items) / ONE_IN:g})")
    lexicon = _lexicon(items)
    found = swapped(items, lexicon)
    print(f"entity tokens of 4 or more characters changed: {entity_share(items, found):.4f}")
    per_sentence = [len(p) / len(item.tokens) for item, p in zip(items, found, strict=True)]
    print(f"tokens changed, mean over sentences: {sum(per_sentence) / len(items):.4f}")
    print(f"sentences untouched: {sum(not p for p in found) / len(items):.4f}")
    for word in ("patients", "treatment", "with", "were", "associated", "significant"):
        print(f"{word} in the lexicon: {word in lexicon}")
    for n in SIZES:
        sample = Random(0).sample(items, min(n, len(items)))
        share = outside_share(sample, swapped(sample, _lexicon(sample)))
        print(f"{len(sample):5} sentences: {share:.3f} of O tokens")


def _lexicon(items: Sequence[TaggedText], one_in: float = ONE_IN) -> frozenset[str]:
    return noise_lexicon(((item.tokens, item.labels) for item in items), one_in)


def swapped(items: Sequence[TaggedText], lexicon: frozenset[str]) -> list[tuple[Edit, ...]]:
    """Swap noise with seed 0."""
    noise, resources = SwapNoise(), NoiseResources(lexicon=lexicon)
    return [
        noise.edits(item, rng_for(0, noise.stream, "bc5cdr", item.id), resources) for item in items
    ]


def outside_share(items: Sequence[TaggedText], found: Sequence[tuple[Edit, ...]]) -> float:
    """Share of the tokens outside entities that changed."""
    n = sum(label == OUTSIDE for item in items for label in item.labels)
    changed = sum(
        item.labels[edit.start] == OUTSIDE
        for item, edits in zip(items, found, strict=True)
        for edit in edits
    )
    return changed / n


def entity_share(items: Sequence[TaggedText], found: Sequence[tuple[Edit, ...]]) -> float:
    """Share of the entity tokens of at least four characters that changed."""
    n = changed = 0
    for item, edits in zip(items, found, strict=True):
        pairs = zip(item.tokens, item.candidate(edits).tokens, item.labels, strict=True)
        for before, after, label in pairs:
            if label != OUTSIDE and len(before) >= 4:
                n += 1
                changed += before != after
    return changed / n


if __name__ == "__main__":
    main(*sys.argv[1:])
