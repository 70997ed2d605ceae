"""Data sets of the Hugging Face hub, for users with a network.

`hub = "owner/name"` finds the file whose name matches the split (`train`, `validation`, `test`)
among the data set's parquet, JSONL, JSON, TSV, IOB and PubTator files, else among the hub's parquet
conversions; several files that are the parts of one table are read together.
`hub = "owner/name:folder/file.jsonl"` names the file. Data sets that consist of a
script alone cannot be read; name a copy that has files. A downloaded file is read from the hub's
cache without a network. `path` instead of `hub` is a folder: one that the package `datasets` saved,
or a copy of a data set's files.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

from medstress.core.errors import DataError, MedstressError, UsageError, did_you_mean
from medstress.datasets import pairs
from medstress.datasets.questions import read_questions
from medstress.datasets.source import DatasetOptions, Loaded, LoadedTexts, check_keys
from medstress.datasets.standoff import is_pubtator, read_pubtator
from medstress.datasets.tables import (
    columns_of,
    is_saved,
    joined_parts,
    read_table,
    saved_split,
    source_of,
)
from medstress.datasets.tagged import read_iob, read_token_rows
from medstress.files.bounded import data_lines

CONVERTED = "refs/convert/parquet"
ENDINGS = (".parquet", ".jsonl", ".json", ".tsv", ".iob", ".conll", ".txt", ".pubtator")
TABLES = (".csv", ".xlsx")
"""Endings that are looked for where no file has one of `ENDINGS`."""
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


def is_hub_name(given: str) -> bool:
    """Return whether a text has the form `owner/name` or `owner/name:file`."""
    return _NAME.fullmatch(given) is not None


def load(options: DatasetOptions) -> Loaded | LoadedTexts:
    """Read a data set of the hub; the fields of its rows tell questions, tagged texts and pairs.

    Raises:
        UsageError: no `hub`, a missing data set or file, several matching files, or no network.
        DataError: a bad row, if `on_bad_row` is ``error``.
    """
    keys = ("hub", "path", "split", "types", "scheme", "tag", "names", "documents", "columns")
    check_keys("hub", options, *keys, "scale", "on_bad_labels", "answer_base", "encoding", "sheet")
    path = _local("hub", options) if options.path is not None else download("hub", options)
    return _read(path, replace(options, hub=None, split=None, path=path))


def _read_table(path: Path, options: DatasetOptions) -> Loaded | LoadedTexts:
    """Read a table; the names of its columns tell questions, pairs and the rest."""
    table = read_table(path, encoding=options.encoding, sheet=options.sheet)
    columns = columns_of(row for _, row in table.rows if isinstance(row, dict))
    source = "pairs" if "score" in options.columns else source_of([*columns, *options.columns])
    if source == "table":
        return read_questions(table, options)
    if source == "pairs":
        return pairs.read_pairs(path, iter(table.rows), options)
    return read_token_rows(path, table, options)


def _local(source: str, options: DatasetOptions) -> Path:
    """Return the file, or the saved folder of one split, in the folder that `path` names.

    Raises:
        UsageError: no such folder, or no single file of the split in it.
    """
    folder = options.path or Path()
    if options.hub is not None:
        raise UsageError(f"dataset {source!r}: give path or hub, got both")
    if not folder.is_dir():
        raise UsageError(
            f"dataset {source!r}: expected path = a folder that `datasets` saved, or that holds "
            f"the files of a data set, got {folder}; for a file name its format, as in "
            'name = "table"'
        )
    if is_saved(folder):
        return saved_split(folder, options.split)
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    names = [file.relative_to(folder).as_posix() for file in files]
    return folder / choose_table(source, str(folder), names, options.split)[0]


def read_hub(source: str, options: DatasetOptions) -> LoadedTexts:
    """Read tagged texts or pairs from the hub for the data set `source`; see `load`."""
    if options.path is not None:
        raise UsageError(f"dataset {source!r}: give path or hub, got both")
    path = download(source, options)
    loaded = _read(path, replace(options, hub=None, split=None, path=path))
    if isinstance(loaded, Loaded):
        raise DataError(f"dataset {source!r}: expected no questions, got those of {options.hub}")
    return loaded


def download(source: str, options: DatasetOptions) -> Path:
    """Return the local copy of the file, downloading it if it is not in the cache.

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
        from huggingface_hub import HfApi, constants, hf_hub_download, try_to_load_from_cache
        from huggingface_hub.errors import (
            HFValidationError,
            RepositoryNotFoundError,
            RevisionNotFoundError,
        )
    except ImportError:
        raise UsageError(
            f"dataset {source!r}: hub needs the package huggingface_hub: pip install "
            "huggingface_hub; or give path = a file"
        ) from None
    repo, file = given["repo"], given["file"]
    # Its warnings of each attempt say nothing that the one sentence below does not.
    # Set after the import, which sets another level.
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)

    def listed(revision: str | None = None) -> list[str]:
        # Not list_repo_files, which tries again for half a minute where there is no network.
        found = HfApi().dataset_info(repo, revision=revision, timeout=_PATIENCE_S)
        return [each.rfilename for each in found.siblings or ()]

    try:
        revision = None
        try:
            names = listed()
        except Exception:
            cached = None if file is None else try_to_load_from_cache(repo, file, repo_type=_TYPE)
            if isinstance(cached, str):
                return Path(cached)
            raise
        if file is None and not _files_of_split(names, options.split):
            with suppress(RevisionNotFoundError):  # then the refusal names the files that it has
                names, revision = listed(CONVERTED), CONVERTED
        if file is not None and file not in names:
            raise UsageError(
                f"dataset {source!r}: {repo!r} has no file {file!r}"
                f"{did_you_mean(file, names) or '; leave :FILE out to find it by split'}"
            )
        table, files = (file, [file]) if file else choose_table(source, repo, names, options.split)
        local = [
            Path(hf_hub_download(repo, each, repo_type=_TYPE, revision=revision)) for each in files
        ]
        return local[0] if len(local) == 1 else local[0].with_name(PurePosixPath(table).name)
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise UsageError(f"dataset {source!r}: the hub has no data set {repo!r}") from error
    except Exception as error:
        # The client raises its own errors and those of the HTTP library it happens to use.
        if isinstance(error, MedstressError):
            raise
        reason = " ".join(str(error).split())[:160]
        mend = (
            "go online and unset HF_HUB_OFFLINE"
            if constants.HF_HUB_OFFLINE
            else f"check that this machine reaches {constants.ENDPOINT}"
        )
        raise UsageError(
            f"dataset {source!r}: cannot fetch {options.hub!r} from the Hugging Face hub "
            f"({reason}); {mend}, or give path = a file"
        ) from error


