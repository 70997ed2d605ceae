"""Worker threads that never keep a process from ending.

Those of the standard library's executors are waited for at exit, so that a model that hangs would
hold a process that has nothing else to do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

R = TypeVar("R")

_unfinished: set[Future[Any]] = set()


def is_working() -> bool:
    """True while anything submitted in this process waits for its thread or is worked on."""
    return bool(_unfinished)


class DaemonThreads:
    """A few threads, begun as they are needed.

    Args:
        most: how many.
        name: of the threads, with a number.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._n_threads = 0
        self._idle = threading.Semaphore(0)
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()

    def submit(self, work: Callable[[], R]) -> Future[R]:
        """Let a thread do something; submitted by one thread at a time."""
        future: Future[R] = Future()
        _unfinished.add(future)
        future.add_done_callback(_unfinished.discard)
        self._work.put((future, work))
        if self._n_threads < self._most and not self._idle.acquire(blocking=False):
            name = f"{self._name}_{self._n_threads}"
            self._n_threads += 1
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        return future

    def close(self) -> None:
        """Take nothing more on; threads end once they have done what they work on."""
        for _ in range(self._n_threads):
            self._work.put(None)

    def _serve(self) -> None:
        while (given := self._work.get()) is not None:
            _do(*given)
            del given  # or an idle thread would hold on to what it returned
            self._idle.release()


def _do(future: Future[Any], work: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
        future.set_exception(error)
    else:
        future.set_result(result)
