"""The `[[dataset]]` table that a name on the command line stands for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from medstress.core import registry
from medstress.core.errors import UsageError, did_you_mean
from medstress.datasets.hub import is_hub_name

ENDINGS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".xlsx": "xlsx",
    ".jsonl": "jsonl",
    ".parquet": "parquet",
    ".iob": "iob",
    ".conll": "iob",
    ".pubtator": "pubtator",
}
"""File ending -> the source that reads it."""


def guess_dataset(given: str) -> dict[str, Any]:
    """Return the keys of the `[[dataset]]` table for a file, a folder, a source or a hub name.

    Raises:
        UsageError: nothing of this name.

    >>> guess_dataset("sample")
    {'name': 'sample'}
    """
    path = Path(given).expanduser()
    if path.is_file() and (name := ENDINGS.get(path.suffix.lower())):
        return {"name": name, "path": given}
    if not path.exists() and given in registry.installed("datasets"):
        return {"name": given}
    if not path.exists() and is_hub_name(given):
        return {"name": "hub", "hub": given}
    names = [*registry.installed("datasets"), *(str(each) for each in path.parent.glob("*"))]
    raise UsageError(
        f"{given}: expected a file ending in {', '.join(ENDINGS)}, a data set of "
        f"`medstress list datasets`, or owner/name on the Hugging Face hub"
        f"{did_you_mean(given, names)}"
    )
