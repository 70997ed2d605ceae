"""JSON: one object a line, one list of objects, or the published files of HeadQA and PubMedQA."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from medstress.core.errors import DataError
from medstress.datasets.tables.decoding import read_decoded
from medstress.datasets.tables.table import Row, RowOrError, Table
from medstress.datasets.values import shown
from medstress.files.bounded import (
    MAX_ROWS,
    check_json_size,
    check_line_lengths,
    check_most,
    read_data,
)
from medstress.files.reading import check_json, reading

_LISTS = ("data", "rows", "questions", "items", "examples")
"""Keys under which a JSON object keeps its list of rows."""
_TWICE = "\0twice"
"""Stands in an object for the name that came twice."""
_MARKED = (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")


def read_objects(path: Path, encoding: str | None = None) -> Table:
    """Read a .jsonl or .json file; blank lines are ignored.

    Raises:
        UsageError: it cannot be read.
        DataError: not text, or JSON that holds no objects.
    """
    data, told = _utf8(path, encoding)
    check_json_size(path, data)
    whole = _whole(path, data)
    if whole is None:
        check_line_lengths(path, data)
        check_most(path, data.count(b"\n"), MAX_ROWS, "lines")
    rows = lines_of(data) if whole is None else None
    return Table(
        path=path,
        rows=tuple(whole or ()) if rows is None else tuple(_parsed(rows)),
        told=told,
    )


def jsonl_lines(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the place and the bytes of every line that is not blank."""
    return lines_of(read_data(path))


def lines_of(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the place and the bytes of every line that is not blank."""
    # Split on the byte 0x0A alone: str.splitlines would also split inside a JSON text that
    # holds U+2028 or U+0085.
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return ((f"line {n}", line) for n, line in enumerate(lines, start=1) if line.strip())


def parse_line(line: bytes) -> Row:
    """Parse one line of a JSONL file.

    Raises:
        DataError: not UTF-8, not JSON, or not an object.
    """
    try:
        row = check_json(json.loads(line.decode("utf-8"), object_pairs_hook=_object))
    except UnicodeDecodeError as error:
        byte = line[error.start]
        raise DataError(
            f"expected UTF-8 text, got the byte 0x{byte:02x}; save the file as UTF-8, or give its "
            'encoding, such as encoding = "cp1252"'
        ) from error
    except (ValueError, RecursionError) as error:
        reason = str(error)
        if isinstance(error, json.JSONDecodeError):
            reason = f"{error.msg} at column {error.colno}"
        raise DataError(f"expected one JSON object, got malformed JSON ({reason})") from error
    if not isinstance(row, dict):
        raise DataError(f"expected one JSON object, got {shown(row)}")
    _check_names(row)
    return row


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; one with a name twice says so under the name `_TWICE`."""
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        found[_TWICE] = next(name for name, n in counts.items() if n > 1)
    return found


def _check_names(value: Any) -> None:
    """Refuse a value with an object that has a name twice: one of the two would be lost."""
    if isinstance(value, dict):
        if _TWICE in value:
            raise DataError(
                f"expected each name of an object once, got {value[_TWICE]!r} twice; rename one"
            )
        value = value.values()
    elif not isinstance(value, list):
        return
    for part in value:
        if isinstance(part, dict | list):
            _check_names(part)


def _parsed(lines: Iterator[tuple[str, bytes]]) -> Iterator[tuple[str, RowOrError]]:
    for place, line in lines:
        try:
            yield place, parse_line(line)
        except DataError as error:
            mend = "" if "; " in str(error) else "; fix the line"
            if mend and not line.lstrip().startswith((b"{", b"[")) and b"," in line:
                mend = '; for CSV rename the file to end in .csv and give name = "csv"'
            yield place, DataError(f"{error}{mend}")


def _utf8(path: Path, encoding: str | None) -> tuple[bytes, str]:
    """Return the file's bytes as UTF-8, and its encoding where that is unusual."""
    data = read_data(path)
    if encoding is None and not data.startswith(_MARKED):
        return data, ""  # a line that is no UTF-8 is a bad row, not a bad file
    text, told = read_decoded(path, encoding)
    return text.encode("utf-8", "surrogatepass"), told


def _whole(path: Path, data: bytes) -> list[tuple[str, RowOrError]] | None:
    """Return the rows of a file that is one JSON value; None if it has one object a line."""
    start = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    is_list = start.startswith(b"[")
    if not is_list and not (path.suffix.lower() == ".json" and start.startswith(b"{")):
        return None
    if not is_list and _is_object(start.partition(b"\n")[0]) and b"\n" in start.rstrip():
        return None  # one object a line under the ending .json, as MedMCQA is published
    if is_list and path.suffix.lower() == ".jsonl" and not _is_list_of_objects(start):
        return None
    with reading(
        lambda why: f"{path}: expected a JSON list of objects, got malformed JSON ({why}); mend it",
        DataError,
    ):
        value = check_json(json.loads(start.decode("utf-8"), object_pairs_hook=_object))
    if isinstance(value, dict) and _TWICE in value:
        raise DataError(
            f"{path}: expected each name of an object once, got {value[_TWICE]!r} twice; rename one"
        )
    if isinstance(value, dict):
        value = _listed(value)
    if not isinstance(value, list):
        raise DataError(
            f"{path}: expected a JSON list of objects, or one object a line, got {shown(value)}"
        )
    return [(f"row {n}", _checked(row)) for n, row in enumerate(value, start=1)]


def _checked(row: Any) -> RowOrError:
    if not isinstance(row, dict):
        return DataError(f"expected a JSON object, got {shown(row)}; fix the row")
    try:
        _check_names(row)
    except DataError as error:
        return error
    return row


def _is_object(text: bytes) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _is_list_of_objects(text: bytes) -> bool:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, list) and any(isinstance(row, dict) for row in value)


