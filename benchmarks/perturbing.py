"""How long perturbing the test set of BC5CDR takes, in seconds of processor time.

    python benchmarks/perturbing.py FOLDER

FOLDER holds test.tsv of BC5CDR-chemical. Reading the file, building the resources (lexicon and
tables of names) and each perturbation are timed apart, with `time.process_time`, which other
programs on the machine hardly change. `related` synonyms with the embedding `ngram`, as the time
of a model is the model's.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from medstress.attacks.noise import (
    Abbreviation,
    CaseNoise,
    HyphenNoise,
    KeyboardNoise,
    NonEntityNoise,
    OcrNoise,
    Perturbation,
    SwapNoise,
    Synonym,
)
from medstress.datasets import bc5cdr
from medstress.datasets.source import DatasetOptions
from medstress.experiment.noise_resources import noise_resources
from medstress.seeding import rng_for
from medstress.sentences import TaggedText

KINDS: tuple[Perturbation, ...] = (
    SwapNoise(),
    SwapNoise(scope="entities"),
    SwapNoise(scope="all"),
    KeyboardNoise(),
    CaseNoise(),
    OcrNoise(),
    HyphenNoise(),
    NonEntityNoise(),
    Synonym(),
    Synonym(mode="related", embedding="ngram"),
    Abbreviation(),
)


def main(folder: str) -> None:
    """Print one line a step."""
    start = time.process_time()
    loaded = bc5cdr.load(DatasetOptions(path=Path(folder), split="test"))
    items = [item for item in loaded.items if isinstance(item, TaggedText)]
    print(f"{time.process_time() - start:6.2f} s  reading {len(items):,} sentences")
    start = time.process_time()
    resources = noise_resources(items, KINDS, Path())
    print(f"{time.process_time() - start:6.2f} s  resources of all perturbations")
    for kind in KINDS:
        start = time.process_time()
        n_edits = sum(
            len(kind.perturb(item, rng_for(0, kind.stream, "bc5cdr", item.id), resources).edits)
            for item in items
        )
        told = ", ".join(f"{key} {value}" for key, value in kind.spec().items())
        print(f"{time.process_time() - start:6.2f} s  {n_edits:,} edits: {told}")


if __name__ == "__main__":
    main(*sys.argv[1:])
