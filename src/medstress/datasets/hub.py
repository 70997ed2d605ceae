"""Data sets of the Hugging Face hub, for users with a network.

`hub = "owner/name"` takes the file of the split (`train`, `validation`, `test`, by name) among the
data set's parquet, JSONL, JSON, TSV, IOB and PubTator files, or among those the hub converted to
parquet; `hub = "owner/name:folder/file.jsonl"` takes that file. Data sets that are only a script
need the file of another copy. Files once fetched are read from the hub's cache without a network.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from medstress.datasets import bigbio, iob, pairs, pubtator, rows
from medstress.datasets.source import DatasetOptions, Loaded, LoadedTexts, take_keys
from medstress.errors import DataError, UsageError

CONVERTED = "refs/convert/parquet"
ENDINGS = (".parquet", ".jsonl", ".json", ".tsv", ".iob", ".conll", ".txt", ".pubtator")
WORDS = {
    "train": ("train", "training"),
    "devel": ("devel", "dev", "validation", "valid", "val"),
    "test": ("test", "testing"),
}
"""A split -> words that a file's path says it with."""

_NAME = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(:(?P<file>.+))?")
_PATH_WORDS = re.compile(r"[A-Za-z]+")


def load(options: DatasetOptions) -> Loaded | LoadedTexts:
    """Read a data set of the hub: questions, tagged texts or pairs, by the fields of its rows.

    Raises:
        UsageError: no `hub`, no such data set or file, several files that fit, or no network.
        DataError: a bad row where `on_bad_row` is ``error``.
    """
    take_keys(
        "hub", options, "hub", "split", "types", "scheme", "columns", "scale", "on_bad_labels"
    )
    path = fetched("hub", options)
    plain = replace(options, hub=None, split=None, path=path)
    if path.suffix.lower() in (".jsonl", ".parquet") and _holds_questions(path):
        return rows.load_jsonl(plain) if path.suffix == ".jsonl" else rows.load_parquet(plain)
    return _read(path, plain)


def read_hub(source: str, options: DatasetOptions) -> LoadedTexts:
    """Read tagged texts or pairs of the hub for the data set `source`; see `load`."""
    if options.path is not None:
        raise UsageError(f"dataset {source!r}: give path or hub, got both")
    path = fetched(source, options)
    return _read(path, replace(options, hub=None, split=None, path=path))


def fetched(source: str, options: DatasetOptions) -> Path:
    """The local copy of the file, fetched where there is none.

    Raises:
        UsageError: see `load`.
    """
    given = _NAME.fullmatch(options.hub or "")
    if given is None:
        raise UsageError(
            f"dataset {source!r}: expected hub = 'owner/name' or 'owner/name:file', "
            f"got {options.hub!r}"
        )
    try:
        import huggingface_hub
        from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError
    except ImportError:
        raise UsageError(
            f"dataset {source!r}: hub needs the package huggingface_hub: pip install "
            "huggingface_hub; or give path = a file"
        ) from None
    repo, file, revision = given["repo"], given["file"], None
    try:
        if file is None:
            names = huggingface_hub.list_repo_files(repo, repo_type="dataset")
            if not _fitting(names, options.split):
                revision = CONVERTED
                names = huggingface_hub.list_repo_files(
                    repo, repo_type="dataset", revision=revision
                )
            file = the_file(source, repo, names, options.split)
        return Path(
            huggingface_hub.hf_hub_download(repo, file, repo_type="dataset", revision=revision)
        )
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise UsageError(f"dataset {source!r}: the hub has no data set {repo!r}") from error
    except Exception as error:
        # Of any kind: the client's own errors, and those of the HTTP library it happens to use.
        if isinstance(error, UsageError):
            raise
        reason = " ".join(str(error).split())[:160]
        raise UsageError(
            f"dataset {source!r}: cannot fetch {options.hub!r} from the Hugging Face hub "
            f"({reason}); go online and unset HF_HUB_OFFLINE, or give path = a file"
        ) from error


def the_file(source: str, repo: str, names: Sequence[str], split: str | None) -> str:
    """The one file that fits.

    Raises:
        UsageError: none, or several.
    """
    fitting = _fitting(names, split)
    if len(fitting) == 1:
        return fitting[0]
    what = f"split {split!r}" if split else "data set without a split"
    shown = ", ".join(fitting[:6] or names[:6])
    raise UsageError(
        f"dataset {source!r}: expected one file of {repo!r} for the {what}, got {len(fitting)} "
        f"({shown}); say which with split = ... or hub = '{repo}:FILE'"
    )


def _fitting(names: Sequence[str], split: str | None) -> list[str]:
    readable = [name for name in names if PurePosixPath(name).suffix.lower() in ENDINGS]
    if split is None:
        return readable
    words = next((known for known in WORDS.values() if split in known), (split,))
    return [
        name
        for name in readable
        if any(word.lower() in words for word in _PATH_WORDS.findall(name))
    ]


def _holds_questions(path: Path) -> bool:
    read = pairs.jsonl_rows(path) if path.suffix == ".jsonl" else bigbio.read_rows(path)
    _, first = next(iter(read), ("", {}))
    return isinstance(first, dict) and "options" in first


def _read(path: Path, options: DatasetOptions) -> LoadedTexts:
    ending = path.suffix.lower()
    if ending in (".parquet", ".jsonl", ".json"):
        return bigbio.read_bigbio(path, options)
    if ending == ".pubtator" or (ending == ".txt" and _is_pubtator(path)):
        return pubtator.read_pubtator(path, options)
    if ending == ".tsv" and options.columns:
        return pairs.read_pairs(path, pairs.tsv_rows(path), options)
    if ending in ENDINGS:
        return iob.read_iob(path, options)
    raise DataError(f"{path}: expected a file {', '.join(ENDINGS)}; convert it")


def _is_pubtator(path: Path) -> bool:
    with path.open("rb") as stream:
        return b"|t|" in stream.readline()
