"""How many cores this process may use."""

from __future__ import annotations

import os


def available_cores() -> int:
    """Return the cores that this process may use; all of the machine where nothing limits it.

    Only Linux tells which cores a container or a batch system leaves to a process.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
