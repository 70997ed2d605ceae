"""CSV and TSV: a header, then one row a record.

CSV follows RFC 4180. Its separator is the one of ``, ; tab |`` that gives the header at least three
columns and the most rows as many fields as the header; Excel writes semicolons in half of Europe.
TSV has no quotation marks, unless a field begins and ends with them and all rows fit that reading.
An empty cell is no value; white space around a cell is dropped.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from medstress.core.errors import DataError
from medstress.datasets.tables.decoding import read_decoded
from medstress.datasets.tables.table import Row, RowOrError, Table
from medstress.files.bounded import (
    MAX_COLUMNS,
    MAX_LINE,
    MAX_LINES,
    MAX_ROWS,
    check_most,
    within_limits,
)

_SEPARATORS = (",", ";", "\t", "|")
_SPOKEN = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_EXCEL = re.compile(r"sep=(.)\r?\n")
_LONGEST = MAX_LINE
"""Characters of a cell; Python's own limit is 131,072."""
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_PEEKED = 200
"""Records from which the separator is told."""

Record = tuple[str, list[str] | DataError]
"""Place and fields, or the error about them."""


def read_delimited(path: Path, encoding: str | None) -> Table:
    """Read a .csv or .tsv file.

    Raises:
        UsageError: it cannot be read.
        DataError: not text in its encoding, a quotation mark that never closes, or a header that
            names a column twice.
    """
    text, unusual = read_decoded(path, encoding)
    if text.lstrip().startswith("{"):
        raise DataError(
            f"{path}, line 1: expected a header with the names of the columns, got JSON; rename "
            'the file to end in .jsonl and give name = "jsonl"'
        )
    check_most(path, text.count("\n"), MAX_LINES, "lines")
    told = [unusual] if unusual else []
    if path.suffix.lower() == ".tsv":
        records = list(within_limits(path, _tabbed(path, text)))
    else:
        if stated := _EXCEL.match(text):
            text, separator = text[stated.end() :], stated[1]
        else:
            separator = _separator(path, text)
        if separator != ",":
            told.append(f"separated by {_SPOKEN.get(separator, repr(separator))}")
        first = 2 if stated else 1
        quoted = _quoted(path, text, separator, first_line=first)
        records = list(within_limits(path, quoted))
    _check_first(path, records)
    rows = tuple(rows_under_header(path, records))
    return Table(path=path, rows=rows, told=", ".join(told))


def _check_first(path: Path, records: Sequence[Record]) -> None:
    filled = [
        (place, [field for field in fields if field])
        for place, fields in islice(records, _PEEKED)
        if isinstance(fields, list) and any(fields)
    ]
    if len(filled) > 1:
        check_no_title(path, filled[0][0], filled[0][1], len(filled[1][1]))


def check_no_title(path: Path, place: str, first: Sequence[str], n_second: int) -> None:
    """Refuse a title above the header.

    Args:
        path: the file.
        place: where the first row with content stands.
        first: its filled cells.
        n_second: the number of filled cells in the next row.

    Raises:
        DataError: one cell stands above three or more.
    """
    if len(first) == 1 and n_second > 2:
        raise DataError(
            f"{path}, {place}: expected a header with the names of the columns, got {first[0]!r} "
            "alone; delete what stands above the header"
        )


def rows_under_header(path: Path, records: Sequence[Record]) -> Iterator[tuple[str, RowOrError]]:
    """Yield the rows by column name; the first record that is not empty is the header.

    Raises:
        DataError: the header cannot be read, or names a column twice.
    """
    header: list[str] | None = None
    for place, fields in records:
        if isinstance(fields, DataError):
            if header is None:
                raise DataError(f"{path}, {place}: {fields} (is it the header?)")
            yield place, fields
        elif any(fields):
            if header is None:
                header = checked_header(path, place, fields)
            else:
                yield place, _row(header, fields)


