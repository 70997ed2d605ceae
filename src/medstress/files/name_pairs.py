"""Tables of pairs of names, a list that a user writes."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from medstress.core.drug_names import folded
from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash
from medstress.files.reading import reading

_DELIMITERS = {".csv": ",", ".tsv": "\t"}


@dataclass(frozen=True, slots=True)
class NamePairs:
    """Pairs of names that a file lists."""

    rows: tuple[tuple[str, str], ...]
    """The pairs, as written."""

    @property
    def hash(self) -> str:
        """Content hash of the pairs."""
        return content_hash([list(row) for row in self.rows])


def read_name_pairs(path: Path, what: str, columns: tuple[str, str]) -> NamePairs:
    """Read two columns of a CSV or TSV file with a header; further columns are ignored.

    Args:
        path: the file.
        what: the key and value that name it, for messages.
        columns: the names of the two columns, in any case.

    Raises:
        UsageError: there is no such file, it is no table, or it lacks a column, a name or rows.
    """
    advice = f"give a .csv or .tsv table with the columns {' and '.join(columns)}"
    delimiter = _DELIMITERS.get(path.suffix.lower())
    if not path.is_file():
        raise UsageError(f"{what}: no such table at {path}; {advice}")
    if delimiter is None:
        raise UsageError(f"{what}: expected a name in .csv or .tsv, got {path.name!r}; {advice}")
    with (
        reading(lambda why: f"{what}: expected a table in UTF-8 in {path}, got {why}; {advice}"),
        path.open(encoding="utf-8-sig", newline="") as lines,
    ):
        rows = [row for row in csv.reader(lines, delimiter=delimiter, strict=True) if any(row)]
    header = [name.strip().casefold() for name in rows[0]] if rows else []
    if missing := [name for name in columns if name not in header]:
        raise UsageError(
            f"{what}: the first line of {path} has no column {missing[0]!r}, but "
            f"{', '.join(map(repr, header)) or 'nothing'}; {advice}"
        )
    places = [header.index(name) for name in columns]
    found = []
    for number, row in enumerate(rows[1:], start=2):
        first, second = (row[at].strip() if at < len(row) else "" for at in places)
        if not first or not second:
            raise UsageError(
                f"{what}: row {number} of {path} lacks a name; every row names both {columns[0]} "
                f"and {columns[1]}"
            )
        found.append((first, second))
    if not any(folded(first) != folded(second) for first, second in found):
        raise UsageError(
            f"{what}: expected at least one pair of different names under the header of {path}"
        )
    return NamePairs(tuple(found))
