"""BIOSSES: 100 pairs of biomedical sentences with the mean similarity of five annotators, 0 to 4.

There is no official split. With `split`, a hash of their ids divides the pairs 64 / 16 / 20 into
train, dev and test (other work shares the sizes only); `all` takes all of them, as does leaving the
key out. `path` is a table with `pair_id`, `sentence1`, `sentence2`, `mean_score`; `hub` takes any
layout that the module `hub` reads.

Reference: Soğancıoğlu, Öztürk, Özgür. BIOSSES: a semantic sentence similarity estimation system for
the biomedical domain. Bioinformatics 33(14), 2017.
"""

from __future__ import annotations

from dataclasses import replace

from medstress.core.errors import DataError, UsageError, did_you_mean
from medstress.core.hashing import digest
from medstress.core.sentences import SentencePair
from medstress.datasets.hub import read_hub
from medstress.datasets.pairs import read_pairs, tsv_rows
from medstress.datasets.source import DatasetOptions, LoadedTexts, check_keys, required_file

SIZES = {"train": 0.64, "dev": 0.16, "test": 0.2}
ALL = "all"
"""For `--set`, which can set `split` but not unset it."""
COLUMNS = {
    "id": "pair_id",
    "text_a": "sentence1",
    "text_b": "sentence2",
    "score": "mean_score",
}


def load(options: DatasetOptions) -> LoadedTexts:
    """Read BIOSSES.

    Raises:
        UsageError: neither path nor hub, a missing file, or an unknown split.
        DataError: a bad row, if `on_bad_row` is ``error``.
    """
    check_keys("biosses", options, "path", "hub", "split")
    split = options.split
    known = (*SIZES, ALL)
    if split is not None and split not in known:
        raise UsageError(
            f"dataset 'biosses': expected the split {', '.join(known)}, got {split!r}"
            f"{did_you_mean(split, known)}"
        )
    whole = replace(options, split=None)
    if options.hub is not None:
        loaded = read_hub("biosses", whole)
    else:
        path = required_file("biosses", "path", options.path)
        named = replace(whole, columns=COLUMNS)
        loaded = read_pairs(path, tsv_rows(path), named, is_fixed=True)
    pairs = [item for item in loaded.items if item.kind == SentencePair.kind]
    if len(pairs) != len(loaded.items):
        raise DataError(
            f"dataset 'biosses': expected sentence pairs in {options.hub}, got other items"
        )
    return loaded if split in (None, ALL) else replace(loaded, items=pairs_of(pairs, split))


def pairs_of(pairs: list[SentencePair], split: str) -> tuple[SentencePair, ...]:
    """Return the pairs of one split, in order; the splits are disjoint and cover all pairs."""
    ranked = sorted(pairs, key=lambda pair: digest(["biosses", pair.id]))
    train = round(SIZES["train"] * len(pairs))
    dev = train + round(SIZES["dev"] * len(pairs))
    first, last = {"train": (0, train), "dev": (train, dev), "test": (dev, len(pairs))}[split]
    chosen = {pair.id for pair in ranked[first:last]}
    return tuple(pair for pair in pairs if pair.id in chosen)
