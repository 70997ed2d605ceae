"""The `[[dataset]]` table that a name on the command line stands for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from medstress.core import registry
from medstress.core.errors import MedstressError, UsageError, did_you_mean
from medstress.datasets.layouts import ANSWERS, OPTION_LISTS, QUESTIONS, called
from medstress.datasets.source import refuse_other_formats
from medstress.datasets.tables import ENDINGS as TABLES
from medstress.datasets.tables import columns_of, is_saved, read_table, source_of
from medstress.files.bounded import TooLargeError

TEXTS = {
    ".iob": "iob",
    ".conll": "iob",
    ".bio": "iob",
    ".pubtator": "pubtator",
    ".ann": "brat",
    ".txt": "iob",
}
"""Ending of a file that is no table -> the source that reads it."""
ENDINGS = (*TABLES, *(ending for ending in TEXTS if ending != ".txt"))
"""Endings that say that a file holds data; `.txt` may be anything."""
_LOOKED_AT, _LONGEST = 1_000, 1 << 16
"""Lines that tell what a text file is, and how much of each is read."""
_SPLITS = {"train", "devel", "test"}
"""Names of the files of BC5CDR."""
_SPREADSHEETS = (".xls", ".xlsm", ".xlsb", ".ods", ".numbers")
_TAGGED = re.compile(r"\S+\t(?:O|[BIESLU](?:-\S+)?)\s*")


def guess_dataset(given: str) -> dict[str, Any]:
    """Return the keys of the `[[dataset]]` table for a file, a folder, a source or a hub name.

    The names of a table's columns tell questions from scored pairs and the rest.

    Raises:
        UsageError: nothing of this name, or a file that no source reads.

    >>> guess_dataset("sample")
    {'name': 'sample'}
    """
    path = Path(given).expanduser()
    name = _of_folder(path) if path.is_dir() else _of_file(path) if path.is_file() else None
    if name is not None:
        return {"name": name, "path": given}
    if path.exists():
        refuse_other_formats(path)
        raise UsageError(f"{given}: {_unread(path)}")
    if given in registry.installed("datasets"):
        return {"name": given}
    folders = [str(one) for one in path.parent.glob("*") if one.is_dir()]
    files = [str(one) for one in path.parent.glob("*") if one.suffix.lower() in ENDINGS]
    is_file = ":" not in given and path.suffix.lower() in (*TABLES, *TEXTS, *_SPREADSHEETS)
    if given.endswith("/") or (is_file and not path.parent.is_dir()):
        folder = path.parent if is_file else path
        near = did_you_mean(given, folders)
        raise UsageError(f"{given}: there is no folder {folder}{near}")
    if is_file:
        raise UsageError(f"{given}: there is no such file{did_you_mean(given, files)}")
    from medstress.datasets.hub import is_hub_name

    if is_hub_name(given):
        return {"name": "hub", "hub": given}
    names = [*registry.installed("datasets"), *files, *folders]
    raise UsageError(
        f"{given}: expected a file ending in {', '.join((*TABLES, *TEXTS))}, a folder that "
        "`datasets` saved, a data set of `medstress list datasets`, or owner/name on the Hugging "
        f"Face hub{did_you_mean(given, names) or '; see `medstress list datasets`'}"
    )


def _unread(path: Path) -> str:
    """Return what is wrong with a file or folder that no source reads, and what to do."""
    known, ending = ", ".join((*TABLES, *TEXTS)), path.suffix.lower()
    if path.is_dir():
        return f"expected a folder with data, got one without a file ending in {known}"
    mend = "rename it to end in what it holds, such as .csv or .jsonl"
    if ending in _SPREADSHEETS:
        mend = "open it in a spreadsheet program and save it as .xlsx or .csv"
    elif ending == ".arrow":
        mend = f"give the folder that `datasets` saved: {path.parent}"
    return f"expected a file ending in {known}, got {ending or 'no ending'}; {mend}"


def _of_file(path: Path) -> str | None:
    ending = path.suffix.lower()
    if ending == ".txt":
        from medstress.datasets.standoff import is_pubtator

        if is_pubtator(path):
            return "pubtator"
        if path.with_suffix(".ann").is_file():
            return "brat"
        _check_text(path)
    if ending not in TABLES:
        return TEXTS.get(ending)
    if ending == ".tsv" and _is_tagged(path):
        return "iob"
    try:
        columns = columns_of(read_table(path).good)
    except TooLargeError:
        raise
    except MedstressError:
        refuse_other_formats(path)
        return "table"  # whose reader says what is wrong
    if {"pair_id", "sentence1", "sentence2", "mean_score"} <= set(columns):
        return "biosses"
    source = source_of(columns)
    if source == "table" and not called(columns, QUESTIONS):
        refuse_other_formats(path)
    return source


def _check_text(path: Path) -> None:
    """Refuse a table under the ending .txt, which would be read as tagged tokens.

    Raises:
        UsageError: its first line is the header of a table of questions, or JSON.
    """
    with path.open(encoding="utf-8-sig", errors="replace") as stream:
        first = stream.readline(_LONGEST).strip()
    form = "jsonl" if first.startswith("{") else ""
    for ending, marks in (("tsv", "\t"), ("csv", "[,;|]")):
        cells = re.split(marks, first)
        if len(cells) > 2 and called(cells, QUESTIONS) and called(cells, (*ANSWERS, *OPTION_LISTS)):
            form = form or ending
    if form:
        raise UsageError(
            f"{path}: expected tokens and labels, or PubTator, got a table; rename it to "
            f"{path.with_suffix(f'.{form}').name}"
        )


def _of_folder(path: Path) -> str | None:
    if is_saved(path):
        return "hub"
    from medstress.datasets.standoff import is_pubtator

    files = [file for file in path.rglob("*") if file.is_file()]
    if any(file.suffix == ".ann" for file in files):
        return "brat"
    here = [file for file in files if file.parent == path]
    abstracts = [file for file in here if is_pubtator(file)]
    tokens = [file for file in here if file.suffix.lower() == ".tsv" and _is_tagged(file)]
    if any(file.stem in _SPLITS for file in (*abstracts, *tokens)):
        return "bc5cdr"
    if abstracts:
        return "pubtator"
    return "hub" if any(file.suffix.lower() in TABLES for file in files) else None


def _is_tagged(path: Path) -> bool:
    """Return whether the first line with content is a token and its label."""
    with path.open(encoding="utf-8", errors="replace") as stream:
        lines = (stream.readline(_LONGEST) for _ in range(_LOOKED_AT))
        first = next((line for line in lines if line.strip() and "DOCSTART" not in line), "")
    return _TAGGED.fullmatch(first) is not None
