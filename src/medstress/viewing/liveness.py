"""Whether a process works in a run folder, found out without touching the folder or its lock."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from medstress.store.database import SIDES
from medstress.store.run_store import FILE, LOCK

QUIET_SECONDS = 10.0
"""A folder that changed within this time is at work, even if nobody is seen to hold its lock: the
process may belong to another container."""
_LOCKS = Path("/proc/locks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Liveness:
    """What there is to see of a process in a folder."""

    is_locked: bool | None
    """Whether a process of this machine holds the lock; None where the system does not tell."""
    process_seconds: float | None
    """How long that process has lived, if the system tells."""
    has_log: bool
    """Whether the database has a log beside it: whoever has it open for writing keeps one, and
    only a killed process leaves it behind."""
    changed: float | None
    """When the folder's run changed last, in seconds since 1970; None without a run."""

    def is_alive(self, now: float) -> bool:
        """Return whether a process works in the folder."""
        if self.is_locked is not None:
            return self.is_locked or (self.has_log and not self.is_quiet(now))
        return self.has_log

    def is_quiet(self, now: float) -> bool:
        """Return whether nothing has changed for a while."""
        return self.changed is None or now - self.changed > QUIET_SECONDS


def liveness(folder: Path, locks: Path = _LOCKS) -> Liveness:
    """Look at a folder; nothing is opened in it, and no lock is taken.

    Args:
        folder: the run folder.
        locks: the system's list of locks (Linux).
    """
    process = _holder(folder / LOCK, locks)
    return Liveness(
        is_locked=None if process is None else process > 0,
        process_seconds=_age(process) if process else None,
        has_log=(folder / f"{FILE}-wal").exists(),
        changed=max(
            (at for side in SIDES if (at := _changed(folder / f"{FILE}{side}")) is not None),
            default=None,
        ),
    )


def _changed(file: Path) -> float | None:
    # The index beside a log is touched by readers, too.
    try:
        return None if file.name.endswith("-shm") else file.stat().st_mtime
    except OSError:
        return None


def _holder(lock: Path, locks: Path) -> int | None:
    """Return the process that holds a lock, 0 if none does, None where that is not known."""
    try:
        listed, found = locks.read_text("ascii"), lock.stat()
    except FileNotFoundError:
        return 0 if locks.exists() else None
    except (OSError, UnicodeDecodeError):
        return None
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in listed.splitlines():
        # `1: FLOCK ADVISORY WRITE 27355 fe:00:2148157 0 EOF`; one who waits has an arrow.
        words = line.split()
        if len(words) > 5 and words[1] == "FLOCK" and words[5] == place:
            return int(words[4])
    return 0


def _age(process: int) -> float | None:
    """Return how long a process has lived, in seconds (Linux)."""
    try:
        after_name = Path(f"/proc/{process}/stat").read_text("utf-8", "replace").rpartition(")")[2]
        up = float(Path("/proc/uptime").read_text("ascii").split()[0])
        return up - int(after_name.split()[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
