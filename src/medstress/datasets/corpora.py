"""BC5CDR and BIOSSES as they are published.

BC5CDR: 1,500 PubMed abstracts with chemicals and diseases, 500 each for train, devel and test.
`path` is a PubTator file, an IOB file, or a folder in which the names of files tell the splits
(`train.txt`, `CDR_TestSet.PubTator.txt`, `devel.tsv`). Of a folder with both, PubTator is read,
which names the abstract of each sentence. Its tokens are those of the IOB files, its sentences
nearly so (4,552 instead of 4,560 in train). `hub` takes any layout that the module `hub` reads.
Splits joined by a plus (`train+devel`) are read one after the other; ids and documents then begin
with the name of the split.

BIOSSES: 100 pairs of biomedical sentences with the mean similarity of five annotators, 0 to 4.
There is no official split. With `split`, a hash of their ids divides the pairs 64 / 16 / 20 into
train, dev and test (other work shares the sizes only); `all` takes all of them, as does leaving the
key out. `path` is a table with `pair_id`, `sentence1`, `sentence2`, `mean_score`.

References:
    Li, Sun, Johnson, Sciaky, Wei, Leaman, Davis, Mattingly, Wiegers, Lu. BioCreative V CDR task
    corpus: a resource for chemical disease relation extraction. Database, 2016.
    Soğancıoğlu, Öztürk, Özgür. BIOSSES: a semantic sentence similarity estimation system for the
    biomedical domain. Bioinformatics 33(14), 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from medstress.core.errors import DataError, UsageError, did_you_mean
from medstress.core.hashing import content_hash, digest
from medstress.core.sentences import SentencePair, TaggedText
from medstress.datasets.hub import choose_file, read_hub
from medstress.datasets.pairs import read_pairs
from medstress.datasets.source import DatasetOptions, LoadedTexts, check_keys, required_file
from medstress.datasets.standoff import is_pubtator, read_pubtator
from medstress.datasets.tables import read_table
from medstress.datasets.tagged import read_iob

SPLITS = {"train": "train", "devel": "devel", "dev": "devel", "validation": "devel", "test": "test"}
"""Split of BC5CDR, as users write it -> its name in ids."""
IOB = (".tsv", ".iob", ".conll")
"""Endings of IOB files in a folder."""
SIZES = {"train": 0.64, "dev": 0.16, "test": 0.2}
"""Split of BIOSSES -> its share."""
ALL = "all"
"""For `--set`, which can set `split` but not unset it."""
COLUMNS = {
    "id": "pair_id",
    "text_a": "sentence1",
    "text_b": "sentence2",
    "score": "mean_score",
}
"""Of BIOSSES."""
_KEYS = ("path", "hub", "split", "types")


def load_bc5cdr(options: DatasetOptions) -> LoadedTexts:
    """Read one split of BC5CDR, or several.

    Raises:
        UsageError: neither path nor hub, a missing file, an unknown or repeated split, or a folder
            without a split.
        DataError: a bad line, if `on_bad_row` is ``error``.
    """
    check_keys("bc5cdr", options, *_KEYS, "scheme", "tag", "on_bad_labels")
    splits = options.split.split("+") if options.split is not None else []
    for split in splits:
        if split not in SPLITS:
            raise UsageError(
                "dataset 'bc5cdr': expected the split train, devel or test, or several such as "
                f"train+devel, got {options.split!r}{did_you_mean(split, SPLITS)}"
            )
    if len({SPLITS[split] for split in splits}) < len(splits):
        raise UsageError(f"dataset 'bc5cdr': expected each split once, got {options.split!r}")
    if len(splits) < 2:
        return _read(options)
    if options.hub is None and options.path is not None and options.path.is_file():
        raise UsageError(
            f"dataset 'bc5cdr': {options.path} is a single file and holds one split; give the "
            f"folder with the files of {options.split}"
        )
    parts = [_read(replace(options, split=split)) for split in splits]
    return LoadedTexts(
        items=tuple(
            _with_prefix(item, SPLITS[split])
            for split, part in zip(splits, parts, strict=True)
            for item in part.items
            if item.kind == TaggedText.kind
        ),
        skipped=tuple(sentence for part in parts for sentence in part.skipped),
        source_hash=content_hash([part.source_hash for part in parts]),
        notes=tuple(sentence for part in parts for sentence in part.notes),
    )


def _read(options: DatasetOptions) -> LoadedTexts:
    if options.hub is not None:
        return read_hub("bc5cdr", options)
    path = options.path
    if path is None or not path.is_dir():
        path = required_file("bc5cdr", "path", path)
    else:
        files = [file for file in sorted(path.iterdir()) if file.is_file()]
        names = [file.name for file in files if is_pubtator(file)]
        names = names or [file.name for file in files if file.suffix.lower() in IOB]
        names = names or [file.name for file in path.iterdir()]
        path = path / choose_file("bc5cdr", str(path), names, options.split)
    if is_pubtator(path):
        check_keys("bc5cdr", options, *_KEYS)
        return read_pubtator(path, options)
    return read_iob(path, options)


def _with_prefix(item: TaggedText, split: str) -> TaggedText:
    metadata = dict(item.metadata)
    if "document" in metadata:
        metadata["document"] = f"{split}-{metadata['document']}"
    return replace(item, id=f"{split}-{item.id}", metadata=metadata)


def load_biosses(options: DatasetOptions) -> LoadedTexts:
    """Read BIOSSES.

    Raises:
        UsageError: neither path nor hub, a missing file, or an unknown split.
        DataError: a bad row, if `on_bad_row` is ``error``.
    """
    check_keys("biosses", options, "path", "hub", "split", "columns", "scale")
    split, known = options.split, (*SIZES, ALL)
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
        named = replace(whole, columns={**COLUMNS, **options.columns})
        loaded = read_pairs(read_table(path), named)
    pairs = [item for item in loaded.items if item.kind == SentencePair.kind]
    if len(pairs) != len(loaded.items):
        raise DataError(
            f"dataset 'biosses': expected sentence pairs in {options.hub}, got other items"
        )
    return loaded if split in (None, ALL) else replace(loaded, items=_pairs_of(pairs, split))


def _pairs_of(pairs: Sequence[SentencePair], split: str) -> tuple[SentencePair, ...]:
    """Return the pairs of one split, in order; the splits are disjoint and cover all pairs."""
    ranked = sorted(pairs, key=lambda pair: digest(["biosses", pair.id]))
    train = round(SIZES["train"] * len(pairs))
    dev = train + round(SIZES["dev"] * len(pairs))
    first, last = {"train": (0, train), "dev": (train, dev), "test": (dev, len(pairs))}[split]
    chosen = {pair.id for pair in ranked[first:last]}
    return tuple(pair for pair in pairs if pair.id in chosen)
