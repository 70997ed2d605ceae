"""Threads of back ends: how many this machine has room for, and some that never keep a process.

Python waits at exit for the threads of the standard library's executors, so a model that hangs
would keep a finished process alive.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

R = TypeVar("R")


def available_cores() -> int:
    """Return the cores that this process may use; all of the machine where nothing limits it.

    Only Linux tells which cores a container or a batch system leaves to a process.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_unfinished: set[Future[Any]] = set()


def is_working() -> bool:
    """Return whether any work submitted in this process is waiting or running."""
    return bool(_unfinished)


class DaemonThreads:
    """A small pool of threads that start when they are needed.

    Args:
        max_threads: the largest number of threads.
        name: prefix of the threads' names; a number follows.
    """

    def __init__(self, max_threads: int, name: str) -> None:
        self._max_threads = max_threads
        self._name = name
        self._n_threads = 0
        self._idle = threading.Semaphore(0)
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()

    def submit(self, work: Callable[[], R]) -> Future[R]:
        """Run `work` in one of the threads; call this from one thread at a time."""
        future: Future[R] = Future()
        _unfinished.add(future)
        future.add_done_callback(_unfinished.discard)
        self._work.put((future, work))
        if self._n_threads < self._max_threads and not self._idle.acquire(blocking=False):
            name = f"{self._name}_{self._n_threads}"
            self._n_threads += 1
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        return future

    def close(self) -> None:
        """Accept no more work; the threads end after the work already submitted."""
        for _ in range(self._n_threads):
            self._work.put(None)

    def _serve(self) -> None:
        while (task := self._work.get()) is not None:
            _run(*task)
            del task  # otherwise an idle thread would keep its last result alive
            self._idle.release()


def _run(future: Future[Any], work: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - the caller gets it from the future
        future.set_exception(error)
    else:
        future.set_result(result)
