"""Progress of a run, and the limits that stop it or a trial."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medstress.core.words import plural

if TYPE_CHECKING:
    from medstress.core.calls import Answer, Backend
    from medstress.engine.backend_queue import QueuedCall
    from medstress.engine.work import RunningWork

DRAIN_SECONDS = 20.0
"""Seconds to wait for calls in flight when a run is stopped."""
_SOME_SECONDS = 0.5
"""Before them a run's time cannot be estimated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When to stop cleanly, over all processes of a run; None is no limit."""

    max_queries: int | None = None
    """Computed calls, including baselines and calls ahead; never exceeded."""
    max_tokens: int | None = None
    """Tokens read and written; may be exceeded by about one batch."""
    max_usd: float | None = None
    """Cost in US dollars; may be exceeded by about one batch."""
    until: float | None = None
    """End of the run's time, on the monotonic clock; calls in flight have `drain_seconds` more."""
    trial_seconds: float | None = None
    """Time for one trial, from its first call."""
    drain_seconds: float = DRAIN_SECONDS
    """Time to wait for calls in flight once a time limit or an interrupt stops the run."""
    n_queries: int = 0
    """Computed calls of earlier processes."""
    n_tokens: int = 0
    """Tokens of earlier processes."""
    n_usd: float = 0.0
    """Cost of earlier processes."""
    usd_of: Callable[[Backend, Answer], float] = lambda *_: 0.0
    """Cost of an answer of a back end."""

    def room(self, progress: Progress, n_in_flight: int) -> int:
        """Return how many more calls may be made; 0 may be for as long as others are in flight."""
        if self.is_late:
            return 0
        n = self.n_queries + progress.n_computed
        for limit, used in (
            (self.max_tokens, self.n_tokens + progress.n_tokens),
            (self.max_usd, self.n_usd + progress.usd),
        ):
            # Calls in flight will cost what calls have cost so far; what the first cost is unknown.
            coming = 0.0 if not n_in_flight else n_in_flight * used / n if n else math.inf
            if limit is not None and used + coming >= limit:
                return 0
        if self.max_queries is None:
            return sys.maxsize
        return self.max_queries - n - n_in_flight

    @property
    def is_late(self) -> bool:
        """True if the run's time is up."""
        return self.until is not None and time.monotonic() >= self.until


