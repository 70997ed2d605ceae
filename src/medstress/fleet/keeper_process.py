"""The driver's side of the keeper: a process that is started again whenever it is gone."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from medstress.core import errors
from medstress.core.errors import MedstressError, StoreError
from medstress.fleet.leases import StaleLeaseError
from medstress.fleet.messages import pack, read_frame, unpack, write_frame

_MOST_STARTS = 5
"""Keepers that may end while they work on one message."""


class KeeperProcess:
    """Asks the keeper of one run, in a process of its own."""

    def __init__(self, folder: Path, lease_seconds: float) -> None:
        self._command = [
            *(sys.executable, "-m", "medstress.fleet.keeper"),
            *(str(folder), str(lease_seconds)),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self.n_restarts = 0

    @property
    def pid(self) -> int | None:
        """Number of the process, while there is one."""
        return None if self._process is None else self._process.pid

    def ask(self, ask: str, ledger: bytes = b"", **values: Any) -> tuple[dict[str, Any], bytes]:
        """Send a message and return the answer.

        Raises:
            StaleLeaseError: it speaks for a lease that has ended.
            StoreError: it could not be done.
        """
        return checked_answer(self.pass_on(pack({"ask": ask, **values}, ledger)))

    def pass_on(self, data: bytes) -> bytes:
        """Send a message as it is, to another keeper if one ends, and return the answer.

        Raises:
            StoreError: several keepers ended.
        """
        for _ in range(_MOST_STARTS):
            process = self._running()
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(OSError):
                write_frame(process.stdin, data)
                if (answer := read_frame(process.stdout)) is not None:
                    return answer
            self._end()
            self.n_restarts += 1
        raise StoreError(
            "the process that holds leases and ledgers ended again and again "
            f"({' '.join(self._command[1:4])}); what it said is above"
        )

    def close(self) -> None:
        """End the process; all it answered is on disk."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
        self._end()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            # A session of its own: Ctrl+C is the driver's to handle.
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


def checked_answer(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return an answer, or raise the error that it holds."""
    answer, ledger = unpack(data)
    if "stale" in answer:
        raise StaleLeaseError(answer["stale"])
    if "error" in answer:
        raise error_of(answer)
    return answer, ledger


def error_of(told: dict[str, Any]) -> Exception:
    """Return the error that another process tells of."""
    kind = getattr(errors, str(told["kind"]), None)
    if isinstance(kind, type) and issubclass(kind, MedstressError):
        # Some are made of more than a sentence: the nearest kind that needs no more.
        plain: type[Exception] = next(one for one in kind.__mro__ if "__init__" not in vars(one))
        return plain(told["error"])
    return RuntimeError(f"{told['kind']}: {told['error']}")
