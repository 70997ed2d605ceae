"""Files of rows, whatever their format.

CSV and TSV are read by Python's `csv` and JSON by `json`, because a bad row is named by its line;
Excel by openpyxl, Parquet by polars, which are loaded only for them. What is ambiguous or would
lose something is refused, not repaired.
"""

from __future__ import annotations

import codecs
import csv
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeAlias, TypeVar
from zipfile import ZipFile

from medstress.core.attacked import FIELD, HEAD
from medstress.core.errors import DataError, UsageError, did_you_mean
from medstress.core.extras import importing
from medstress.core.reading import (
    MAX_BYTES,
    MAX_CELLS,
    MAX_COLUMNS,
    MAX_LINE,
    MAX_LINES,
    MAX_ROWS,
    check_json,
    check_json_size,
    check_line_lengths,
    check_most,
    decode_utf8,
    loading,
    read_data,
    reading,
    within_limits,
)
from medstress.core.words import shorten

if TYPE_CHECKING:
    from openpyxl.worksheet.worksheet import Worksheet
    from polars import Series

T = TypeVar("T")
P = ParamSpec("P")
Row: TypeAlias = dict[str, Any]
RowOrError: TypeAlias = Row | DataError
"""A row, or the error about it."""
Placed: TypeAlias = tuple[str, RowOrError]
"""Place, such as `line 3`, and row."""
Record: TypeAlias = tuple[str, list[Any] | DataError]
"""Place and cells of a line of CSV or of a sheet, or the error about them."""
Source: TypeAlias = Literal["table", "pairs", "iob", "attacked"]

