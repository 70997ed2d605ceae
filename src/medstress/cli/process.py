"""The process of a command: its signals, and streams that pass on texts of strangers.

The first SIGINT, SIGTERM or SIGHUP raises `KeyboardInterrupt` in the main thread. A run then makes
no new calls, stores the answers in flight that come in time, and closes its folder. Work that hangs
is abandoned. A second signal ends the command at once.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from contextvars import ContextVar
from types import FrameType
from typing import Any, TextIO, cast

from medstress.core.words import command

INTERRUPTED = 130
"""The exit code after any of the signals."""
_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
_GRACE = 3.0
"""Seconds for closing the folder, after the time for calls in flight."""
_SAME_SIGNAL_SECONDS = 0.2
"""The same signal within this time does not count as a second one: `timeout` sends it to the
process and to its group, and so may a closing terminal."""
_RESUMABLE = ("demo", "run", "tune", "train", "test", "explain")
"""Commands that resume from what they stored."""


class Stopping:
    """What stops one command.

    Args:
        arguments: the command line.
        drain_seconds: time to wait for calls in flight.

    Attributes:
        by: the signal that stopped the command; None while it runs.
    """

    def __init__(self, arguments: Sequence[str], drain_seconds: float) -> None:
        self.drain_seconds = drain_seconds
        self.by: signal.Signals | None = None
        self._arguments = list(arguments)
        self._has_asked = False
        self._at = 0.0

    @contextmanager
    def handling(self) -> Iterator[Stopping]:
        """Handle the signals inside the block; in the main thread only."""
        before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                # A signal ignored from the start, as by nohup, stays ignored.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    before[number] = signal.signal(number, self._handle)
        token = STOPPING.set(self)
        try:
            yield self
        finally:
            STOPPING.reset(token)
            for number, handler in before.items():
                signal.signal(number, handler)

    def check(self) -> None:
        """Stop if a signal came; called between batches.

        Raises:
            KeyboardInterrupt: a signal came, but a library swallowed the exception it raised.
        """
        self._has_asked = True
        if self.by is not None:
            raise KeyboardInterrupt

    @property
    def sentence(self) -> str:
        """What happened, and the command that resumes."""
        by = self.by.name if self.by is not None else "SIGINT"
        again, what = self._arguments, "to start again: "
        if again[:1] and again[0] in _RESUMABLE:
            what = "every answer that arrived is stored; to resume: "
            if self._has_asked:
                # Typed again, it would delete what this run has stored.
                again = [word for word in again if word != "--fresh"]
        return f"medstress: interrupted ({by}); {what}{command(*again)}"

    def report(self) -> int:
        """Print the sentence, if stderr is still open; return the exit code."""
        with suppress(OSError, ValueError):
            print(self.sentence, file=sys.stderr, flush=True)
        return INTERRUPTED

    def _handle(self, number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        if self.by is None:
            self.by, self._at = signal.Signals(number), now
            timer = threading.Timer(self.drain_seconds + _GRACE, self._leave)
            timer.daemon = True
            timer.start()
            raise KeyboardInterrupt
        if number != self.by or now - self._at > _SAME_SIGNAL_SECONDS:
            self._leave()

    def _leave(self) -> None:
        """End the process at once; committed data is safe."""
        with suppress(OSError):
            # Not with print: the stream may be locked by an abandoned thread.
            os.write(2, f"{self.sentence}\n".encode(errors="replace"))
        os._exit(INTERRUPTED)


STOPPING: ContextVar[Stopping] = ContextVar("STOPPING")
"""That of the command that runs."""


def leave(code: int) -> None:
    """End the process without waiting for threads that still work.

    Raises:
        SystemExit: if no thread works.
    """
    threads = sys.modules.get("medstress.backends.threads")  # only imported if a model was asked
    if code == INTERRUPTED or (threads is not None and threads.is_working()):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


# -- streams ---------------------------------------------------------------------------------------

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
    return stream.plain if isinstance(stream, _Visible) else stream


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
