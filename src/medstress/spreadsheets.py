"""Text cells of CSV files that no spreadsheet computes, and the way back.

A spreadsheet takes a cell that begins with one of a few characters for a formula. Such a text gets
an apostrophe before it, and so does one that already begins with apostrophes and such a character,
so that taking one away always gives the text that was written.
"""

from __future__ import annotations

import csv
import io
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
        self._stream, self._line_end = stream, line_end
        self._fields = list(fields)
        self.write({name: name for name in self._fields})

    def write(self, row: Mapping[str, Any]) -> None:
        """Write one row."""
        held = io.StringIO(newline="")
        # Only what is in its own line end does the writer quote, and each of the two ends a line
        # for some reader.
        writer = csv.DictWriter(held, self._fields)
        writer.writerow({name: neutral(value) for name, value in row.items()})
        line = held.getvalue().removesuffix(csv.excel.lineterminator)
        self._stream.write(line + self._line_end)


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
