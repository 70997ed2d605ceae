"""Keep printed texts, which may come from others, from controlling the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
"""Control characters except tab and line end, marks that change the writing direction or end a line
invisibly, and characters that cannot be encoded."""


def visible(text: str) -> str:
    r"""Replace characters that control a terminal by Python escapes.

    >>> print(visible("red \x1b[31m\u202e"))
    red \x1b[31m\u202e
    """
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def one_line(text: str) -> str:
    """Return `visible(text)` in one line.

    >>> one_line("first  line\\nsecond")
    'first  line second'
    """
    return visible(" ".join(text.splitlines()))


def plain_stream(stream: TextIO) -> TextIO:
    """Return the underlying stream, for output that controls the terminal on purpose."""
    return cast(TextIO, getattr(stream, "plain", stream))


@contextmanager
def visible_output() -> Iterator[None]:
    """Make all output inside the block pass through `visible`."""
    with (
        redirect_stdout(cast(TextIO, _Visible(sys.stdout))),
        redirect_stderr(cast(TextIO, _Visible(sys.stderr))),
    ):
        yield


class _Visible:
    """A stream that passes text on through `visible`."""

    def __init__(self, stream: TextIO) -> None:
        self.plain = plain_stream(stream)

    def write(self, text: str) -> int:
        """Write a text through `visible`; what the stream cannot encode, as escapes."""
        shown, encoding = visible(text), getattr(self.plain, "encoding", None)
        if encoding:
            shown = shown.encode(encoding, "backslashreplace").decode(encoding)
        self.plain.write(shown)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)
