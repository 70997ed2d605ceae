"""Stop a command on SIGINT, SIGTERM or SIGHUP; a second signal ends it at once.

The first signal raises `KeyboardInterrupt` in the main thread. A run then makes no new calls,
stores the answers in flight that come in time, and closes its folder. Work that hangs is abandoned.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

from medstress.engine.progress import DRAIN_SECONDS

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
_RESUMABLE = ("demo", "run", "tune", "train", "test")
"""Commands that resume from what they stored."""


class Stopping:
    """Handles the signals of one command; a context manager, in the main thread only.

    Args:
        arguments: the command line.
        drain_seconds: time to wait for calls in flight.

    Attributes:
        by: the signal that stopped the command; None while it runs.
    """

    def __init__(self, arguments: Sequence[str], drain_seconds: float = DRAIN_SECONDS) -> None:
        self.drain_seconds = drain_seconds
        self.by: signal.Signals | None = None
        self._arguments = list(arguments)
        self._has_asked = False
        self._at = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stopping:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                # A signal ignored from the start, as by nohup, stays ignored.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
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
        given = self._arguments
        if given[:1] and given[0] in _RESUMABLE:
            if self._has_asked:
                # Given again, it would delete what this run has stored.
                given = [each for each in given if each != "--fresh"]
            what = "every answer that arrived is stored; to resume: "
        else:
            what = "to start again: "
        return f"medstress: interrupted ({by}); {what}{shlex.join(['medstress', *given])}"

    def report(self) -> None:
        """Print the sentence, if stderr is still open."""
        with suppress(OSError, ValueError):
            print(self.sentence, file=sys.stderr, flush=True)

    def _handle(self, number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        if self.by is None:
            self.by, self._at = signal.Signals(number), now
            _later(self.drain_seconds + _GRACE, self._leave)
            raise KeyboardInterrupt
        if number != self.by or now - self._at > _SAME_SIGNAL_SECONDS:
            self._leave()

    def _leave(self) -> None:
        """End the process at once; committed data is safe."""
        with suppress(OSError):
            # Not with print: the stream may be locked by an abandoned thread.
            os.write(2, f"{self.sentence}\n".encode(errors="replace"))
        os._exit(INTERRUPTED)


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


def _later(seconds: float, work: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, work)
    timer.daemon = True
    timer.start()
