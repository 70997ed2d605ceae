"""What is printed holds texts of strangers: nothing in them may steer the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
"""Control characters but for tab and line end, what turns the direction of writing round, what
ends a line unseen, and what cannot be encoded."""


def visible(text: str) -> str:
    r"""Write what would steer a terminal as it is written in Python.

    >>> print(visible("red \x1b[31m\u202e"))
    red \x1b[31m\u202e
    """
    return _STEERING.sub(lambda found: ascii(found[0])[1:-1], text)


def one_line(text: str) -> str:
    """The same in one line.

    >>> one_line("first  line\\nsecond")
    'first  line second'
    """
    return visible(" ".join(text.splitlines()))


def plain_stream(stream: TextIO) -> TextIO:
    """The stream itself, for what draws on a terminal on purpose."""
    return cast(TextIO, getattr(stream, "plain", stream))


@contextmanager
def visible_output() -> Iterator[None]:
    """Whatever is printed meanwhile is printed visibly."""
    with (
        redirect_stdout(cast(TextIO, _Visible(sys.stdout))),
        redirect_stderr(cast(TextIO, _Visible(sys.stderr))),
    ):
        yield


class _Visible:
    """A stream that passes on what it is given, visibly."""

    def __init__(self, stream: TextIO) -> None:
        self.plain = plain_stream(stream)

    def write(self, text: str) -> int:
        """Write a text."""
        self.plain.write(visible(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)
