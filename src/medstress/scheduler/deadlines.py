"""When trials, and the run, have used up the seconds they were given."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable

from medstress.scheduler.lane import QueuedCall
from medstress.scheduler.live import RunningWork
from medstress.scheduler.progress import Limits


class Deadlines:
    """Looks at the clock for a scheduler, between batches.

    A trial's time begins when its first call is handed to a back end, and goes on while its later
    calls wait for their turn. Inquiries and studies have none: some take hours.

    Args:
        limits: of the run.
        clock: seconds that never go back.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._seconds = limits.trial_seconds

    def begin(self, entries: Iterable[QueuedCall]) -> None:
        """Calls are handed over: the time of the trials that asked for them begins."""
        if self._seconds is None:
            return
        now = self._clock()
        for entry in entries:
            for running, _ in entry.waiters:
                if running.until is None and running.work.has_deadline:
                    running.until = now + self._seconds

    def overdue(self, all_running: Collection[RunningWork]) -> list[RunningWork]:
        """The trials whose time is up."""
        if self._seconds is None:
            return []
        now = self._clock()
        return [
            running for running in all_running if running.until is not None and running.until <= now
        ]

    def seconds_to_wait(self, all_running: Collection[RunningWork]) -> float | None:
        """Seconds that calls in flight may be waited for before the clock is to be looked at."""
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
        """Whether the run's time is up, and that of calls in flight after it."""
        until = self._limits.until
        return until is not None and self._clock() >= until + self._limits.drain_seconds

    @property
    def told(self) -> str:
        """Why a trial was cut short."""
        return f"it was not done {self._seconds:g} seconds after its first call (trial_seconds)"
