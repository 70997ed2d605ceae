"""The conformance suite of data sets."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from medstress.core.errors import MedstressError, reason
from medstress.core.items import Item
from medstress.datasets.source import DatasetOptions, Loaded, LoadedTexts

Load = Callable[[DatasetOptions], Any]
_DAMAGED = {
    "an empty file": b"",
    "a file that is no text": b"\xff\xfe\x00\x9d\x00",
}


def check_dataset(load: Load, options: DatasetOptions) -> None:
    """Check that a source of data keeps the contract of the entry points `medstress.datasets`.

    It returns `Loaded` or `LoadedTexts` with at least one item, all of one kind, with ids that are
    texts and differ. Read again, it gives the same. Skipped rows are told in one sentence each.
    Where the options name a file: a file that is missing, empty or no text is refused with a
    `MedstressError`, whose sentence medstress prints; and a changed file has another
    `source_hash`, by which a resumed run notices.

    Args:
        load: the function that the entry point names.
        options: of a small example.

    Raises:
        AssertionError: one sentence.

    >>> from medstress.datasets.named import load_sample
    >>> check_dataset(load_sample, DatasetOptions())
    """
    loaded = load(options)
    _check_loaded(loaded)
    if load(options) != loaded:
        raise AssertionError("read a second time, the same options give something else")
    path = options.path
    if path is not None and path.is_file():
        _check_refusals(load, options, path)
        _check_hash(load, options, path, loaded.source_hash)


def _check_loaded(loaded: Any) -> None:
    if not isinstance(loaded, Loaded | LoadedTexts):
        raise AssertionError(f"expected Loaded or LoadedTexts, got {type(loaded).__name__}")
    items = loaded.questions if isinstance(loaded, Loaded) else loaded.items
    if not isinstance(items, tuple) or not items:
        raise AssertionError(f"expected a tuple of at least one item, got {items!r}")
    if strange := next((each for each in items if not isinstance(each, Item)), None):
        raise AssertionError(f"expected an item, got {type(strange).__name__}")
    kinds = {item.kind for item in items}
    if len(kinds) > 1:
        raise AssertionError(f"expected items of one kind, got {' and '.join(sorted(kinds))}")
    ids = [item.id for item in items]
    if strange := next((each for each in ids if not isinstance(each, str) or not each), None):
        raise AssertionError(f"expected ids that are texts, got {strange!r}")
    if twice := next((each for each in ids if ids.count(each) > 1), None):
        raise AssertionError(f"two items have the id {twice!r}")
    if not isinstance(loaded.source_hash, str) or not loaded.source_hash:
        raise AssertionError(f"expected a source_hash, got {loaded.source_hash!r}")
    for sentence in (*loaded.skipped, *loaded.notes):
        if not isinstance(sentence, str) or len(sentence.splitlines()) != 1:
            raise AssertionError(f"expected one sentence on one line, got {sentence!r}")


def _check_refusals(load: Load, options: DatasetOptions, path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        missing = Path(folder) / path.name
        _check_refusal(load, replace(options, path=missing), "a missing file")
        for what, content in _DAMAGED.items():
            missing.write_bytes(content)
            _check_refusal(load, replace(options, path=missing), what)


def _check_refusal(load: Load, options: DatasetOptions, what: str) -> None:
    try:
        load(options)
    except MedstressError:
        return
    except Exception as error:  # noqa: BLE001 what a source raises is what is judged
        told = f"got {type(error).__name__}: {reason(error)}"
    else:
        told = "it was read"
    raise AssertionError(f"expected a UsageError or DataError for {what}, but {told}")


def _check_hash(load: Load, options: DatasetOptions, path: Path, known: str) -> None:
    """A line end at the end changes no item, but the bytes."""
    with tempfile.TemporaryDirectory() as folder:
        changed = Path(folder) / path.name
        changed.write_bytes(path.read_bytes() + b"\n")
        try:
            other = load(replace(options, path=changed))
        except MedstressError:
            return
    if other.source_hash == known:
        raise AssertionError("another file has the same source_hash: use file_hash(options.path)")
