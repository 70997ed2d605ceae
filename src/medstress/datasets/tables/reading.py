"""Reads a file or folder of rows by its ending."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from medstress.core.errors import DataError, UsageError
from medstress.datasets.tables.columnar import is_saved, read_parquet, read_saved, saved_split
from medstress.datasets.tables.delimited import read_delimited
from medstress.datasets.tables.objects import read_objects
from medstress.datasets.tables.parts import parts_of
from medstress.datasets.tables.sheets import read_sheet
from medstress.datasets.tables.table import Table
from medstress.files.bounded import read_data

TEXT = (".csv", ".tsv", ".jsonl", ".json")
"""Endings of files with an encoding."""
ENDINGS = (*TEXT, ".xlsx", ".parquet")


def read_table(
    path: Path,
    *,
    encoding: str | None = None,
    sheet: str | None = None,
    split: str | None = None,
    ending: str | None = None,
) -> Table:
    """Read the rows of a file, or of a folder that `datasets` saved.

    Args:
        path: the file or folder, or the pattern of a table's parts, which are read together.
        encoding: of text files; None: UTF-8, or what a byte order mark says.
        sheet: of Excel files.
        split: of saved folders with several.
        ending: what tells the format; None: the file's own.

    Raises:
        UsageError: another ending, or a file that cannot be read.
        DataError: a file of another format, or without rows.
    """
    ending = ending or path.suffix.lower()
    if parts := parts_of(path):
        tables = [read_table(p, encoding=encoding, sheet=sheet, ending=ending) for p in parts]
        return _joined(path, tables)
    read = _READERS.get(ending)
    if is_saved(path):
        table = read_saved(saved_split(path, split))
    elif ending in TEXT and read is not None:
        table = read(path, encoding)
    elif ending == ".xlsx":
        table = read_sheet(path, sheet)
    elif ending == ".parquet":
        table = read_parquet(path)
    else:
        raise UsageError(
            f"{path}: expected a file ending in {', '.join(ENDINGS)}, or a folder that `datasets` "
            "saved; convert it"
        )
    if not table.rows:
        is_empty = path.is_file() and not read_data(path).strip()
        content = "an empty file" if is_empty else "none"
        raise DataError(f"{path}: expected at least one row, got {content}; give a file with rows")
    return table


def _joined(path: Path, tables: Sequence[Table]) -> Table:
    """Return the rows of all parts; their places begin with the part's number."""
    rows = tuple(
        (f"part {n}, {place}", row)
        for n, table in enumerate(tables, start=1)
        for place, row in table.rows
    )
    told = dict.fromkeys([f"{len(tables)} files", *(t.told for t in tables if t.told)])
    return Table(path=path, rows=rows, names=tables[0].names, told=", ".join(told))


_READERS: dict[str, Callable[[Path, str | None], Table]] = {
    ".csv": read_delimited,
    ".tsv": read_delimited,
    ".jsonl": read_objects,
    ".json": read_objects,
}
