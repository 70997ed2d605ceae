"""Reads input files and turns whatever a damaged file raises into one clear error.

A reader works inside `reading`, or inside `loading` if it calls a library that may raise anything.
Their errors name the file and the place in it.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
import stat
import struct
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import orjson

from medstress.core.errors import (
    DataError,
    MedstressError,
    StoreError,
    UsageError,
    is_panic,
    reason,
)

T = TypeVar("T")
Row = TypeVar("Row", bound=Sized | Exception)

DAMAGE: tuple[type[Exception], ...] = (
    OSError,
    EOFError,
    ValueError,  # not UTF-8, not JSON, not TOML, a NUL within a path
    LookupError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    csv.Error,
    struct.error,
    zlib.error,
)
"""What Python raises if a file is missing, truncated or of another format."""
MAX_TOML_DEPTH = 32
"""Nested tables and arrays in a TOML file."""
MAX_JSON_DEPTH = 100
"""Nested lists and objects in a data file; the store takes at most 254."""
_LARGEST = 2**63
_BARE = re.compile(r"[A-Za-z0-9_-]+")
"""A key of TOML that needs no quotes."""
_DOTTED = re.compile(r"(?<![\w-])(?:[\w-]+\s*\.\s*){200}")
"""A key with this many dots: Python's TOML parser takes quadratic time for it."""


@contextmanager
def reading(
    message: Callable[[str], str],
    kind: type[MedstressError] = UsageError,
    also: tuple[type[BaseException], ...] = (),
) -> Iterator[None]:
    """Turn the exceptions of a damaged file into one error of ours.

    Args:
        message: makes the error's message, with file and place, from the reason.
        kind: the error to raise.
        also: further exceptions that the reading library raises.

    Raises:
        MedstressError: an error of that kind.
    """
    try:
        yield
    except (*DAMAGE, *also) as error:
        raise kind(message(reason(error))) from error


@contextmanager
def loading(
    message: Callable[[str], str],
    kind: type[MedstressError] = UsageError,
    passes: Callable[[Exception], bool] = lambda _: False,
) -> Iterator[None]:
    """Do the same as `reading` for libraries that may raise anything: models, pipelines, plug-ins.

    Args:
        message: makes the error's message, with file and place, from the reason.
        kind: the error to raise.
        passes: returns True for exceptions that the caller handles; they pass unchanged.

    Raises:
        MedstressError: an error of that kind; errors of ours raised inside pass unchanged.
    """
    try:
        yield
    except MedstressError:
        raise
    except Exception as error:  # third-party code does not document its exceptions
        if passes(error):
            raise
        raise kind(message(reason(error))) from error
    except BaseException as error:
        if not is_panic(error):
            raise
        raise kind(message(reason(error))) from error


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file.

    Raises:
        UsageError: it cannot be read.
    """
    with reading(lambda why: f"cannot read {path}: {why}"):
        return path.read_bytes()


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file.

    Raises:
        UsageError: it cannot be read, or is not UTF-8.
        TooLargeError: it has no end, such as a device, or is longer than any text that is written.
    """
    with reading(lambda why: f"cannot read {path}: {why}"), path.open(encoding="utf-8") as stream:
        text = stream.read(MAX_LINE + 1)
    check_most(path, len(text), MAX_LINE, "characters", "give another file")
    return text


def read_json(path: Path, expected: str = "JSON") -> Any:
    """Return the content of a JSON file; a byte order mark is skipped.

    Raises:
        UsageError: it cannot be read.
        DataError: it is not JSON, or fails `check_json`.
    """
    data = read_bytes(path)
    problem = f"{path}: expected {expected}, got malformed JSON"
    with reading(lambda why: f"{problem} ({why}); mend the file", DataError):
        return check_json(json.loads(data.decode("utf-8-sig")))


def check_json(value: T) -> T:
    """Return parsed JSON if files and hashes can hold it.

    Raises:
        DataError: it is nested too deep, or has half a surrogate pair, such as the legal "\\ud800".
    """
    if _is_deep(value):
        raise DataError(f"expected at most {MAX_JSON_DEPTH} nested lists and objects, got more")
    try:
        orjson.dumps(value)
    except TypeError:  # such a half, or a number of more than 64 bits
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError as error:
            half = error.object[error.start]
            raise DataError(
                f"expected whole characters, got half a surrogate pair {half!r}"
            ) from error
    return value


