"""BC5CDR: 1,500 PubMed abstracts with chemicals and diseases, 500 each for train, devel and test.

By path: an IOB file, a PubTator file, or a folder that holds one for each split (`train.tsv` or
`train.txt`, and so on). PubTator files are split into sentences and tokens by this package's rules:
the tokens are those of the IOB files, the sentences nearly (4,552 for 4,560 in train). `types`
(`Chemical`, `Disease`) says which entities become labels, or renames them; `documents`, a PubTator
file or a folder of them, says which documents the sentences of IOB files are from. By hub id, any
of the layouts that `hub` reads. Splits joined by a plus (`train+devel`) are read one after the
other; ids and documents then begin with the name of the split.

Reference: Li, Sun, Johnson, Sciaky, Wei, Leaman, Davis, Mattingly, Wiegers, Lu. BioCreative V CDR
task corpus: a resource for chemical disease relation extraction. Database, 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from medstress.datasets.hub import read_hub
from medstress.datasets.iob import read_iob
from medstress.datasets.pubtator import read_pubtator
from medstress.datasets.source import DatasetOptions, LoadedTexts, required_file, take_keys
from medstress.errors import UsageError, did_you_mean
from medstress.hashing import content_hash
from medstress.sentences import TaggedText

SPLITS = {"train": "train", "devel": "devel", "dev": "devel", "validation": "devel", "test": "test"}
"""What users say -> how the files are called."""
PUBTATOR = (".txt", ".pubtator")
_KEYS = ("path", "hub", "split", "types", "scheme", "on_bad_labels")


def load(options: DatasetOptions) -> LoadedTexts:
    """Read one split of BC5CDR, or several.

    Raises:
        UsageError: neither path nor hub, no such file, an unknown split, one named twice, or a
            folder without one.
        DataError: a bad line where `on_bad_row` is ``error``.
    """
    take_keys("bc5cdr", options, *_KEYS, "documents")
    splits = options.split.split("+") if options.split is not None else []
    for split in splits:
        if split not in SPLITS:
            raise UsageError(
                "dataset 'bc5cdr': expected the split train, devel, test, or several such as "
                f"train+devel, got {options.split!r}{did_you_mean(split, SPLITS)}"
            )
    if len({SPLITS[split] for split in splits}) < len(splits):
        raise UsageError(f"dataset 'bc5cdr': expected each split once, got {options.split!r}")
    if len(splits) < 2:
        return _read(options)
    if options.hub is None and options.path is not None and options.path.is_file():
        raise UsageError(
            f"dataset 'bc5cdr': {options.path} is one file, so it holds one split; give the folder "
            f"with the files of {options.split}"
        )
    return _joined(splits, [_read(replace(options, split=split)) for split in splits])


def _read(options: DatasetOptions) -> LoadedTexts:
    if options.hub is not None:
        take_keys("bc5cdr", options, *_KEYS)
        return read_hub("bc5cdr", options)
    path = _file("path", options.path, options.split, (".tsv", *PUBTATOR))
    if path.suffix.lower() in PUBTATOR:
        take_keys("bc5cdr", options, "path", "split", "types")
        return read_pubtator(path, options)
    if options.documents is not None:
        found = _file("documents", options.documents, options.split, PUBTATOR)
        options = replace(options, documents=found)
    return read_iob(path, options)


def _joined(splits: Sequence[str], parts: Sequence[LoadedTexts]) -> LoadedTexts:
    """Several splits as one; ids and documents are numbers of their file, hence the prefix."""
    return LoadedTexts(
        items=tuple(
            _named(item, SPLITS[split])
            for split, part in zip(splits, parts, strict=True)
            for item in part.items
            if isinstance(item, TaggedText)
        ),
        skipped=tuple(sentence for part in parts for sentence in part.skipped),
        source_hash=content_hash([part.source_hash for part in parts]),
        notes=tuple(sentence for part in parts for sentence in part.notes),
    )


def _named(item: TaggedText, split: str) -> TaggedText:
    metadata = dict(item.metadata)
    if "document" in metadata:
        metadata["document"] = f"{split}-{metadata['document']}"
    return replace(item, id=f"{split}-{item.id}", metadata=metadata)


def _file(key: str, path: Path | None, split: str | None, endings: Sequence[str]) -> Path:
    """The file that a key names, or that of the split in the folder that it names."""
    if path is None or not path.is_dir():
        return required_file("bc5cdr", key, path)
    if split is None:
        raise UsageError(
            f"dataset 'bc5cdr': {key} {path} is a folder; say which split of it with split = "
            "'train', 'devel' or 'test'"
        )
    for ending in endings:
        if (found := path / f"{SPLITS[split]}{ending}").is_file():
            return found
    folders = sorted(entry.name for entry in path.iterdir() if entry.is_dir())
    hint = f"; its folders: {', '.join(folders)}" if folders else ""
    names = " or ".join(f"{SPLITS[split]}{ending}" for ending in endings[:2])
    raise UsageError(f"dataset 'bc5cdr': the folder {path} has no file {names}{hint}")
