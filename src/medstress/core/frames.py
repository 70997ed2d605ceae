"""Rows as files and as data frames, in which every column has one type."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard, runtime_checkable

import orjson

from medstress.core.errors import UsageError, setting
from medstress.core.hashing import content_hash
from medstress.core.writing import atomic_stream, state_dir, write_bytes, write_text

if TYPE_CHECKING:
    from polars import DataFrame


_BEGINS = "'*[=+\\-@\t\r\n＝＋－＠]"
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\r(?!\n)")
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
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", value) if isinstance(value, str) else value


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


Type: TypeAlias = Any
"""The type of a column: str, int, float, bool, a list of one type, an object of types by name; None
where only the values tell it."""
Types: TypeAlias = Mapping[str, Type]


@runtime_checkable
class Frame(Protocol):
    """A data frame of polars or pandas."""

    columns: Any

    def to_dict(self) -> Any:
        """Both have this method, with other arguments and results."""


FORMATS = ("jsonl", "csv", "parquet")
_STEERS = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Of the characters that JSON may hold as they are, those that steer a terminal."""


def write_rows(rows: Iterable[Mapping[str, Any]], to: Path, types: Types) -> int:
    """Write rows as JSONL, CSV or Parquet, by the ending of a path, completely or not at all.

    Args:
        rows: with the same names each.
        to: the file.
        types: of the columns, for Parquet, and for CSV without rows.

    Returns:
        The number of rows.

    Raises:
        UsageError: another ending, or the file cannot be written.
    """
    form = check_ending(to)
    try:
        if form == "parquet":
            frame = frame_of(rows, types)
            write_frame(frame, to)
            return frame.height
        with atomic_stream(to) as file, TextIOWrapper(file, "utf-8", newline="") as stream:
            if form == "jsonl":
                return _write_jsonl(rows, stream)
            return _write_csv(rows, stream, types)
    except OSError as error:
        raise UsageError(
            f"cannot write {to}: {error.strerror}; give another {setting('to')}"
        ) from error


def refuse_inputs(to: Path, inputs: Iterable[Path]) -> None:
    """Refuse to write over data that are read.

    Args:
        to: the file to write.
        inputs: files, and folders whose files are all data.

    Raises:
        UsageError: `to` is one of the files, or is already in one of the folders.
    """
    for path in inputs:
        if to.resolve() == path.resolve():
            raise UsageError(
                f"{setting('to', str(to))}: this is also an input file; give another name"
            )
        if to.exists() and path.is_dir() and to.resolve().is_relative_to(path.resolve()):
            raise UsageError(
                f"{setting('to', str(to))}: {path} is a folder of input files; give another name"
            )


def check_ending(to: Path) -> str:
    """Return the format that the name of a file asks for.

    Raises:
        UsageError: it asks for none that can be written.
    """
    form = to.suffix.removeprefix(".")
    if form not in FORMATS:
        raise UsageError(f"{setting('to', str(to))}: the name must end in .jsonl, .csv or .parquet")
    return form


def _write_jsonl(rows: Iterable[Mapping[str, Any]], stream: IO[str]) -> int:
    n = 0
    for row in rows:
        stream.write(json_text(row) + "\n")
        n += 1
    return n


def _write_csv(rows: Iterable[Mapping[str, Any]], stream: IO[str], fields: Iterable[str]) -> int:
    n, writer = 0, None
    for row in rows:
        writer = writer or Writer(stream, row)
        writer.write({name: text_of(value) for name, value in row.items()})
        n += 1
    if writer is None:
        Writer(stream, fields)
    return n


def text_of(value: Any) -> Any:
    """Return a value as a cell of CSV: objects and arrays as JSON text, all else unchanged."""
    is_json = isinstance(value, Mapping | list | tuple)
    return json_text(value) if is_json else value


def json_text(value: Any) -> str:
    r"""Return JSON in which characters that steer a terminal are escapes, and other letters not.

    >>> print(json_text(["é", "\x1b[2J\x9b\u202e"]))
    ["é", "\u001b[2J\u009b\u202e"]
    """
    return _STEERS.sub(
        lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False)
    )


def frame_of(rows: Iterable[Mapping[str, Any]], types: Types) -> DataFrame:
    """Return rows as a data frame.

    Values of several types in one place become JSON text there, also inside objects and arrays. A
    column without any value has its type all the same, and a frame without rows all columns.

    Args:
        rows: with the same names each.
        types: of the columns that may be empty.
    """
    import polars

    held = list(rows)
    if not held:
        return polars.DataFrame(schema={name: _dtype(one) for name, one in types.items()})
    columns = []
    for name in held[0]:
        column, type_ = [row[name] for row in held], types.get(name)
        values = [text_of(one) for one in column] if type_ is str else _alike(column)
        alone = [{name: value} for value in values]
        series = polars.DataFrame(alone, infer_schema_length=None)[name]
        if _is_open(series.dtype):
            is_list = isinstance(series.dtype, polars.List)
            series = series.cast(_dtype(type_ or ([str] if is_list else str)))
        columns.append(series)
    return polars.DataFrame(columns)