def _is_deep(value: Any) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_JSON_DEPTH):
        if not level:
            return False
        level = [
            part
            for outer in level
            for part in (outer.values() if isinstance(outer, dict) else outer)
            if type(part) in (dict, list)
        ]
    return bool(level)


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Parse TOML and check its values.

    Args:
        text: TOML.
        name: the text's name in messages.

    Raises:
        UsageError: not TOML; a number beyond 64 bits, infinite or NaN; a NUL; nested too deep.
    """
    if _DOTTED.search(text):
        raise UsageError(f"{name}: expected keys with a few dots, got one with 200 or more")
    with reading(lambda why: f"{name} is not valid TOML: {why}{_toml_hint(text, why)}"):
        parsed = tomllib.loads(text)
    return check_toml(parsed, name)


def _toml_hint(text: str, why: str) -> str:
    """Return what is usually wrong with the line that a TOML error names."""
    if (match := re.search(r"at line (\d+)", why)) is None:
        return ""
    lines = text.splitlines()
    line = lines[min(int(match[1]), len(lines)) - 1].strip() if lines else ""
    key, equals, value = (part.strip() for part in line.partition("="))
    if "\\" in value and value.startswith('"'):
        return f"; write a text with backslashes in single quotes, as in {key} = 'C:\\data\\q.csv'"
    if equals and re.fullmatch(r"[\w-]+", key) and re.match(r"[A-Za-z./~]", value):
        return f'; write texts in quotes, as in {key} = "{value.strip(chr(34))[:60]}"'
    return ""


def check_toml(parsed: dict[str, Any], name: str) -> dict[str, Any]:
    """Return parsed TOML if every value can be compared, printed and stored.

    Raises:
        UsageError: see `parse_toml`.
    """
    waiting: list[tuple[Any, int, str]] = [(parsed, 0, "")]
    while waiting:
        value, depth, key = waiting.pop()
        if depth > MAX_TOML_DEPTH:
            raise UsageError(
                f"{name}: {key}: expected at most {MAX_TOML_DEPTH} nested tables and arrays, "
                "got more; mend the value"
            )
        if isinstance(value, dict):
            waiting += [
                (part, depth + 1, f"{key}.{name}".strip(".")) for name, part in value.items()
            ]
            waiting += [(part, depth, key) for part in value]
        elif isinstance(value, list):
            waiting += [(part, depth + 1, key) for part in value]
        elif complaint := _complaint(value):
            raise UsageError(f"{name}: {key}: {complaint}; mend the value")
    return parsed


def _complaint(value: Any) -> str | None:
    """Return why a single value cannot be used, or None."""
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        return "expected an integer of at most 64 bits, got a larger one"
    if isinstance(value, float) and not math.isfinite(value):
        return f"expected a number, got {value}"
    if isinstance(value, str):
        if "\0" in value:
            return "expected a text without the character NUL, got one with it"
        if any("\ud800" <= character <= "\udfff" for character in value):
            return "expected text, got bytes that are not UTF-8"
    return None


def toml_value(value: Any) -> str:
    r"""Return a value as TOML, in one line.

    Args:
        value: a text, truth value, number, list or table of such.

    >>> print(toml_value({"question": "stem", "options": ["A", 'the "B"']}))
    {question = "stem", options = ["A", "the \"B\""]}
    >>> print(toml_value(True), toml_value(-20), toml_value(0.5), toml_value("é\n"))
    true -20 0.5 "é\n"
    """
    if isinstance(value, str):
        # JSON's escapes are TOML's; TOML also wants the character DEL escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        parts = (f"{toml_key(key)} = {toml_value(part)}" for key, part in value.items())
        return f"{{{', '.join(parts)}}}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(toml_value, value))}]"
    return repr(value)


def toml_key(key: str) -> str:
    """Return a key as TOML.

    >>> print(toml_key("n_items"), toml_key("the key"))
    n_items "the key"
    """
    return key if _BARE.fullmatch(key) else toml_value(key)


def decode_utf8(raw: bytes, path: Path, line: int = 1) -> str:
    """Decode bytes of a file; line ends stay as they are.

    Args:
        raw: the file, or a piece of it.
        path: the file, for the message.
        line: number of the first line of `raw`, from 1.

    Raises:
        DataError: not UTF-8; the message names file, line and byte.
    """
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        number = line + raw.count(b"\n", 0, error.start)
        raise DataError(
            f"{path}, line {number}: expected UTF-8 text, got the byte "
            f"0x{raw[error.start]:02x}; save the file as UTF-8"
        ) from error


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers from 1, without line ends.

    Only the byte 0x0A ends a line; `str.splitlines` would also split at U+2028 or U+0085.

    Raises:
        DataError: a line is not UTF-8; raised when that line is reached.
    """
    lines = read_bytes(path).removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return ((n, decode_utf8(raw, path, n).rstrip("\r")) for n, raw in enumerate(lines, start=1))


# -- Within limits --------------------------------------------------------------------------------


class TooLargeError(DataError):
    """A file holds more than a limit allows."""


MAX_BYTES = 256 << 20
"""Bytes of a file."""
MAX_LINE = 16 << 20
"""Bytes of a line."""
MAX_LINES = 5_000_000
"""Lines of a file of tokens or annotations."""
MAX_ROWS = 500_000
"""Rows of a table."""
MAX_COLUMNS = 1_000
"""Columns of a table."""
MAX_CELLS = 10_000_000
"""Cells of a table, values of a JSON file."""


