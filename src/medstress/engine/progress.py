"""Progress of a run and the limits that stop it."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medstress.core.calls import Answer, Backend

DRAIN_SECONDS = 20.0
"""Seconds to wait for calls in flight when a run is stopped."""


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
            # Calls in flight will cost what calls have cost so far; of the first, nobody knows.
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
    n_flipped: int = 0
    """Successes of attacks; those of control arms are not counted, as for `n_eligible`."""
    n_eligible: int = 0
    n_failed: int = 0
    n_computed: int = 0
    """Calls computed in this process."""
    n_tokens: int = 0
    usd: float = 0.0
    stopped: bool = False
    """A limit was reached."""
