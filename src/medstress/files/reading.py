"""Reads input files and turns whatever a damaged file raises into one clear error.

A reader works inside `reading`, or inside `loading` if it calls a library that may raise anything.
Their errors name the file and the place in it.
"""

from __future__ import annotations

import csv
import json
import math
import re
import struct
import tomllib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from medstress.core.errors import DataError, MedstressError, UsageError, is_panic, reason

T = TypeVar("T")

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
    """
    with reading(lambda why: f"cannot read {path}: {why}"):
        return path.read_text("utf-8")


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
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise DataError(f"expected whole characters, got half a surrogate pair {half!r}") from error
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
            if isinstance(part, dict | list)
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
    if (found := re.search(r"at line (\d+)", why)) is None:
        return ""
    lines = text.splitlines()
    line = lines[min(int(found[1]), len(lines)) - 1].strip() if lines else ""
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
