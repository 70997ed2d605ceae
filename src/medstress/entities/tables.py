"""Tables of names: the two that medstress ships, and users' delimited files."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Literal

from medstress.core.errors import UsageError
from medstress.files.bounded import check_file

SHIPPED = ("drugs", "diseases")
"""The shipped tables: columns concept, name, kind, candidate; several rows per concept."""
DRUG_NAMES = "drug_names"
"""The shipped table of drug names: columns name, kind, source, ingredients (joined by a bar)."""

_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def shipped_bytes(table: str) -> bytes:
    """Return the bytes of a shipped table (gzip)."""
    return (files("medstress.entities") / "data" / f"{table}.tsv.gz").read_bytes()


def shipped_rows(table: str) -> Iterator[list[str]]:
    """Return the rows of a shipped table, ``[concept, name, kind, candidate]`` each."""
    text = gzip.decompress(shipped_bytes(table)).decode("utf-8")
    return (line.split("\t") for line in text.split("\n")[1:] if line)


def is_delimited(path: Path) -> bool:
    """True for a path that ends in .csv or .tsv, compressed (.gz) or not."""
    return _ending(path) in _DELIMITERS


def existing_file(path: Path, what: str, advice: str) -> None:
    """Refuse a path that is not a file.

    Raises:
        UsageError: the path is not a file; the message has `what`, the path and `advice`.
    """
    if not path.is_file():
        kind = "a folder, not a file" if path.is_dir() else "no such file"
        raise UsageError(f"{what}: {kind} at {path}; {advice}")


_MAX_BYTES = 64 << 20
"""Most bytes of a table, uncompressed: far larger than any shipped one."""


def read_text(path: Path, what: str) -> str:
    """Return a UTF-8 file's text, without a byte order mark; .gz is decompressed.

    Raises:
        UsageError: the file cannot be read as text.
    """
    try:
        if path.exists():
            check_file(path)
        data = path.read_bytes()
        if path.suffix.lower() == ".gz":
            with gzip.GzipFile(fileobj=BytesIO(data)) as stream:
                data = stream.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise OSError(f"it holds more than {_MAX_BYTES >> 20} MiB")
        text = data.decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise UsageError(
            f"{what}: expected UTF-8 text in {path}, but it cannot be read ({error}); "
            "save it as UTF-8"
        ) from error
    if "\0" in text:
        raise UsageError(
            f"{what}: expected text in {path}, got a binary file; "
            "save the names as .csv, .tsv, .txt or .parquet"
        )
    return text


def read_rows(path: Path, what: str) -> Iterator[tuple[int, list[str]]]:
    """Yield ``(line number, fields)`` of a CSV or TSV file, blank lines left out.

    Quotes enclose fields in CSV. In TSV they are ordinary characters, as in most published name
    tables (a chemical name may begin with one).

    All rows must be as long as the first one: a name with an unquoted comma would otherwise
    silently lose its end.

    Raises:
        UsageError: a row is longer or shorter than the first, or a quote is never closed.
    """
    stream = io.StringIO(read_text(path, what), newline="")
    delimiter = _DELIMITERS[_ending(path)]
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if delimiter == "," else csv.QUOTE_NONE
    reader = csv.reader(stream, delimiter=delimiter, quoting=quoting, strict=True)
    width: int | None = None
    try:
        for row in reader:
            if not any(field.strip() for field in row):
                continue
            width = len(row) if width is None else width
            if len(row) != width:
                raise UsageError(
                    f"{what}: expected {_fields(width)} as in the first line, got {len(row)} in "
                    f"line {reader.line_num} of {path}; quote names that hold the separator"
                )
            yield reader.line_num, row
    except csv.Error as error:
        raise UsageError(
            f"{what}: expected a well-formed table, got {error} in line {reader.line_num} of "
            f"{path}; double the quotes inside a quoted name"
        ) from error


def column_of(header: Sequence[str], name: str) -> int | None:
    """Return the position of a column, ignoring case; None if it is missing."""
    known = [field.strip().casefold() for field in header]
    return known.index(name) if name in known else None


def _ending(path: Path) -> str:
    return (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()


def _fields(n: int) -> str:
    return f"{n} field{'' if n == 1 else 's'}"
