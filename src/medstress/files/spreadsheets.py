"""CSV cells that no spreadsheet takes for a formula, and how to read them back.

A spreadsheet evaluates a cell that begins with one of a few characters. `neutral` puts an
apostrophe before such a text. It also does so if the text already begins with apostrophes and
such a character, so that removing one apostrophe always restores the text.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")
_NEUTRAL = re.compile("'+[=+\\-@\t\r\n＝＋－＠]")


def neutral(value: Any) -> Any:
    """Return a value as a cell that no spreadsheet evaluates; only texts are changed.

    >>> [neutral(each) for each in ("=1+1", "'=1", "aspirin", "it's", -0.5, None)]
    ["'=1+1", "''=1", 'aspirin', "it's", -0.5, None]
    """
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def original(cell: str) -> str:
    """Return the text that `neutral` was given.

    >>> [original(each) for each in ("'=1+1", "''=1", "aspirin", "'tis")]
    ['=1+1', "'=1", 'aspirin', "'tis"]
    """
    return cell[1:] if _NEUTRAL.match(cell) else cell


class Writer:
    """Writes a header line and then rows as CSV; makes text cells neutral."""

    def __init__(
        self, stream: IO[str], fields: Iterable[str], line_end: str = csv.excel.lineterminator
    ) -> None:
        self._stream, self._line_end = stream, line_end
        self._fields = list(fields)
        self.write({name: name for name in self._fields})

    def write(self, row: Mapping[str, Any]) -> None:
        """Write one row."""
        buffer = io.StringIO(newline="")
        # The default line end makes `csv` quote both CR and LF: either ends a line for some reader.
        writer = csv.DictWriter(buffer, self._fields)
        writer.writerow({name: neutral(value) for name, value in row.items()})
        line = buffer.getvalue().removesuffix(csv.excel.lineterminator)
        self._stream.write(line + self._line_end)


class Reader:
    """Reads rows that `Writer` wrote, even if a spreadsheet saved them since."""

    def __init__(self, lines: Iterable[str], separator: str = ",") -> None:
        self._reader = csv.DictReader(lines, delimiter=separator)
        self.fields = tuple(original(name) for name in self._reader.fieldnames or ())
        """The header line."""

    def __iter__(self) -> Iterator[dict[str, str]]:
        """Yield each row by field; missing cells become empty, extra cells are dropped."""
        for row in self._reader:
            yield {
                original(name): original(cell or "")
                for name, cell in row.items()
                if isinstance(name, str)
            }
