"""Text cells of CSV files that no spreadsheet computes, and the way back.

A spreadsheet takes a cell that begins with one of a few characters for a formula. Such a text gets
an apostrophe before it, and so does one that already begins with apostrophes and such a character,
so that taking one away always gives the text that was written.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

_COMPUTED = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")
_NEUTRAL = re.compile("'+[=+\\-@\t\r\n＝＋－＠]")


def neutral(value: Any) -> Any:
    """A value as a cell that is not computed; what is no text stays as it is.

    >>> [neutral(each) for each in ("=1+1", "'=1", "aspirin", "it's", -0.5, None)]
    ["'=1+1", "''=1", 'aspirin', "it's", -0.5, None]
    """
    return f"'{value}" if isinstance(value, str) and _COMPUTED.match(value) else value


def original(cell: str) -> str:
    """The text that `neutral` was given.

    >>> [original(each) for each in ("'=1+1", "''=1", "aspirin", "'tis")]
    ['=1+1', "'=1", 'aspirin', "'tis"]
    """
    return cell[1:] if _NEUTRAL.match(cell) else cell


class Writer:
    """Writes rows as CSV, one header line first; text cells are made neutral."""

    def __init__(
        self, stream: IO[str], fields: Iterable[str], line_end: str = csv.excel.lineterminator
    ) -> None:
        self._writer = csv.DictWriter(stream, fieldnames=list(fields), lineterminator=line_end)
        self._writer.writerow({name: neutral(name) for name in self._writer.fieldnames})

    def write(self, row: Mapping[str, Any]) -> None:
        """Write one row."""
        self._writer.writerow({name: neutral(value) for name, value in row.items()})


class Reader:
    """Reads rows that `Writer` wrote, or that a spreadsheet saved again."""

    def __init__(self, lines: Iterable[str], separator: str = ",") -> None:
        self._reader = csv.DictReader(lines, delimiter=separator)
        self.fields = tuple(original(name) for name in self._reader.fieldnames or ())
        """The header line."""

    def __iter__(self) -> Iterator[dict[str, str]]:
        """The rows by field; what a short row lacks is empty, what a long one adds is left out."""
        for row in self._reader:
            yield {
                original(name): original(cell or "")
                for name, cell in row.items()
                if isinstance(name, str)
            }
