"""Find the packed exchanges of a run."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medstress.core.errors import StoreError
from medstress.files.writing import unfinished_parts
from medstress.store.packed_tables import FILES, FOLDER, SHARDS

_ANY = "[0-9]*.parquet"

if TYPE_CHECKING:
    from medstress.store.packed import PackedFile
    from medstress.store.packed_calls import PackedCalls


def packed_of(db: sqlite3.Connection, folder: Path) -> PackedCalls | None:
    """Return the packed exchanges of a run; None if all stand in its ledger.

    Raises:
        StoreError: a file is missing.
        ValueError, LookupError, TypeError, AttributeError: medstress did not write the entry.
    """
    query = "SELECT value FROM main.manifest WHERE key = ? ORDER BY id DESC LIMIT 1"
    found = db.execute(query, (SHARDS,)).fetchone()
    told = json.loads(found[0]).get(FILES) if found else None
    if not told:
        return None
    from medstress.store.packed_calls import PackedCalls

    files = [_file(folder / FOLDER, each) for each in told]
    for each in files:
        if not each.path.is_file():
            raise StoreError(
                f"{each.path} is missing: it holds exchanges of the run; copy the whole "
                f"folder {FOLDER}/ with the run, or restore it"
            )
    return PackedCalls(files)


def _file(folder: Path, told: Mapping[str, Any]) -> PackedFile:
    from medstress.store.packed import PackedFile

    name, rows = str(told["file"]), int(told["rows"])
    if Path(name).name != name or not name.endswith(".parquet") or rows < 0:
        raise ValueError(f"packed file {name!r} of {rows} rows")
    return PackedFile(
        path=folder / name, n_rows=rows, n_bytes=int(told["bytes"]), digest=str(told["digest"])
    )


def is_packed_folder(folder: Path) -> bool:
    """Return whether a folder holds nothing but packed exchanges, whole or begun."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    return set(folder.iterdir()) == {*folder.glob(_ANY), *unfinished_parts(folder)}


def remove_packed(run: Path) -> None:
    """Remove the packed exchanges of a run that is given up."""
    folder = run / FOLDER
    if is_packed_folder(folder):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
