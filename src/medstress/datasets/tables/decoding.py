"""Text of files in UTF-8, in UTF-16 or UTF-32 with a byte order mark, or as the user says."""

from __future__ import annotations

import codecs
from pathlib import Path

from medstress.core.errors import DataError, UsageError
from medstress.files.bounded import check_line_lengths, read_data
from medstress.files.reading import decode_utf8

_MARKS = (  # the marks of UTF-32 begin with those of UTF-16
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LOOKED_AT = 4096
"""Bytes at the beginning that tell whether a text is UTF-16 without a mark."""


def checked_encoding(name: str | None) -> str | None:
    """Return the name of an encoding of text that Python knows.

    Raises:
        UsageError: Python knows none of this name.
    """
    if name is None:
        return None
    try:
        "".encode(name)
    except (LookupError, ValueError):  # unknown, or no encoding of text
        raise UsageError(
            f"encoding: expected a name such as 'utf-8', 'cp1252' or 'utf-16-le', got {name!r}"
        ) from None
    return name


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
    check_line_lengths(path, data)
    given = checked_encoding(encoding)
    marked = next((name for mark, name in _MARKS if data.startswith(mark)), None)
    if given is None and marked in (None, "utf-8-sig"):
        start = data[:_LOOKED_AT]
        if start.count(0) > len(start) // 4:
            ends = "le" if start[1:2] == b"\0" else "be"
            raise DataError(
                f"{path}: expected UTF-8 text, got bytes that look like UTF-16 without its mark; "
                f'give encoding = "utf-16-{ends}", or save the file as UTF-8'
            )
        try:
            return decode_utf8(data.removeprefix(codecs.BOM_UTF8), path), ""
        except DataError as error:
            raise DataError(
                f'{error}, or give its encoding, such as encoding = "cp1252" (Windows, '
                "Western Europe)"
            ) from error
    name = given or marked or "utf-8"
    try:
        text = data.decode(name)
    except UnicodeDecodeError as error:
        line = 1 + data.count(b"\n", 0, error.start)
        raise DataError(
            f"{path}, line {line}: expected {name} text, got the byte 0x{data[error.start]:02x}; "
            "fix the key 'encoding', or save the file as UTF-8"
        ) from error
    return text.removeprefix("\ufeff"), "" if given else name.upper()