@dataclass(slots=True)
class Progress:
    """Counts for displays; updated in place."""

    n_planned: int = 0
    n_done: int = 0
    n_skipped: int = 0
    """Finished in an earlier process."""
    n_idle: int = 0
    """Of those that are done, trials that had nothing to ask."""
    n_running: int = 0
    """Begun, and waiting for answers."""
    n_flipped: int = 0
    """Successes of attacks, of `n_eligible` trials; control arms count apart."""
    n_eligible: int = 0
    n_harmless_lost: int = 0
    """Of `n_harmless`, lost."""
    n_harmless: int = 0
    """Trials of control arms that were asked to the end."""
    n_failed: int = 0
    n_computed: int = 0
    """Calls computed in this process."""
    n_tokens: int = 0
    usd: float = 0.0
    stopped: bool = False
    """A limit was reached."""
    of: str = ""
    """What is counted, where it is no trials: the name of a follow-up."""

    def line(self, seconds: float) -> str:
        """Return the counts in one line.

        Args:
            seconds: since the trials began.

        >>> Progress(n_planned=9, n_done=5, n_computed=10, n_flipped=2, n_eligible=5).line(2.0)
        '5 of 9 trials, lost 2 of 5, 5.0 queries/s, about 2 s left'
        >>> Progress(n_eligible=4, n_harmless=3, n_computed=10, usd=0.5, n_failed=1).line(2.0)
        '0 of 0 trials, lost 0 of 4 (harmless edits 0 of 3), 5.0 queries/s, $0.50, 1 failed'
        >>> Progress(n_planned=9, n_done=5, n_skipped=4, n_eligible=5).line(2.0)
        '9 of 9 trials (4 from earlier), since then lost 0 of 5, 0.0 queries/s'
        >>> Progress(n_planned=80, n_done=40, n_idle=36, n_running=40, n_computed=8).line(12.0)
        '40 of 80 trials, 0.7 queries/s, about 2 min left'
        >>> Progress(n_planned=2, n_computed=10, of="explain").line(2.0)
        'explain: 0 of 2, 5.0 queries/s'
        """
        n_done = self.n_done + self.n_skipped
        earlier, since = "", ""
        if self.n_skipped:  # what they lost and cost is counted when the run has ended
            earlier, since = f" ({self.n_skipped:,} from earlier)", "since then "
        planned = f"{self.n_planned:,}" if self.of else plural(self.n_planned, "trial")
        parts = [f"{self.of}{': ' * bool(self.of)}{n_done:,} of {planned}{earlier}"]
        if self.n_eligible or self.n_harmless:
            harmless = f" (harmless edits {self.n_harmless_lost:,} of {self.n_harmless:,})"
            lost = f"{since}lost {self.n_flipped:,} of {self.n_eligible:,}"
            parts.append(lost + (harmless if self.n_harmless else ""))
        parts.append(f"{self.n_computed / max(seconds, 1e-9):,.1f} queries/s")
        n_left, n_asked = self.n_planned - n_done, self.n_done - self.n_idle
        if n_left > 0 and n_asked and not self.stopped and seconds >= _SOME_SECONDS:
            # Trials that have nothing to ask end as they are begun.
            share = 1 - self.n_idle / (self.n_done + self.n_running)
            n_left_to_ask = self.n_running + (n_left - self.n_running) * share
            hours, rest = divmod(round(seconds / n_asked * n_left_to_ask), 3600)
            minutes = f"{rest // 60} min" if rest >= 60 else f"{rest} s"
            parts.append(f"about {f'{hours} h ' if hours else ''}{minutes} left")
        if self.usd:
            parts.append(f"${self.usd:,.2f}")
        if self.n_failed:
            parts.append(f"{self.n_failed:,} failed")
        return ", ".join(parts)


class Deadlines:
    """Checks the clock for a scheduler, between batches.

    A trial's clock starts when its first call is handed to a back end and runs on while later
    calls wait in the queue. Inquiries and studies have no limit: some take hours.

    Args:
        limits: of the run.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._seconds = limits.trial_seconds

    def begin(self, entries: Iterable[QueuedCall]) -> None:
        """Start the clocks of the trials whose calls are handed over now."""
        if self._seconds is None:
            return
        now = time.monotonic()
        for entry in entries:
            for running, _ in entry.waiters:
                if running.until is None and running.work.has_deadline:
                    running.until = now + self._seconds

    def overdue(self, all_running: Collection[RunningWork]) -> list[RunningWork]:
        """Return the trials whose time is up."""
        if self._seconds is None:
            return []
        now = time.monotonic()
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
            over = time.monotonic() >= self._limits.until
            ends.append(self._limits.until + (self._limits.drain_seconds if over else 0.0))
        return max(min(ends) - time.monotonic(), 0.0) if ends else None

    @property
    def drain_is_over(self) -> bool:
        """True if the run's time is up, and the time to wait for calls in flight as well."""
        until = self._limits.until
        return until is not None and time.monotonic() >= until + self._limits.drain_seconds

    @property
    def reason(self) -> str:
        """Why a trial was cut short."""
        return f"it had not ended {self._seconds:g} seconds after its first call (trial_seconds)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """Callbacks for progress; every default does nothing."""

    note: Callable[[str], None] = lambda _: None
    """Receives what is being prepared."""
    announce: Callable[[str], None] = lambda _: None
    """Receives what the user should read before it costs money."""
    vectors: Callable[[int, int], None] | None = None
    """Receives (done, all) while vectors are computed."""
    progress: Callable[[Progress], None] = lambda _: None
    """Receives counts while trials run."""
    drain_seconds: float = DRAIN_SECONDS
    """Time for calls in flight after the run is stopped."""
