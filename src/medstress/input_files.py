"""The one boundary round every reader: what a damaged file raises becomes one sentence.

A reader does its work inside `reading`, or inside `loading` where a library is called that may
raise anything; what they refuse names the file and the place.
"""

from __future__ import annotations

import csv
import json
import math
import re
import struct
import tomllib
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from medstress.errors import DataError, MedstressError, UsageError

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
"""What Python raises about a file that is absent, cut short, or holds something else."""
DEEPEST = 32
"""Tables and arrays within one another in a TOML file."""
DEEPEST_JSON = 100
"""Lists and objects within one another in a data file; the store takes no more than 254."""
_LARGEST = 2**63
_DOTTED = re.compile(r"(?<![\w-])(?:[\w-]+\s*\.\s*){200}")
"""A key that names so many tables at once: Python's reader takes quadratic time for it."""
_MOST_SHOWN = 300


@contextmanager
def reading(
    said: Callable[[str], str],
    kind: type[MedstressError] = UsageError,
    theirs: tuple[type[BaseException], ...] = (),
) -> Iterator[None]:
    """Turn what reading a damaged file raises into one sentence.

    Args:
        said: makes the sentence, with file and place, from the reason.
        kind: of the error.
        theirs: what the library that reads raises besides.

    Raises:
        MedstressError: of that kind.
    """
    try:
        yield
    except (*DAMAGE, *theirs) as error:
        raise kind(said(reason(error))) from error


@contextmanager
def loading(
    said: Callable[[str], str],
    kind: type[MedstressError] = UsageError,
    passes: Callable[[Exception], bool] = lambda _: False,
) -> Iterator[None]:
    """The same for libraries that may raise anything about a file: models, pipelines, plug-ins.

    Args:
        said: makes the sentence, with file and place, from the reason.
        kind: of the error.
        passes: which errors are somebody else's to explain.

    Raises:
        MedstressError: of that kind; one that was raised inside passes as it is.
    """
    try:
        yield
    except MedstressError:
        raise
    except Exception as error:  # code of others documents no exceptions
        if passes(error):
            raise
        raise kind(said(reason(error))) from error
    except BaseException as error:
        if not is_panic(error):
            raise
        raise kind(said(reason(error))) from error


def is_panic(error: BaseException) -> bool:
    """Whether a library written in Rust met what it did not expect; no `Exception`, by its rules.

    >>> is_panic(KeyboardInterrupt())
    False
    """
    return type(error).__name__ == "PanicException"


def reason(error: BaseException) -> str:
    """Say in a few words, and one line, why a file could not be read.

    >>> reason(RecursionError("maximum recursion depth exceeded"))
    'it is nested too deep'
    >>> reason(OSError(28, "No space left on device"))
    'No space left on device'
    >>> reason(KeyError("tokens"))
    "it lacks 'tokens'"
    """
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, MemoryError):
        return "it needs more memory than is free"
    if isinstance(error, KeyError):
        return f"it lacks {str(error)[:_MOST_SHOWN]}"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    said = " ".join(text.encode("utf-8", "replace").decode().split()) or type(error).__name__
    return said if len(said) <= _MOST_SHOWN else f"{said[:_MOST_SHOWN]}..."


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
        UsageError: it cannot be read, or is no such text.
    """
    with reading(lambda why: f"cannot read {path}: {why}"):
        return path.read_text("utf-8")


def read_json(path: Path, expected: str = "JSON") -> Any:
    """Return what a JSON file holds; a byte order mark is passed over.

    Raises:
        UsageError: it cannot be read.
        DataError: it is no JSON, or holds half a character.
    """
    data = read_bytes(path)
    said = f"{path}: expected {expected}, got malformed JSON"
    with reading(lambda why: f"{said} ({why}); mend the file", DataError):
        return whole(json.loads(data.decode("utf-8-sig")))


def whole(found: T) -> T:
    """Return what JSON says if files and hashes can hold it.

    Raises:
        DataError: it is nested too deep, or holds half a character, such as the legal "\\ud800".
    """
    if _is_deep(found):
        raise DataError(
            f"expected at most {DEEPEST_JSON} lists and objects in one another, got more"
        )
    try:
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise DataError(f"expected whole characters, got half a surrogate pair {half!r}") from error
    return found


def _is_deep(found: Any) -> bool:
    level = [found]
    for _ in range(DEEPEST_JSON):
        level = [
            part
            for value in level
            if isinstance(value, dict | list)
            for part in (value.values() if isinstance(value, dict) else value)
        ]
    return any(isinstance(value, dict | list) for value in level)


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Parse TOML, as far as an experiment can use it.

    Args:
        text: TOML.
        name: what messages call it.

    Raises:
        UsageError: no TOML; a number beyond 64 bits or no number; a NUL; nested too deep.
    """
    if _DOTTED.search(text):
        raise UsageError(f"{name}: expected keys of a few words, got one of 200 or more with dots")
    with reading(lambda why: f"{name} is not valid TOML: {why}"):
        found = tomllib.loads(text)
    return checked(found, name)


def checked(found: dict[str, Any], name: str) -> dict[str, Any]:
    """Return parsed TOML if every value can be compared, printed and stored.

    Raises:
        UsageError: see `parse_toml`.
    """
    waiting: list[tuple[Any, int, str]] = [(found, 0, "")]
    while waiting:
        value, depth, key = waiting.pop()
        if depth > DEEPEST:
            raise UsageError(
                f"{name}: {key}: expected at most {DEEPEST} tables and arrays within one another, "
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
    return found


def _complaint(value: Any) -> str | None:
    """Why a single value cannot be used."""
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        return "expected a whole number of at most 64 bits, got a larger one"
    if isinstance(value, float) and not math.isfinite(value):
        return f"expected a number, got {value}"
    if isinstance(value, str):
        if "\0" in value:
            return "expected a text without the character NUL, got one with it"
        if any("\ud800" <= character <= "\udfff" for character in value):
            return "expected text, got bytes that are no UTF-8"
    return None


def decoded(raw: bytes, path: Path, line: int = 1) -> str:
    """Bytes of a file as text, line ends as they are.

    Args:
        raw: the file, or a piece of it.
        path: the file, for the message.
        line: the line that `raw` begins with, from 1.

    Raises:
        DataError: not UTF-8: file, line and byte.
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
    """The lines of a file with their numbers from 1, without line ends.

    The byte 0x0A alone ends lines: `str.splitlines` would also split at U+2028 or U+0085.

    Raises:
        DataError: a line is not UTF-8, when it is reached.
    """
    lines = read_bytes(path).removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return ((n, decoded(raw, path, n).rstrip("\r")) for n, raw in enumerate(lines, start=1))