def choose_table(
    source: str, repo: str, names: Sequence[str], split: str | None
) -> tuple[str, list[str]]:
    """Return the only readable table whose name matches the split, and its files.

    Raises:
        UsageError: no file matches, or several do.
        DataError: a part of the table is missing.
    """
    matching = joined_parts(_files_of_split(names, split))
    if len(matching) == 1:
        return next(iter(matching.items()))
    what = f"split {split!r}" if split else "data set without a split"
    listed = ", ".join([*matching][:6] or names[:6])
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
    readable = [name for name in names if PurePosixPath(name).suffix.lower() in ENDINGS]
    readable = readable or [n for n in names if PurePosixPath(n).suffix.lower() in TABLES]
    if split is None:
        return readable
    words = next((known for known in SPLIT_WORDS.values() if split in known), (split,))
    return [
        name
        for name in readable
        if any(word.lower() in words for word in _PATH_WORDS.findall(name))
    ]


def _read(path: Path, options: DatasetOptions) -> Loaded | LoadedTexts:
    ending = path.suffix.lower()
    if ending in (".csv", ".xlsx", ".json", ".jsonl", ".parquet") or path.is_dir():
        return _read_table(path, options)
    if ending == ".pubtator" or is_pubtator(path):
        return read_pubtator(path, options)
    header = next((line for _, line in data_lines(path)), "").split("\t")
    if ending == ".tsv" and (options.columns or source_of(header) == "pairs"):
        return pairs.read_pairs(path, pairs.tsv_rows(path), options)
    if ending in ENDINGS:
        return read_iob(path, options)
    raise DataError(f"{path}: expected a file ending in {', '.join(ENDINGS)}; convert it")