TEXT = (".csv", ".tsv", ".jsonl", ".json")
"""Endings of files with an encoding."""
ENDINGS = (*TEXT, ".xlsx", ".parquet")
MAX_SHEET = 500_000
"""Cells of a sheet: openpyxl takes 20 seconds and half a gigabyte for as many."""
_MAX_UNPACKED = 128 << 20
"""Bytes of an Excel file, which is a zip file, once unpacked."""
MAX_TEXT = 1_000_000
"""Characters of one cell; entries of lists count as one more each."""
_LEAST_IN_ALL, _EXPANDED = 1_000_000, 200
"""Characters that any file may hold, and for each of its bytes: Parquet and Excel store equal texts
once, so that a few kilobytes could hold days of work."""
_MARKS = (  # the marks of UTF-32 begin with those of UTF-16
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_PEEKED = 200
"""Lines of a CSV file that tell its form."""
_LISTS = ("data", "rows", "questions", "items", "examples")
"""Names under which a JSON object keeps its list of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows of one file."""

    path: Path
    """The file, for messages."""
    rows: tuple[Placed, ...]
    """Rows without any content are left out."""
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Column of numbers -> what they stand for, where the file says so (from 0)."""
    unusual: str = ""
    """What is unusual about the file and was settled in reading it."""

    @property
    def good(self) -> list[Row]:
        """The rows that could be read."""
        return [row for _, row in self.rows if isinstance(row, dict)]


def attempt(read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | DataError:
    """Return what a function reads, or the error that it raises about it."""
    try:
        return read(*args, **kwargs)
    except DataError as error:
        return error


def raise_error(value: T | DataError) -> T:
    """Return what was read; raise the error if it could not be read."""
    if isinstance(value, DataError):
        raise value
    return value


def _size_of_row(row: Row) -> int:
    """Return the characters of a row.

    Raises:
        DataError: too many columns, or too many characters in one cell.
    """
    if len(row) > MAX_COLUMNS:
        mend = "leave some out"
        raise DataError(f"expected at most {MAX_COLUMNS:,} columns, got {len(row):,}; {mend}")
    total = 0
    for name, cell in row.items():
        n = len(cell) if isinstance(cell, str) else _size(cell)
        if n > MAX_TEXT and name != FIELD:  # thousands of stored edits of one question
            expected = f"at most {MAX_TEXT:,} characters, got {n:,}"
            raise DataError(f"field {shorten(name, 60)!r}: expected {expected}; split the text")
        total += n + 1
    return total


def _size(value: Any) -> int:
    n, left = 0, [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            n += len(one)
        elif isinstance(one, dict):
            n += len(one)
            left += [*one, *one.values()]
        elif isinstance(one, list | tuple):
            is_long = 2 * len(one) > MAX_TEXT
            n += 2 * len(one) if is_long else len(one)
            left += () if is_long else one
    return n


# -- values and names ----------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Convert `value` to JSON types: NaN and infinities become None, unknown types text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)  # outside the range of the store's JSON
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return str(value)


def shown(value: Any) -> str:
    """Describe a wrong value for a message: its kind and its beginning.

    >>> shown("aspirin"), shown(3), shown(None), shown({"A": 1})
    ("the text 'aspirin'", 'the number 3', 'nothing', "the object {'A': 1}")
    """
    kinds = {str: "text", bool: "value", int: "number", float: "number", list: "list"}
    if value is None:
        return "nothing"
    kind = "object" if isinstance(value, Mapping) else kinds.get(type(value), "value")
    text = repr(value)
    return f"the {kind} {text if len(text) <= 60 else text[:57] + '...'}"


def wrong(field: str, expected: str, value: Any, mend: str = "fix the row") -> DataError:
    """Return the error about a cell: what its field should hold, what it holds, what to do."""
    return DataError(f"field {field!r}: expected {expected}, got {shown(value)}; {mend}")


def is_nothing(value: Any) -> bool:
    """Return whether a cell holds nothing: a null, or text without characters."""
    return value is None or (isinstance(value, str) and not value.strip())


@lru_cache(maxsize=4096)
def plain_name(name: str) -> str:
    """Return a name without case, spaces, underscores and punctuation.

    >>> plain_name("Correct_Option "), plain_name("Option A")
    ('correctoption', 'optiona')
    """
    return re.sub(r"[\W_]+", "", str(name)).casefold()


def cut_names(names: Iterable[str]) -> str:
    """Return names for a message, which is cut where they are many."""
    return shorten(", ".join(names), 1_000)


def columns_of(rows: Iterable[Row]) -> list[str]:
    """Return the columns of all rows, in the order in which they come."""
    return list(dict.fromkeys(name for row in rows for name in row))


def source_of(columns: Iterable[str]) -> Source:
    """Return what reads rows with these columns: `table`, if nothing speaks for another.

    >>> source_of(["sentence1", "sentence2", "score"]), source_of(["question", "choices", "answer"])
    ('pairs', 'table')
    """
    present = set(columns)
    names = {plain_name(column) for column in present}
    if {FIELD, HEAD} <= present:
        return "attacked"
    if "tokens" in names and names & {"labels", "nertags", "tags"}:
        return "iob"
    texts = ("texta", "textb"), ("premise", "hypothesis"), ("sentence1", "sentence2")
    both = any(names.issuperset(pair) for pair in (*texts, ("text1", "text2")))
    return "pairs" if both else "table"


# -- any source ----------------------------------------------------------------------------------


def read_table(
    path: Path,
    *,
    encoding: str | None = None,
    sheet: str | None = None,
    most_lines: int | None = None,
    has_header: bool = True,
) -> Table:
    """Read the rows of a file.

    Args:
        path: the file.
        encoding: of text files; None: UTF-8, or what a byte order mark says.
        sheet: of Excel files.
        most_lines: of a text file whose rows are lines; None: all.
        has_header: of CSV and TSV; without one, columns are called by their numbers.

    Raises:
        UsageError: another ending, or a file that cannot be read.
        DataError: a file of another format, or without rows.
    """
    ending = path.suffix.lower()
    if ending in (".csv", ".tsv"):
        table = _read_delimited(path, encoding, most_lines, has_header)
    elif ending in TEXT:
        table = _read_json(path, encoding, most_lines)
    elif ending == ".xlsx":
        table = _read_sheet(path, sheet)
    elif ending == ".parquet":
        table = _read_parquet(path)
    else:
        raise UsageError(f"{path}: expected a file ending in {', '.join(ENDINGS)}; convert it")
    if not table.rows:
        raise no_rows(path)
    return _within(table)


def _within(table: Table) -> Table:
    """Return a table whose rows with too much in a cell are errors.

    Raises:
        TooLargeError: too many columns, or too many characters in all.
    """
    path, rows, columns, n = table.path, list(table.rows), set[str](), 0
    for at, (place, row) in enumerate(rows):
        if isinstance(row, DataError):
            continue
        size = attempt(_size_of_row, row)
        if isinstance(size, DataError):
            rows[at] = (place, size)
        else:
            columns.update(row)
            n += size
    check_most(path, len(columns), MAX_COLUMNS, "columns", "leave some out")
    n_bytes = path.stat().st_size
    most, what = _LEAST_IN_ALL + _EXPANDED * n_bytes, f"characters in {n_bytes:,} bytes"
    check_most(path, n, most, what)
    return replace(table, rows=tuple(rows))


def no_rows(path: Path) -> DataError:
    """Return the error about a file without a row."""
    is_empty = path.is_file() and not read_data(path).strip()
    content = "an empty file" if is_empty else "none"
    return DataError(f"{path}: expected at least one row, got {content}; give a file with rows")


# -- text ----------------------------------------------------------------------------------------


def read_decoded(path: Path, encoding: str | None = None) -> tuple[str, str]:
    """Return the text of a file, and its encoding if that is neither UTF-8 nor the user's.

    Args:
        path: the file.
        encoding: the user's; None: a byte order mark decides, else UTF-8.

    Raises:
        UsageError: the file cannot be read, or the encoding is unknown.
        DataError: bytes that are no text in this encoding; names file, line and key.
    """
    data = read_data(path)
    try:
        "".encode(encoding or "utf-8")
    except (LookupError, ValueError):  # unknown, or no encoding of text
        raise UsageError(
            f"encoding: expected a name such as 'utf-8', 'cp1252' or 'utf-16-le', got {encoding!r}"
        ) from None
    name = encoding or next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    if path.suffix.lower() != ".json":  # where a list may be one line
        check_line_lengths(path, data)
    start = data[:4000]
    if name == "utf-8" and start.count(0) > len(start) // 4:
        ends = "le" if start[1:2] == b"\0" else "be"
        raise DataError(
            f"{path}: expected UTF-8 text, got bytes that look like UTF-16 without its mark; "
            f'give encoding = "utf-16-{ends}", or save the file as UTF-8'
        )
    try:
        if name in ("utf-8", "utf-8-sig"):
            text = decode_utf8(data.removeprefix(codecs.BOM_UTF8), path)
        else:
            text = data.decode(name)
    except DataError as error:
        with suppress(UnicodeDecodeError):
            data.decode("cp1252")
            raise DataError(
                f'{error}, or give its encoding, such as encoding = "cp1252" (Windows, Western '
                "Europe)"
            ) from error
        raise
    except UnicodeDecodeError as error:
        line = 1 + data.count(b"\n", 0, error.start)
        raise DataError(
            f"{path}, line {line}: expected {name} text, got the byte 0x{data[error.start]:02x}; "
            "fix the key 'encoding', or save the file as UTF-8"
        ) from error
    unusual = "" if encoding or name.startswith("utf-8") else name.upper()
    return text.removeprefix("\ufeff"), unusual


def _first_lines(text: str, most: int | None) -> str:
    return text if most is None else "".join(f"{line}\n" for line in text.split("\n", most)[:most])


def _read_delimited(
    path: Path, encoding: str | None, most_lines: int | None, has_header: bool
) -> Table:
    """Read CSV or TSV: a header, then one row a record; an empty cell is no value.

    The separator of CSV is the one of ``, ; tab |`` that gives the header at least three columns
    and the most rows as many fields; Excel writes semicolons in half of Europe. A quotation mark of
    TSV is a letter, unless all rows fit the header only if it is none.
    """
    text, unusual = read_decoded(path, encoding)
    if text.lstrip().startswith("{"):
        raise DataError(
            f"{path}, line 1: expected a header with the names of the columns, got JSON; rename "
            "the file to end in .jsonl"
        )
    check_most(path, text.count("\n"), MAX_LINES, "lines")
    text = _first_lines(text, most_lines)
    notes = [unusual] if unusual else []
    stated = re.match(r"sep=(.)\r?\n", text)
    if path.suffix.lower() == ".tsv":
        records = _records(path, text, "\t", quoting=csv.QUOTE_NONE)
        if re.search(r'(?:^|\t)"', text, re.MULTILINE):
            records = _quoted_or_plain(path, text, list(records))
    else:
        separator = stated[1] if stated else _separator(path, text)
        if separator != ",":
            notes.append(f"separated by {_SEPARATORS.get(separator, repr(separator))}")
        rest = text[stated.end() :] if stated else text
        records = _records(path, rest, separator, 2 if stated else 1)
    filled = [
        one for one in within_limits(path, records) if isinstance(one[1], DataError) or any(one[1])
    ]
    mend = "put quotation marks around a text that holds the separator"
    if not has_header and filled:
        first = next((cells for _, cells in filled if isinstance(cells, list)), [])
        filled.insert(0, ("line 1", [f"column {n}" for n in range(1, len(first) + 1)]))
    return Table(path=path, rows=tuple(_under_header(path, filled, mend)), unusual=", ".join(notes))


def _under_header(path: Path, records: Sequence[Record], mend: str) -> Iterator[Placed]:
    """Yield the rows by column name; the first record is the header.

    Raises:
        DataError: a title is above the header, two columns have one name, or too many columns.
    """
    if not records:
        return
    (place, first), rest = records[0], records[1:]
    if isinstance(first, DataError):
        raise DataError(f"{path}, {place}: {first} (is it the header?)")
    while first and first[-1] is None:
        first = first[:-1]
    titles = [cell for cell in first if not is_nothing(cell)]
    second = next((cells for _, cells in rest if isinstance(cells, list)), [])
    if len(titles) == 1 and sum(not is_nothing(cell) for cell in second) > 2:
        raise DataError(
            f"{path}, {place}: expected a header with the names of the columns, got {titles[0]!r} "
            "alone; delete what is above the header"
        )
    check_most(path, len(first), MAX_COLUMNS, "columns", "leave some out")
    header = [
        f"column {n}" if is_nothing(name) else str(name) for n, name in enumerate(first, start=1)
    ]
    name, n = Counter(header).most_common(1)[0]
    if n > 1:
        raise DataError(
            f"{path}, {place}: expected each column once in the header, got {name!r} twice; "
            "rename one"
        )
    for place, cells in rest:
        if isinstance(cells, DataError):
            yield place, cells
        elif len(cells) < len(header) or not all(map(is_nothing, cells[len(header) :])):
            wanted = f"expected {len(header)} fields as in the header, got {len(cells)}"
            yield place, DataError(f"{wanted}; {mend}")
        elif any(isinstance(cell, str) and "\0" in cell for cell in cells):
            yield place, DataError("expected text, got the character NUL; remove it")
        else:
            yield place, {n: None if c == "" else c for n, c in zip(header, cells, strict=False)}


def _separator(path: Path, text: str) -> str:
    """Return the separator of a CSV file."""
    fits: dict[str, int] = {}
    for separator in _SEPARATORS:
        try:
            peeked = list(islice(_records(path, text, separator), _PEEKED))
        except DataError:  # raised again when the file is read
            continue
        counts = [len(cells) for _, cells in peeked if isinstance(cells, list) and any(cells)]
        if counts and counts[0] >= 3:
            fits[separator] = counts.count(counts[0])
    return max(fits, key=lambda separator: fits[separator], default=",")


def _records(
    path: Path,
    text: str,
    separator: str,
    first_line: int = 1,
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL,
) -> Iterator[Record]:
    csv.field_size_limit(MAX_LINE)
    lines = (line[0] for line in re.finditer(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+", text))
    reader = csv.reader(lines, delimiter=separator, strict=True, quoting=quoting)
    while True:
        start = reader.line_num + first_line
        try:
            cells: list[Any] | DataError = [cell.strip() for cell in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:
            # The field took in all that follows, good rows among it: nothing to skip over.
            if "unexpected end" in str(error):
                raise DataError(
                    f"{path}, line {start}: expected every quotation mark to be closed, got one "
                    "that is not; close it, or write it twice inside a text"
                ) from error
            cells = DataError(f"expected fields in the form of CSV ({error}); fix the line")
        end = reader.line_num + first_line - 1
        yield (f"line {start}" if start >= end else f"lines {start} to {end}"), cells


def _quoted_or_plain(path: Path, text: str, plain: list[Record]) -> Iterator[Record]:
    """Return the records of TSV with quotation marks around cells, if all fit the header so."""
    n = next((len(cells) for _, cells in plain if isinstance(cells, list) and any(cells)), 0)
    try:
        quoted = list(_records(path, text, "\t"))
    except DataError:
        return iter(plain)
    fits = all(isinstance(c, list) and (len(c) == n or not any(c)) for _, c in quoted)
    return iter(quoted if fits else plain)


# -- JSON ----------------------------------------------------------------------------------------


def _read_json(path: Path, encoding: str | None, most_lines: int | None) -> Table:
    """Read one object a line, a list of objects, or an object that holds such a list."""
    text, unusual = read_decoded(path, encoding)
    check_json_size(path, text.encode("utf-8", "surrogatepass"))
    ends_in_lines = path.suffix.lower() == ".jsonl"
    text = _first_lines(text, most_lines if ends_in_lines else None)
    lines = [
        (f"line {n}", line) for n, line in enumerate(text.split("\n"), start=1) if line.strip()
    ]
    # One object a line under the ending .json, as MedMCQA is published; or one list a line.
    has_values = len(lines) > 1 and _opens(lines[0][1])
    start = text.lstrip()[:1]
    is_whole = start == "[" and not (ends_in_lines and has_values)
    if not is_whole and (ends_in_lines or start != "{" or has_values):
        check_most(path, len(lines), MAX_ROWS, "lines")
        rows = tuple((place, attempt(_line, line)) for place, line in lines)
        return Table(path=path, rows=rows, unusual=unusual)
    with reading(
        lambda why: f"{path}: expected a JSON list of objects, got malformed JSON ({why}); mend it",
        DataError,
    ):
        value = _parsed(text, f"{path}: ")
    if isinstance(value, dict):
        value = _listed(path, value)
    rows = tuple((f"row {n}", attempt(_row, one)) for n, one in enumerate(value, start=1))
    return Table(path=path, rows=rows, unusual=unusual)


def parse_line(line: str | bytes) -> Row:
    """Parse one line of a JSONL file.

    Raises:
        DataError: not JSON, not an object, or too much in a cell.
    """
    row = _line(line)
    _size_of_row(row)
    return row


def _line(line: str | bytes) -> Row:
    try:
        row = _parsed(line)
    except (ValueError, RecursionError) as error:
        mend = "fix the line"
        if isinstance(line, str) and line.lstrip()[:1] not in ("{", "[") and "," in line:
            mend = "for CSV rename the file to end in .csv"
        raise DataError(
            f"expected one JSON object, got malformed JSON ({error}); {mend}"
        ) from error
    return _row(row)


def _row(value: Any) -> Row:
    if not isinstance(value, dict):
        raise DataError(f"expected a JSON object, got {shown(value)}; fix the row")
    return check_json(value)


def _parsed(text: str | bytes, where: str = "") -> Any:
    """Parse JSON; a name twice in one object is refused, because one of the two would be lost."""

    def once(pairs: list[tuple[str, Any]]) -> Row:
        row = dict(pairs)
        if len(row) < len(pairs):
            name = Counter(name for name, _ in pairs).most_common(1)[0][0]
            raise DataError(
                f"{where}expected each name of an object once, got {name!r} twice; rename one"
            )
        return row

    return json.loads(text, object_pairs_hook=once)


def _opens(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return False


def _listed(path: Path, value: Row) -> list[Any]:
    """Return the rows that one JSON object holds."""
    if isinstance(exams := value.get("exams"), dict):  # HeadQA, where ids are unique in an exam
        return [
            {**row, "qid": f"{name}-{row['qid']}"} if "qid" in row else row
            for name, exam in exams.items()
            if isinstance(exam, dict) and isinstance(exam.get("data"), list)
            for row in exam["data"]
            if isinstance(row, dict)
        ]
    for key in _LISTS:
        if isinstance(rows := value.get(key), list):
            return rows
    kinds = {type(column) for column in value.values()}
    if len(value) > 1 and kinds in ({list}, {dict}):
        raise DataError(
            f"{path}: expected a list of objects, got one object with the columns "
            f'{cut_names(value)}; write its rows as a list (in pandas with orient="records")'
        )
    return [value]


# -- Excel ---------------------------------------------------------------------------------------


def _read_sheet(path: Path, name: str | None) -> Table:
    """Read one sheet, whose first row with content is the header.

    Formulas without a stored value, errors and numbers shown as percentages make a bad row, because
    what one sees in the sheet is not what the cell holds.

    Raises:
        UsageError: openpyxl is not installed, or the sheet is not there or not settled.
        DataError: not an Excel file, merged cells, or a header that names a column twice.
    """
    with importing("reading Excel files", "xlsx"):
        from openpyxl import load_workbook
    data = read_data(path)
    with loading(
        lambda why: f"{path}: expected an Excel file (.xlsx), but reading it fails: {why}",
        DataError,
    ):
        _check_unpacked(path, data)
        stored, written = load_workbook(BytesIO(data), data_only=True), load_workbook(BytesIO(data))
    for one in stored.worksheets if name is None else ():
        _check_area(path, one)
    sheet = _chosen(path, stored.worksheets, name)
    _check_area(path, sheet)
    if sheet.merged_cells.ranges:
        raise DataError(
            f"{path}: expected one value in each cell, got the merged cells "
            f"{next(iter(sheet.merged_cells.ranges))}; unmerge them and fill each one"
        )
    unusual = f"sheet {sheet.title!r}" if len(stored.worksheets) > 1 else ""
    records = list(_sheet_records(sheet, written[sheet.title]))
    rows = _under_header(path, records, "name all columns")
    return Table(path=path, rows=tuple(rows), unusual=unusual)


def _check_unpacked(path: Path, data: bytes) -> None:
    """Refuse a file that unpacks to too much, before openpyxl makes an object of every cell."""
    from openpyxl.utils import range_boundaries

    mend = "delete what lies outside the table, or save it as .csv"
    n_bytes = n_cells = 0
    with ZipFile(BytesIO(data)) as parts:
        for info in parts.infolist():
            with parts.open(info) as stream:
                content = stream.read(_MAX_UNPACKED - n_bytes + 1)
            n_bytes += len(content)
            check_most(path, n_bytes, _MAX_UNPACKED, "bytes once unpacked", mend)
            n_cells += len(re.findall(rb"<(?:\w+:)?(?:c|si)[\s/>]", content))
            for area in re.findall(rb"mergeCell\s[^>]*ref=\"(\w+:\w+)\"", content):
                left, top, right, bottom = range_boundaries(area.decode())
                n_cells += (right - left + 1) * (bottom - top + 1)
            check_most(path, n_cells, 2 * MAX_SHEET, "cells and texts", mend)


def _check_area(path: Path, sheet: Worksheet) -> None:
    """Refuse a sheet with a cell far from the others: openpyxl makes all cells in between."""
    n = sheet.max_row * sheet.max_column
    check_most(path, n, MAX_SHEET, f"cells in sheet {sheet.title!r}", "save it as .csv")


def _chosen(path: Path, sheets: Sequence[Worksheet], name: str | None) -> Worksheet:
    by_title = {sheet.title: sheet for sheet in sheets}
    if name is not None and name not in by_title:
        raise UsageError(
            f"{path}: expected sheet = one of {', '.join(map(repr, by_title))}, got {name!r}"
            f"{did_you_mean(name, list(by_title))}"
        )
    if name is not None:
        return by_title[name]
    filled = [
        title
        for title, sheet in by_title.items()
        if any(value is not None for row in sheet.iter_rows(values_only=True) for value in row)
    ]
    if len(filled) > 1:
        raise UsageError(
            f"{path}: expected one sheet with content, got {len(filled)} "
            f"({', '.join(map(repr, filled))}); choose one with sheet = "
            f"{json.dumps(filled[0], ensure_ascii=False)}"
        )
    if not filled:
        raise DataError(f"{path}: expected a sheet with rows, got none; give a file with rows")
    return by_title[filled[0]]


def _sheet_records(stored: Worksheet, written: Worksheet) -> Iterator[Record]:
    """Yield the rows with content; a cell that does not hold what one sees makes an error."""
    rows = zip(stored.iter_rows(), written.iter_rows(), strict=True)
    for n, (cells, formulas) in enumerate(rows, start=1):
        if any(_cell(cell) is not None for cell in formulas):
            fault = _fault(cells, formulas)
            yield f"row {n}", DataError(fault) if fault else [_cell(cell) for cell in cells]


def _fault(cells: Sequence[Any], formulas: Sequence[Any]) -> str | None:
    for cell, formula in zip(cells, formulas, strict=True):
        if cell.data_type == "e":
            return f"cell {cell.coordinate}: expected a value, got the error {cell.value}; mend it"
        if formula.data_type == "f" and cell.value is None:
            return (
                f"cell {cell.coordinate}: expected a value, got the formula {formula.value} "
                "without one; open and save the file in a spreadsheet program"
            )
        if isinstance(cell.value, int | float) and "%" in str(cell.number_format):
            return (
                f"cell {cell.coordinate}: expected text, got the number {cell.value} shown as a "
                "percentage; format the cell as text and write what it should say"
            )
    return None


def _cell(cell: Any) -> Any:
    return (cell.value.strip() or None) if isinstance(cell.value, str) else cell.value


# -- Parquet -------------------------------------------------------------------------------------


def _read_parquet(path: Path) -> Table:
    """Read a table, with what the numbers of its columns stand for (`ClassLabel` of the hub)."""
    import polars

    data = read_data(path)
    with loading(
        lambda why: f"{path}: expected a parquet file, but reading it fails: {why}", DataError
    ):
        # From memory: polars would read a path such as "part[1].parquet" as a pattern.
        schema = polars.read_parquet_schema(BytesIO(data))
        check_most(path, len(schema), MAX_COLUMNS, "columns", "leave some out")
        n_rows = polars.scan_parquet(BytesIO(data)).select(polars.len()).collect().item()
        check_most(path, n_rows, MAX_ROWS, "rows")
        check_most(path, n_rows * len(schema), MAX_CELLS, "cells")
        frame = polars.read_parquet(BytesIO(data))
        # Equal texts may be stored once: in Python each is new.
        n_bytes = sum(_bytes(path, column) for column in frame.get_columns())
        check_most(path, n_bytes, MAX_BYTES, "bytes of text")
        described = polars.read_parquet_metadata(BytesIO(data)).get("huggingface")
        features = json.loads(described)["info"]["features"] if described else {}
    names = {}
    for column, feature in features.items():
        inner = feature[0] if isinstance(feature, list) and feature else feature
        inner = inner.get("feature", inner) if isinstance(inner, dict) else {}
        if isinstance(inner, dict) and isinstance(inner.get("names"), list):
            names[column] = tuple(map(str, inner["names"]))
    places = ((f"row {n}", row) for n, row in enumerate(frame.to_dicts(), start=1))
    return Table(path=path, rows=tuple(places), names=names)


def _bytes(path: Path, column: Series) -> int:
    """Return the bytes of the texts in a column, those in lists and objects included."""
    import polars

    check_most(path, len(column), MAX_CELLS, "values")
    if isinstance(column.dtype, polars.List | polars.Array):
        return 8 * len(column) + _bytes(path, column.explode())
    if isinstance(column.dtype, polars.Struct):
        return sum(_bytes(path, part) for part in column.struct.unnest().get_columns())
    if isinstance(column.dtype, polars.Categorical | polars.Enum):
        # Each once: as texts, a category of megabytes would be copied for every row.
        texts, n = column.drop_nulls().value_counts(name="n").get_columns()
        return int((texts.cast(polars.String).str.len_bytes().cast(polars.Int64) * n).sum())
    is_text = isinstance(column.dtype, polars.String)
    return int(column.str.len_bytes().sum()) if is_text else 8 * len(column)