def write_frame(frame: DataFrame, to: Path) -> None:
    """Write a table as Parquet, completely or not at all.

    Raises:
        OSError: the file cannot be written.
    """
    # Written in memory first, because polars raises its own errors on a full disk.
    buffer = BytesIO()
    frame.write_parquet(buffer)
    write_bytes(to, buffer.getbuffer())


def _alike(values: Sequence[Any]) -> list[Any]:
    """Return values that one column can hold."""
    present = [value for value in values if value is not None]
    types = {_sort(value) for value in present}
    if types == {dict}:
        names = list(dict.fromkeys(name for value in present for name in value))
        if names:
            parts = [_alike([value.get(name) for value in present]) for name in names]
            objects = (dict(zip(names, one, strict=True)) for one in zip(*parts, strict=True))
            return [None if value is None else next(objects) for value in values]
    elif types == {list}:
        inner = iter(_alike([one for value in present for one in value]))
        return [None if value is None else [next(inner) for _ in value] for value in values]
    elif len(types) <= 1:
        is_mixed = float in types and any(isinstance(value, float) for value in present)
        return [float(v) if is_mixed and v is not None else v for v in values]
    return [v if v is None or isinstance(v, str) else json.dumps(v, default=str) for v in values]


def _sort(value: Any) -> type:
    """Return the type of a value; numbers are of one type."""
    if isinstance(value, Mapping):
        return dict
    if isinstance(value, list | tuple):
        return list
    return float if type(value) is int else type(value)


def _is_open(dtype: Any) -> bool:
    """Return whether the values of a column leave its type open, or that of a part of it."""
    import polars

    if isinstance(dtype, polars.List):
        return _is_open(dtype.inner)
    return bool(dtype == polars.Null)


def _dtype(type_: Type) -> Any:
    import polars

    if isinstance(type_, list):
        return polars.List(_dtype(type_[0]))
    if isinstance(type_, Mapping):
        return polars.Struct({name: _dtype(one) for name, one in type_.items()})
    plain = {str: polars.String, int: polars.Int64, float: polars.Float64, bool: polars.Boolean}
    return plain.get(type_, polars.String)


def is_rows(value: Any) -> TypeGuard[Sequence[Mapping[str, Any]] | Frame]:
    """Return whether a value is a data frame, or a list of dicts."""
    if isinstance(value, list | tuple):
        return all(isinstance(row, Mapping) for row in value)
    return isinstance(value, Frame) and not isinstance(value, type)


_ROWS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


def file_of_rows(rows: Sequence[Mapping[str, Any]] | Frame) -> Path:
    """Keep rows as a JSONL file of this user's, named by content, so that a run finds them again.

    Raises:
        UsageError: a row has a value that JSON cannot hold.
    """
    held: Any = rows
    if isinstance(rows, Frame):
        is_polars = type(rows).__module__.partition(".")[0] == "polars"
        held = held.to_dicts() if is_polars else held.to_dict("records")
    try:
        lines = [orjson.dumps(row, _plain, _ROWS).decode() for row in held]
    except (TypeError, ValueError) as error:
        raise UsageError(f"data: expected rows of texts, numbers and lists; {error}") from error
    path = state_dir("data") / f"{content_hash(lines).rpartition(':')[2]}.jsonl"
    if not path.is_file():
        write_text(path, "".join(f"{line}\n" for line in lines))
    return path


def speak_of_rows(sentence: str, path: Path) -> str:
    """Return a sentence about a file of `file_of_rows` as one about the rows that became it.

    >>> path = Path("state/data/0123456789abcdef0123456789abcdef.jsonl")
    >>> speak_of_rows(f"{path}, line 2: no answer", path)
    'data, row 2: no answer'
    >>> speak_of_rows("q.jsonl, line 2: no answer", Path("q.jsonl"))
    'q.jsonl, line 2: no answer'
    """
    if not re.fullmatch(r"[0-9a-f]{32}\.jsonl", path.name):
        return sentence
    return sentence.replace(f"{path}, line ", "data, row ").replace(str(path), "data")


def _plain(value: Any) -> Any:
    """Return what JSON cannot hold as what it can: what pandas writes for nothing is null."""
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if type(value).__module__ == "numpy":
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"got {type(value).__name__}")
