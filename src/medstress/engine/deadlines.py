"""Time limits of trials and of the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable

from medstress.engine.backend_queue import QueuedCall
from medstress.engine.progress import Limits
from medstress.engine.running_work import RunningWork


class Deadlines:
    """Checks the clock for a scheduler, between batches.

    A trial's clock starts when its first call is handed to a back end and runs on while later
    calls wait in the queue. Inquiries and studies have no limit: some take hours.

    Args:
        limits: of the run.
        clock: monotonic, in seconds.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._seconds = limits.trial_seconds

    def begin(self, entries: Iterable[QueuedCall]) -> None:
        """Start the clocks of the trials whose calls are handed over now."""
        if self._seconds is None:
            return
        now = self._clock()
        for entry in entries:
            for running, _ in entry.waiters:
                if running.until is None and running.work.has_deadline:
                    running.until = now + self._seconds

    def overdue(self, all_running: Collection[RunningWork]) -> list[RunningWork]:
        """Return the trials whose time is up."""
        if self._seconds is None:
            return []
        now = self._clock()
        return [
            running for running in all_running if running.until is not None and running.until <= now
        ]

    def seconds_to_wait(self, all_running: Collection[RunningWork]) -> float | None:
        """Return the seconds to wait for calls in flight until the next limit; None: no limit."""
        ends = (
            [running.until for running in all_running if running.until is not None]
            if self._seconds
            else []
        )
        if self._limits.until is not None:
            over = self._clock() >= self._limits.until
            ends.append(self._limits.until + (self._limits.drain_seconds if over else 0.0))
        return max(min(ends) - self._clock(), 0.0) if ends else None

    @property
    def drain_is_over(self) -> bool:
        """True if the run's time is up, and the time to wait for calls in flight as well."""
        until = self._limits.until
        return until is not None and self._clock() >= until + self._limits.drain_seconds

    @property
    def reason(self) -> str:
        """Why a trial was cut short."""
        return f"it had not ended {self._seconds:g} seconds after its first call (trial_seconds)"
