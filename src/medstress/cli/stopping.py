"""One way to stop a command: INT, TERM and HUP end it alike, and a second one at once.

The first raises `KeyboardInterrupt` where the main thread is. A run then makes no new calls, stores
what is in flight and comes in time, and closes its folder; whatever hangs after that is left.
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

from medstress.scheduler.progress import DRAIN_SECONDS

INTERRUPTED = 130
"""The exit code, whichever signal it was."""
_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
_GRACE = 3.0
"""Seconds beyond those for calls in flight in which all must be closed."""
_SAME = 0.2
"""Seconds in which the same signal again is no second one: `timeout` sends it to the process and
to its group, and so may a terminal that closes."""
_GOES_ON = ("demo", "run", "tune", "train", "test")
"""Commands that find what they stored."""


class Stopping:
    """Handles the signals of one command; a context manager, in the main thread only.

    Args:
        arguments: the command line.
        drain_seconds: for calls in flight.

    Attributes:
        by: the signal that stopped it; None while it goes on.
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
                # Whoever starts us with a signal ignored, such as nohup, wants it ignored.
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
        """Called while models are asked, between batches.

        Raises:
            KeyboardInterrupt: a signal came, and some library has swallowed what it raised.
        """
        self._has_asked = True
        if self.by is not None:
            raise KeyboardInterrupt

    @property
    def sentence(self) -> str:
        """What happened, and the command that goes on."""
        by = self.by.name if self.by is not None else "SIGINT"
        given = self._arguments
        if given[:1] and given[0] in _GOES_ON:
            if self._has_asked:
                # A second time it would throw away what this run has stored.
                given = [each for each in given if each != "--fresh"]
            what = "everything that arrived is stored, to go on: "
        else:
            what = "to start again: "
        return f"medstress: interrupted ({by}); {what}{shlex.join(['medstress', *given])}"

    def tell(self) -> None:
        """Print the sentence, where there is still somebody to read it."""
        with suppress(OSError, ValueError):
            print(self.sentence, file=sys.stderr, flush=True)

    def _handle(self, number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        if self.by is None:
            self.by, self._at = signal.Signals(number), now
            _later(self.drain_seconds + _GRACE, self._leave)
            raise KeyboardInterrupt
        if number != self.by or now - self._at > _SAME:
            self._leave()

    def _leave(self) -> None:
        """End the process as it stands: what was committed is safe."""
        with suppress(OSError):
            # Not by print: the stream may be locked by what is left where it stands.
            os.write(2, f"{self.sentence}\n".encode(errors="replace"))
        os._exit(INTERRUPTED)


def leave(code: int) -> None:
    """End the process; threads that still work for it are not waited for.

    Raises:
        SystemExit: in the ordinary case.
    """
    threads = sys.modules.get("medstress.daemon_threads")  # where nothing was asked it is not here
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
