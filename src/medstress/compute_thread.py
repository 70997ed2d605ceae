"""One thread for all that models compute on the processor.

torch shares work among the cores through OpenMP, which keeps a team of threads for every thread
that ever asked it for work. As soon as there are more of these than cores, they sleep at each of
the hundreds of barriers of a forward instead of waiting awake, and a small model loses a quarter
of its speed. So whoever computes does it here, whatever thread it was called in.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, wraps
from typing import ParamSpec, TypeVar

from medstress.freed_memory import keep_freed_memory

P = ParamSpec("P")
R = TypeVar("R")

_NAME = "medstress-compute"


def in_compute_thread(work: Callable[P, R]) -> Callable[P, R]:
    """Let a function always run in the one thread, and its caller wait.

    With CUDA it runs where it is called: several devices are to work at once.

    >>> import threading
    >>> in_compute_thread(lambda: threading.current_thread().name)()
    'medstress-compute_0'
    """

    @wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if threading.current_thread().name.startswith(_NAME) or _has_cuda():
            return work(*args, **kwargs)
        wanted = _n_threads()

        def like_its_caller() -> R:
            if wanted and _n_threads() != wanted:
                import torch

                torch.set_num_threads(wanted)
            return work(*args, **kwargs)

        return _pool().submit(like_its_caller).result()

    return run


def _n_threads() -> int | None:
    """What `torch.set_num_threads` set in this thread, or before it began."""
    torch = sys.modules.get("torch")
    return torch.get_num_threads() if torch else None


@cache
def _has_cuda() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


@cache
def _pool() -> ThreadPoolExecutor:
    # Before the thread takes memory for the first time: from then on it keeps to its own.
    keep_freed_memory()
    return ThreadPoolExecutor(1, thread_name_prefix=_NAME)


if hasattr(os, "register_at_fork"):
    # A child process has no such thread yet.
    os.register_at_fork(after_in_child=_pool.cache_clear)