def checked_header(path: Path, place: str, fields: Sequence[str]) -> list[str]:
    """Return the names of the columns; one without a name is called by its number.

    Raises:
        DataError: too many columns, or two have the same name.
    """
    check_most(path, len(fields), MAX_COLUMNS, "columns", "leave some out")
    names = [name or f"column {n}" for n, name in enumerate(fields, start=1)]
    twice = next((name for name, n in Counter(names).items() if n > 1), None)
    if twice is not None:
        raise DataError(
            f"{path}, {place}: expected each column once in the header, got {twice!r} twice; "
            "rename one"
        )
    return names


def _row(header: Sequence[str], fields: Sequence[str]) -> RowOrError:
    if len(fields) < len(header) or any(fields[len(header) :]):
        return DataError(
            f"expected {len(header)} fields as in the header, got {len(fields)}; put quotation "
            "marks around a text that holds the separator"
        )
    row: Row = {name: field or None for name, field in zip(header, fields, strict=False)}
    for name, field in row.items():
        if field is not None and "\0" in field:
            return DataError(f"field {name!r}: expected text, got the character NUL; remove it")
    return row


def _separator(path: Path, text: str) -> str:
    """Return the separator of a CSV file."""
    fits: dict[str, int] = {}
    for separator in _SEPARATORS:
        try:
            peeked = list(islice(_quoted(path, text, separator), _PEEKED))
        except DataError:  # said when the file is read
            continue
        counts = [len(fields) for _, fields in peeked if isinstance(fields, list) and any(fields)]
        if counts and counts[0] >= 3:
            fits[separator] = counts.count(counts[0])
    return max(fits, key=lambda separator: fits[separator], default=",")


def _quoted(path: Path, text: str, separator: str, first_line: int = 1) -> Iterator[Record]:
    csv.field_size_limit(_LONGEST)
    lines = (line[0] for line in _LINE.finditer(text))
    reader = csv.reader(lines, delimiter=separator, strict=True)
    while True:
        start = reader.line_num + first_line
        try:
            fields: list[str] | DataError = [field.strip() for field in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:
            said = str(error)
            # The field took in all that follows, good rows among it: nothing to skip over.
            if "unexpected end" in said:
                raise DataError(
                    f"{path}, line {start}: expected every quotation mark to be closed, got one "
                    "that is not; close it, or write it twice inside a text"
                ) from error
            fields = DataError(f"expected fields in the form of CSV ({said}); fix the line")
        end = reader.line_num + first_line - 1
        yield (f"line {start}" if start >= end else f"lines {start} to {end}"), fields


def _tabbed(path: Path, text: str) -> Iterator[Record]:
    check_most(path, text.count("\n"), MAX_ROWS, "lines")
    lines = [line.rstrip("\r") for line in text.split("\n")]
    records: list[Record] = [
        (f"line {n}", [field.strip() for field in line.split("\t")])
        for n, line in enumerate(lines, start=1)
    ]
    fields = [record for _, record in records if isinstance(record, list)]
    if any(one.startswith('"') for record in fields for one in record):
        try:
            quoted = list(_quoted(path, text, "\t"))
        except DataError:
            quoted = []
        found = [record for _, record in quoted if not isinstance(record, list) or any(record)]
        if found and {len(one) if isinstance(one, list) else -1 for one in found} == {
            len(next(record for record in fields if any(record)))
        }:
            return iter(quoted)
        _check_halves(path, records)
    return iter(records)


def _check_halves(path: Path, records: Sequence[Record]) -> None:
    """Refuse a file in which a line ends inside a text in quotation marks.

    Its second half would pass as a row of its own.
    """
    rows = [(place, fields) for place, fields in records if isinstance(fields, list)]
    n = len(next(fields for _, fields in rows if any(fields)))
    for place, fields in rows:
        last = fields[-1]
        if len(fields) < n and last.startswith('"') and (last == '"' or not last.endswith('"')):
            raise DataError(
                f"{path}, {place}: expected {n} fields as in the header, got {len(fields)} and a "
                "quotation mark that closes on another line, though other rows do not fit that; "
                "write each row on one line, or save the file as CSV"
            )
