"""CSV cells that no spreadsheet takes for a formula, and how to read them back.

A spreadsheet evaluates a cell that begins with one of a few characters, and where a semicolon
separates cells, what follows one is a cell too. `neutral` puts an apostrophe before such a text,
and before as much of a text behind a semicolon. It also does so if apostrophes stand there already,
so that removing one of them always restores the text.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

_BEGINS = "'*[=+\\-@\t\r\n＝＋－＠]"
_STEERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\r(?!\n)")
"""Characters that control a terminal or turn the writing direction; a cell has a mark for each."""
_FORMULA = re.compile(f"(^|;)(?={_BEGINS})")
_NEUTRAL = re.compile(f"(^|;)'(?={_BEGINS})")


def neutral(value: Any) -> Any:
    """Return a value as a cell that no spreadsheet evaluates; only texts are changed.

    >>> [neutral(cell) for cell in ("=1+1", "'=1", "aspirin", "it's", "a;=1", -0.5, None)]
    ["'=1+1", "''=1", 'aspirin', "it's", "a;'=1", -0.5, None]
    """
    return _FORMULA.sub(r"\1'", value) if isinstance(value, str) else value


def original(cell: str) -> str:
    """Return the text that `neutral` was given.

    >>> [original(cell) for cell in ("'=1+1", "''=1", "aspirin", "'tis", "a;'=1")]
    ['=1+1', "'=1", 'aspirin', "'tis", 'a;=1']
    """
    return _NEUTRAL.sub(r"\1", cell)


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
        writer.writerow({name: neutral(_marked(value)) for name, value in row.items()})
        line = buffer.getvalue().removesuffix(csv.excel.lineterminator)
        self._stream.write(line + self._line_end)


def _marked(value: Any) -> Any:
    return _STEERS.sub("\N{REPLACEMENT CHARACTER}", value) if isinstance(value, str) else value


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
