"""Freed memory of the C library kept for the next batch, where that can be asked for."""

from __future__ import annotations

import ctypes
import platform

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8
"""Parameters of glibc's mallopt (malloc.h)."""
_SETTINGS = {
    _MMAP_THRESHOLD: 1 << 30,
    _TRIM_THRESHOLD: (1 << 31) - 1,
    _TOP_PAD: 1 << 26,
    # A thread's own arena hands large blocks back whatever else is set.
    _ARENA_MAX: 1,
}


def keep_freed_memory() -> bool:
    """Let this process keep what it frees; says whether the C library can do that.

    A forward makes and frees some hundred tensors of megabytes. By default glibc hands them back
    to the system, which has to clear every page again that is touched for the first time: up to a
    tenth of the time of a small model on a virtual machine (measured there: 12 us a page of
    4 KB). The process keeps the memory of its largest batch instead.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    done = [mallopt(parameter, value) == 1 for parameter, value in _SETTINGS.items()]
    return all(done)
