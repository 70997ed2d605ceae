"""One thread in which all models compute on the CPU.

torch uses OpenMP, which keeps a team of threads for every thread that ever gave it work. Once there
are more OpenMP threads than cores, they sleep instead of spinning at each of the hundreds of
barriers of a forward pass, and a small model loses a quarter of its speed. So all CPU computation
runs in this thread, whichever thread calls it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, wraps
from typing import ParamSpec, TypeVar

from medstress.machine.freed_memory import keep_freed_memory

P = ParamSpec("P")
R = TypeVar("R")

_NAME = "medstress-compute"


def in_compute_thread(work: Callable[P, R]) -> Callable[P, R]:
    """Make a function always run in the compute thread while its caller waits.

    With CUDA it runs in the calling thread, so that several devices can work at once.

    >>> import threading
    >>> in_compute_thread(lambda: threading.current_thread().name)()
    'medstress-compute_0'
    """

    @wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if threading.current_thread().name.startswith(_NAME) or _has_cuda():
            return work(*args, **kwargs)
        n_threads = _n_threads()

        def with_callers_threads() -> R:
            if n_threads and _n_threads() != n_threads:
                import torch

                torch.set_num_threads(n_threads)
            return work(*args, **kwargs)

        return _pool().submit(with_callers_threads).result()

    return run


def _n_threads() -> int | None:
    """The number of torch threads of the calling thread; None if torch is not loaded."""
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
    # Before the thread first allocates memory, because it keeps the arena it begins with.
    keep_freed_memory()
    return ThreadPoolExecutor(1, thread_name_prefix=_NAME)


if hasattr(os, "register_at_fork"):
    # A forked child does not inherit the thread.
    os.register_at_fork(after_in_child=_pool.cache_clear)