def check_most(path: Path, n: int, most: int, what: str, mend: str = "take a part of it") -> None:
    """Refuse a file that holds more than a limit.

    Args:
        path: the file.
        n: what it holds.
        most: the limit.
        what: what is counted.
        mend: what to do.

    Raises:
        TooLargeError: it holds more.
    """
    if n > most:
        raise TooLargeError(f"{path}: expected at most {most:,} {what}, got {n:,}; {mend}")


def check_file(path: Path) -> None:
    """Refuse what is no ordinary file, which might never end, and a file that is too large.

    Raises:
        UsageError: it cannot be read.
        DataError: it is a pipe, a device or too large.
    """
    with reading(lambda why: f"cannot read {path}: {why}"):
        status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"{path}: expected a file, got something else; give a file")
    check_most(path, status.st_size, MAX_BYTES, "bytes", "take a part of it, or save it as Parquet")


def read_data(path: Path) -> bytes:
    """Return the bytes of a file; see `check_file`."""
    check_file(path)
    return read_bytes(path)


def check_line_lengths(path: Path, data: bytes) -> None:
    """Refuse a line of more bytes than the limit.

    Raises:
        TooLargeError: there is one.
    """
    start = 0
    while len(data) - start > MAX_LINE:
        end = data.rfind(b"\n", start, start + MAX_LINE + 1)
        if end < 0:
            raise TooLargeError(f"{path}: expected lines of at most {MAX_LINE:,} bytes; mend it")
        start = end + 1


def data_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers from 1, without line ends.

    Only the byte 0x0A ends a line; `str.splitlines` would also split at U+2028 or U+0085.

    Raises:
        DataError: see `check_file`; too many lines; a line is not UTF-8, raised when it is reached.
    """
    data = read_data(path).removeprefix(b"\xef\xbb\xbf")
    check_line_lengths(path, data)
    check_most(path, data.count(b"\n"), MAX_LINES, "lines")
    lines = data.split(b"\n")
    return ((n, decode_utf8(raw, path, n).rstrip("\r")) for n, raw in enumerate(lines, start=1))


def check_json_size(path: Path, data: bytes) -> None:
    """Refuse JSON of more values than fit in memory: they take twenty times their text.

    Raises:
        DataError: see `check_most`.
    """
    check_most(path, sum(map(data.count, (b",", b"[", b"{"))), MAX_CELLS, "values", "use Parquet")


def read_json_data(path: Path, expected: str = "JSON") -> Any:
    """Return the content of a JSON file; see `check_file`, `check_json_size` and `read_json`."""
    check_json_size(path, read_data(path))
    return read_json(path, expected)


def within_limits(path: Path, records: Iterable[tuple[str, Row]]) -> Iterator[tuple[str, Row]]:
    """Yield the records of a table as long as they are within the limits.

    Raises:
        DataError: too many rows or cells.
    """
    n_cells = 0
    for n, (place, cells) in enumerate(records, start=1):
        check_most(path, n, MAX_ROWS, "rows")
        n_cells += len(cells) if isinstance(cells, Sized) else 0
        check_most(path, n_cells, MAX_CELLS, "cells")
        yield place, cells


# -- files of a run folder ----------------------------------------------------------------------

LARGEST = 64 << 20
"""Bytes that are read of a file next to the database, such as the kept summary."""
_PLAIN = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_FLAGS = _PLAIN | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Neither a link is followed nor a pipe waited for; Windows has no such flags."""


def read_inside(path: Path, most: int = LARGEST) -> bytes:
    """Return the bytes of a file of a run folder.

    Raises:
        FileNotFoundError: there is none.
        OSError: it cannot be read.
        StoreError: it is a link, no regular file, or larger than `most`.
    """
    check_regular(path)
    descriptor = os.open(path, _FLAGS)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _odd(path, "not a regular file")
        data = stream.read(most + 1)
    if len(data) > most:
        raise _odd(path, f"larger than {most >> 20} MiB")
    return data


def check_regular(path: Path) -> int | None:
    """Return the size of a file of a run folder; None if there is no such file.

    Raises:
        StoreError: it is a link, or no regular file.
    """
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(status.st_mode):
        raise _odd(path, "a link")
    if not stat.S_ISREG(status.st_mode):
        raise _odd(path, "not a regular file")
    return status.st_size


def is_locked(path: Path) -> bool:
    """Return whether a process holds a lock file, or where that cannot be told.

    A shared lock is tried for a moment; who wants the lock then has to wait that long.
    """
    try:
        import fcntl
    except ImportError:
        return True
    try:
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def refuse_linked(folder: Path) -> None:
    """Refuse a run folder that is a link; folders above it may be links.

    Raises:
        StoreError: it is one.
    """
    if folder.is_symlink():
        raise StoreError(f"{folder} is a link; give the run folder itself")


def _odd(path: Path, what: str) -> StoreError:
    return StoreError(f"{path} is {what}, so medstress did not make it: it is not read; remove it")
