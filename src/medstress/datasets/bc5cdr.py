"""BC5CDR: 1,500 PubMed abstracts with chemicals and diseases, 500 each for train, devel and test.

`path` is an IOB file, a PubTator file, or a folder with one per split (`train.tsv` or `train.txt`,
and so on). This package's rules split PubTator files into sentences and tokens: the tokens are
those of the IOB files, the sentences nearly so (4,552 instead of 4,560 in train). `types`
(`Chemical`, `Disease`) selects or renames the entities that become labels. `documents`, a PubTator
file or a folder of them, tells which documents the sentences of IOB files come from. `hub` takes
any layout that the module `hub` reads. Splits joined by a plus (`train+devel`) are read one after
the other; ids and documents then begin with the name of the split.

Reference: Li, Sun, Johnson, Sciaky, Wei, Leaman, Davis, Mattingly, Wiegers, Lu. BioCreative V CDR
task corpus: a resource for chemical disease relation extraction. Database, 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from medstress.core.errors import UsageError, did_you_mean
from medstress.core.hashing import content_hash
from medstress.core.sentences import TaggedText
from medstress.datasets.hub import read_hub
from medstress.datasets.iob import read_iob
from medstress.datasets.pubtator import read_pubtator
from medstress.datasets.source import DatasetOptions, LoadedTexts, check_keys, required_file

SPLITS = {"train": "train", "devel": "devel", "dev": "devel", "validation": "devel", "test": "test"}
"""Split name, as users write it -> stem of the file name."""
PUBTATOR = (".txt", ".pubtator")
_KEYS = ("path", "hub", "split", "types", "scheme", "on_bad_labels")


def load(options: DatasetOptions) -> LoadedTexts:
    """Read one split of BC5CDR, or several.

    Raises:
        UsageError: neither path nor hub, a missing file, an unknown or repeated split, or a folder
            without a split.
        DataError: a bad line, if `on_bad_row` is ``error``.
    """
    check_keys("bc5cdr", options, *_KEYS, "documents")
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
    return _joined(splits, [_read(replace(options, split=split)) for split in splits])


def _read(options: DatasetOptions) -> LoadedTexts:
    if options.hub is not None:
        check_keys("bc5cdr", options, *_KEYS)
        return read_hub("bc5cdr", options)
    path = _file("path", options.path, options.split, (".tsv", *PUBTATOR))
    if path.suffix.lower() in PUBTATOR:
        check_keys("bc5cdr", options, "path", "split", "types")
        return read_pubtator(path, options)
    if options.documents is not None:
        found = _file("documents", options.documents, options.split, PUBTATOR)
        options = replace(options, documents=found)
    return read_iob(path, options)


def _joined(splits: Sequence[str], parts: Sequence[LoadedTexts]) -> LoadedTexts:
    """Join splits; prefix ids and documents, which are unique within a file only."""
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


def _with_prefix(item: TaggedText, split: str) -> TaggedText:
    metadata = dict(item.metadata)
    if "document" in metadata:
        metadata["document"] = f"{split}-{metadata['document']}"
    return replace(item, id=f"{split}-{item.id}", metadata=metadata)


def _file(key: str, path: Path | None, split: str | None, endings: Sequence[str]) -> Path:
    """Return the file that `key` names, or the split's file if it names a folder."""
    if path is None or not path.is_dir():
        return required_file("bc5cdr", key, path)
    if split is None:
        raise UsageError(
            f"dataset 'bc5cdr': {key} {path} is a folder; choose a split of it with split = "
            "'train', 'devel' or 'test'"
        )
    for ending in endings:
        if (found := path / f"{SPLITS[split]}{ending}").is_file():
            return found
    folders = sorted(entry.name for entry in path.iterdir() if entry.is_dir())
    hint = f"; it has the folders {', '.join(folders)}" if folders else ""
    names = " or ".join(f"{SPLITS[split]}{ending}" for ending in endings[:2])
    raise UsageError(f"dataset 'bc5cdr': the folder {path} has no file {names}{hint}")