def _columns(value: Row) -> dict[str, list[Any]]:
    """Return the columns of a table that is stored by column; nothing for another object.

    A column is a list, or, as pandas writes it, an object whose names are the numbers of the rows.
    """
    found: dict[str, list[Any]] = {}
    places: set[tuple[str, ...]] = set()
    for name, column in value.items():
        if isinstance(column, dict) and all(map(str.isdigit, column)):
            found[name] = list(column.values())
            places.add(tuple(column))
        elif isinstance(column, list):
            found[name] = column
    is_whole = (
        len(places) < 2 and len(found) == len(value) > 1 and len({*map(len, found.values())}) == 1
    )
    has_text = any(isinstance(cell, str) for column in found.values() for cell in column)
    return found if is_whole and has_text else {}


def _listed(value: Row) -> Any:
    """Return the rows that one JSON object holds, or the object if it holds none."""
    if isinstance(exams := value.get("exams"), dict):  # HeadQA, where ids are unique in an exam
        return [
            {**row, "qid": f"{name}-{row['qid']}"} if "qid" in row else row
            for name, exam in exams.items()
            if isinstance(exam, dict) and isinstance(exam.get("data"), list)
            for row in exam["data"]
            if isinstance(row, dict)
        ]
    if columns := _columns(value):
        names, cells = list(columns), zip(*columns.values(), strict=True)
        return [dict(zip(names, row, strict=True)) for row in cells]
    for key in _LISTS:
        if isinstance(value.get(key), list):
            return value[key]
    rows = list(value.values())
    if len(rows) > 1 and all(isinstance(row, dict) for row in rows):
        return [{"id": name, **row} for name, row in value.items()]  # PubMedQA, by PubMed id
    if all(isinstance(part, dict) for part in rows) and rows and "QUESTION" in rows[0]:
        return [{"id": name, **row} for name, row in value.items()]
    return [value]
