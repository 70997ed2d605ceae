"""Keep printed texts, which may come from others, from controlling the terminal."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
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


def outlive_reader() -> None:
    """Let the command go on, in silence, when who reads its output closes the pipe.

    So its exit code is its verdict, and its files are written, whoever has read enough.
    """
    if isinstance(sys.stdout, _Visible):
        sys.stdout.outlives = True


class _Visible:
    """A stream that passes text on through `visible`."""

    outlives = False
    """Whether a closed pipe ends the output and not the command."""

    def __init__(self, stream: TextIO) -> None:
        self.plain = plain_stream(stream)

    def write(self, text: str) -> int:
        """Write a text through `visible`; what the stream cannot encode, as escapes."""
        shown, encoding = visible(text), getattr(self.plain, "encoding", None)
        if encoding:
            shown = shown.encode(encoding, "backslashreplace").decode(encoding)
        with self._unbroken():
            self.plain.write(shown)
        return len(text)

    def flush(self) -> None:
        """Write out what is buffered."""
        with self._unbroken():
            self.plain.flush()

    @contextmanager
    def _unbroken(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            if not self.outlives:
                raise
            # What is buffered still goes somewhere: an error at the end would change the exit code.
            with suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self.plain.fileno())
                os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)
