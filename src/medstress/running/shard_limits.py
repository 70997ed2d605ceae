"""How many shards can be made and merged: a merge has all of them open at once."""

from __future__ import annotations

from medstress.core.errors import UsageError
from medstress.core.shards import MOST_SHARDS

_FILES_A_SHARD = 4
"""Open files of a shard: the database, its log and index, the lock."""
_FILES_BESIDE = 64


def check_number(n_shards: int, flag: str) -> None:
    """Check, before anything is asked, that so many shards can be made and merged here.

    Args:
        n_shards: how many shards there will be.
        flag: what they are given by.

    Raises:
        UsageError: they cannot.
    """
    if not 1 <= n_shards <= MOST_SHARDS:
        expected = "at least 1" if n_shards < 1 else f"at most {MOST_SHARDS:,}"
        raise UsageError(f"{flag}: expected {expected}, got {n_shards}")
    room_for(n_shards, flag)


def room_for(n_shards: int, flag: str) -> None:
    """Let this process open so many shards at once, if the system does.

    Args:
        n_shards: how many.
        flag: what they are given by.

    Raises:
        UsageError: it does not.
    """
    try:
        import resource
    except ImportError:  # Windows, where a process may open thousands of files
        return
    needed = _FILES_A_SHARD * n_shards + _FILES_BESIDE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UsageError(
            f"{flag}: merging {n_shards} shards takes {needed} open files, but a process may "
            f"open {hard}; raise the limit (ulimit -n), or cut the experiment into fewer shards"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
