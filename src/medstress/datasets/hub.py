"""Data sets of the Hugging Face hub, for users with a network.

`hub = "owner/name"` finds the file whose name matches the split (`train`, `validation`, `test`)
among the data set's parquet, JSONL, JSON, TSV, IOB and PubTator files, else among the hub's parquet
conversions; `hub = "owner/name:folder/file.jsonl"` names the file. A downloaded file is read from
the hub's cache without a network. Data sets that consist of a script alone cannot be read; name a
copy that has files.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

from medstress.core.errors import DataError, MedstressError, UsageError, did_you_mean
from medstress.core.items import Item
from medstress.core.tables import ENDINGS as TABLES
from medstress.core.tables import columns_of, read_table, source_of
from medstress.datasets.questions import read_questions
from medstress.datasets.sentences import read_iob, read_pairs, read_token_rows
from medstress.datasets.source import DatasetOptions, Loaded, check_keys, is_tagged
from medstress.datasets.standoff import is_pubtator, read_pubtator

CONVERTED = "refs/convert/parquet"
ENDINGS = (".parquet", ".jsonl", ".json", ".tsv", ".iob", ".conll", ".txt", ".pubtator")
SPLIT_WORDS = {
    "train": ("train", "training"),
    "devel": ("devel", "dev", "development", "validation", "valid", "val"),
    "test": ("test", "testing"),
}
"""Split -> the words that stand for it in file paths."""

_TYPE = "dataset"
_PATIENCE_S = 10.0
"""Seconds that the hub has to answer."""
_NAME = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(:(?P<file>.+))?")
_PATH_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def is_hub_name(name: str) -> bool:
    """Return whether a text has the form `owner/name` or `owner/name:file`."""
    return _NAME.fullmatch(name) is not None


def load(options: DatasetOptions) -> Loaded:
    """Read a data set of the hub; the fields of its rows tell questions, tagged texts and pairs.

    Raises:
        UsageError: no `hub`, a missing data set or file, several matching files, or no network.
        DataError: a bad row, if `on_bad_row` is ``error``.
    """
    keys = ("hub", "split", "types", "scheme", "tag", "names", "documents", "columns", "scale")
    check_keys("hub", options, *keys, "on_bad_labels", "answer_base", "encoding", "sheet")
    path = download("hub", options)
    return _read(path, replace(options, hub=None, split=None, path=path))


def read_hub(source: str, options: DatasetOptions, kind: type[Item]) -> Loaded:
    """Read items of one kind from the hub for the data set `source`; see `load`."""
    if options.path is not None:
        raise UsageError(f"dataset {source!r}: give path or hub, got both")
    path = download(source, options)
    loaded = _read(path, replace(options, hub=None, split=None, path=path))
    if (other := loaded.items[0].kind) != kind.kind:
        raise DataError(f"dataset {source!r}: expected {kind.kind} in {options.hub}, got {other}")
    return loaded


def download(source: str, options: DatasetOptions) -> Path:
    """Return the local copy of the file, downloading it if it is not in the cache.

    Raises:
        UsageError: see `load`.
    """
    match = _NAME.fullmatch(options.hub or "")
    if match is None:
        raise UsageError(
            f"dataset {source!r}: expected hub = 'owner/name' or 'owner/name:file', "
            f"got {options.hub!r}"
        )
    try:
        from huggingface_hub import (
            HfApi,
            constants,
            errors,
            hf_hub_download,
            try_to_load_from_cache,
        )
    except ImportError:
        raise UsageError(
            f"dataset {source!r}: hub needs the package huggingface_hub: pip install "
            "huggingface_hub; or give path = a file"
        ) from None
    repo, file = match["repo"], match["file"]
    # Its warnings of each attempt say nothing that the one sentence below does not.
    # Set after the import, which sets another level.
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)

    def listed(revision: str | None = None) -> list[str]:
        # Not list_repo_files, which tries again for half a minute where there is no network.
        info = HfApi().dataset_info(repo, revision=revision, timeout=_PATIENCE_S)
        return [sibling.rfilename for sibling in info.siblings or ()]

    try:
        revision = None
        try:
            names = listed()
        except Exception:
            cached = None if file is None else try_to_load_from_cache(repo, file, repo_type=_TYPE)
            if isinstance(cached, str):
                return Path(cached)
            raise
        if file is None:
            if not _files_of_split(names, options.split):
                # Where there are none, the refusal names the files that it has.
                with suppress(errors.RevisionNotFoundError):
                    names, revision = listed(CONVERTED), CONVERTED
            file = choose_file(source, repo, names, options.split)
        elif file not in names:
            hint = did_you_mean(file, names) or "; leave :FILE out to find it by split"
            raise UsageError(f"dataset {source!r}: {repo!r} has no file {file!r}{hint}")
        return Path(hf_hub_download(repo, file, repo_type=_TYPE, revision=revision))
    except (errors.RepositoryNotFoundError, errors.HFValidationError) as error:
        raise UsageError(f"dataset {source!r}: the hub has no data set {repo!r}") from error
    except MedstressError:
        raise
    except Exception as error:
        # The client raises its own errors and those of the HTTP library it happens to use.
        mend = f"check that this machine reaches {constants.ENDPOINT}"
        if constants.HF_HUB_OFFLINE:
            mend = "go online and unset HF_HUB_OFFLINE"
        raise UsageError(
            f"dataset {source!r}: cannot fetch {options.hub!r} from the Hugging Face hub "
            f"({' '.join(str(error).split())[:160]}); {mend}, or give path = a file"
        ) from error


def choose_file(source: str, repo: str, names: Sequence[str], split: str | None) -> str:
    """Return the only readable file whose name matches the split.

    Raises:
        UsageError: no file matches, or several do.
    """
    matching = _files_of_split(names, split)
    if len(matching) == 1:
        return matching[0]
    what = f"split {split!r}" if split else "data set without a split"
    listed = ", ".join((matching or names)[:6])
    other = f"hub = '{repo}:FILE'" if is_hub_name(repo) else "give one of its files as path"
    raise UsageError(
        f"dataset {source!r}: expected one file of {repo!r} for the {what}, got {len(matching)} "
        f"({listed}); choose one with split = ... or {other}"
    )


def _files_of_split(names: Sequence[str], split: str | None) -> list[str]:
    """Return the readable files of which a word says that they hold a split; None: any.

    >>> _files_of_split(["CDR_TestSet.PubTator.txt", "data/train.parquet"], "test")
    ['CDR_TestSet.PubTator.txt']
    """
    by_ending = {name: PurePosixPath(name).suffix.lower() for name in names}
    readable = [name for name, ending in by_ending.items() if ending in ENDINGS]
    readable = readable or [n for n, ending in by_ending.items() if ending in (".csv", ".xlsx")]
    if split is None:
        return readable
    words = next((synonyms for synonyms in SPLIT_WORDS.values() if split in synonyms), (split,))
    return [n for n in readable if any(word.lower() in words for word in _PATH_WORDS.findall(n))]


def _read(path: Path, options: DatasetOptions) -> Loaded:
    if is_pubtator(path):
        return read_pubtator(path, options)
    if path.suffix.lower() not in TABLES or is_tagged(path):
        return read_iob(path, options)
    table = read_table(path, encoding=options.encoding, sheet=options.sheet)
    columns = [*columns_of(table.good), *options.columns]
    source = "pairs" if "score" in options.columns else source_of(columns)
    if source == "table":
        return read_questions(table, options)
    if source == "pairs":
        return read_pairs(table, options)
    return read_token_rows(table, options)
