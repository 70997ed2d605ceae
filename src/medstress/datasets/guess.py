"""The `[[dataset]]` table that a name on the command line means."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from medstress.core import registry
from medstress.core.errors import MedstressError, UsageError, did_you_mean
from medstress.core.reading import TooLargeError, check_file
from medstress.core.tables import ENDINGS as TABLES
from medstress.core.tables import columns_of, read_table, source_of
from medstress.datasets.layouts import ANSWERS, OPTION_LISTS, QUESTIONS, called
from medstress.datasets.source import is_tagged, refuse_other_formats

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
_LONGEST = 1 << 16
"""Bytes of a line that are looked at."""
_LOOKED_AT = 1_000
"""Lines that tell what a table holds."""
_SPLITS = {"train", "devel", "test"}
"""Names of the files of BC5CDR."""
_SPREADSHEETS = (".xls", ".xlsm", ".xlsb", ".ods", ".numbers")


def guess_dataset(value: str) -> dict[str, Any]:
    """Return the keys of the `[[dataset]]` table for a file, a folder, a source or a hub name.

    The names of a table's columns tell questions from scored pairs and the rest.

    Raises:
        UsageError: nothing of this name, or a file that no source reads.

    >>> guess_dataset("sample")
    {'name': 'sample'}
    """
    path = Path(value).expanduser()
    name = _of_folder(path) if path.is_dir() else _of_file(path) if path.is_file() else None
    if name is not None:
        return {"name": name, "path": value}
    if path.exists():
        if not path.is_dir():
            check_file(path)
        refuse_other_formats(path)
        raise UsageError(f"{value}: {_unread(path)}")
    if value in registry.installed("datasets"):
        return {"name": value}
    inside = sorted(one for one in path.parent.glob("*") if one.exists())
    near = [str(one) for one in inside if one.is_dir() or one.suffix.lower() in ENDINGS]
    is_file = ":" not in value and path.suffix.lower() in (*TABLES, *TEXTS, *_SPREADSHEETS)
    if value.endswith("/") or (is_file and not path.parent.is_dir()):
        folder = path.parent if is_file else path
        raise UsageError(f"{value}: there is no folder {folder}{did_you_mean(value, near)}")
    is_here = "/" in value and path.parent.is_dir()  # a folder of this name is no account of a hub
    if is_file or is_here:
        raise UsageError(f"{value}: there is no such file{did_you_mean(value, near)}")
    from medstress.datasets.hub import is_hub_name

    if is_hub_name(value):
        return {"name": "hub", "hub": value}
    hint = did_you_mean(value, [*registry.installed("datasets"), *near])
    raise UsageError(
        f"{value}: expected a file ending in {', '.join((*TABLES, *TEXTS))}, a data set of "
        "`medstress list datasets`, or owner/name on the Hugging Face hub"
        f"{hint or '; see `medstress list datasets`'}"
    )


def _unread(path: Path) -> str:
    """Return what is wrong with a file or folder that no source reads, and what to do."""
    endings, ending = ", ".join((*TABLES, *TEXTS)), path.suffix.lower()
    if path.is_dir():
        inside = sorted(one.name for one in path.iterdir() if one.suffix.lower() in ENDINGS)
        some = f"; give one of its files, such as {path / inside[0]}" if inside else ""
        return f"expected a file, or a folder of BC5CDR, PubTator or brat files{some}"
    mend = "rename it to end in what it holds, such as .csv or .jsonl"
    if ending in _SPREADSHEETS:
        mend = "open it in a spreadsheet program and save it as .xlsx or .csv"
    return f"expected a file ending in {endings}, got {ending or 'no ending'}; {mend}"


def _of_file(path: Path) -> str | None:
    from medstress.datasets.standoff import is_pubtator

    ending = path.suffix.lower()
    if ending == ".txt":
        if is_pubtator(path):
            return "pubtator"
        if path.with_suffix(".ann").is_file():
            return "brat"
        _check_text(path)
    if ending not in TABLES:
        return TEXTS.get(ending)
    if is_tagged(path):
        return "iob"
    try:
        columns = _columns(path)
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


def _columns(path: Path) -> list[str]:
    try:
        return columns_of(read_table(path, most_lines=_LOOKED_AT).good)
    except TooLargeError:
        raise
    except MedstressError:  # a text in quotation marks may go on behind these lines
        return columns_of(read_table(path).good)


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
    from medstress.datasets.standoff import is_pubtator

    files = [file for file in path.rglob("*") if file.is_file()]
    if any(file.suffix == ".ann" for file in files):
        return "brat"
    here = [file for file in files if file.parent == path]
    abstracts = [file for file in here if is_pubtator(file)]
    if any(file.stem in _SPLITS for file in (*abstracts, *filter(is_tagged, here))):
        return "bc5cdr"
    return "pubtator" if abstracts else None
