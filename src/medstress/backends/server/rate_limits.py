"""Limits requests and tokens per minute, for all threads that ask one server."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Lock

MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class _Ended:
    """A request that has ended but still counts."""

    at: float
    tokens: int


class RateLimits:
    """Delays requests so that no minute exceeds the limits.

    A bucket that refills steadily would let twice the limit through in its first minute, so this
    counts the requests of the last minute. A request counts until one minute after it *ended*: the
    server saw it at some time between its start and end, so the server's count never exceeds ours.
    Tokens are reserved as an upper bound and corrected when the server reports their number.

    Args:
        requests: the most requests per minute; None for no limit.
        tokens: the most tokens per minute; None for no limit.
        minute: the period of the limits, in seconds.
        clock: a monotonic clock, in seconds.
        wait: waits on a condition for at most so many seconds (None: until notified).
    """

    def __init__(
        self,
        requests: int | None = None,
        tokens: int | None = None,
        *,
        minute: float = MINUTE,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[Condition, float | None], object] = Condition.wait,
    ) -> None:
        self._requests = requests
        self._tokens = tokens
        self._minute = minute
        self._clock = clock
        self._wait = wait
        self._turn = Lock()
        self._changed = Condition()
        self._ended: deque[_Ended] = deque()
        self._n_open = 0
        self._open_tokens = 0
        self._ended_tokens = 0
        self._paused_until = -float("inf")

    def start(self, tokens: int) -> int:
        """Wait until a request may be made, and count it.

        Args:
            tokens: an upper bound; reduced to the limit of a minute if it exceeds it.

        Returns:
            The tokens reserved, for `end`.
        """
        reserved = tokens if self._tokens is None else min(tokens, self._tokens)
        # One thread waits for capacity and the others for their turn: first come, first served.
        with self._turn, self._changed:
            while (seconds := self._seconds_to_wait(reserved)) != 0:
                self._wait(self._changed, seconds)
            self._n_open += 1
            self._open_tokens += reserved
        return reserved

    def end(self, reserved: int, used: int) -> None:
        """Record that a request has ended, successfully or not; `used` tokens count from now."""
        with self._changed:
            self._n_open -= 1
            self._open_tokens -= reserved
            if self._requests is not None or self._tokens is not None:
                self._ended.append(_Ended(self._clock(), used))
                self._ended_tokens += used
            self._changed.notify_all()

    def pause(self, seconds: float) -> None:
        """Hold back all requests for so many seconds, because the server asked for it."""
        with self._changed:
            self._paused_until = max(self._paused_until, self._clock() + seconds)

    def _seconds_to_wait(self, tokens: int) -> float | None:
        """Return the seconds to wait: 0 for none, None to wait until a request ends."""
        now = self._clock()
        if now < self._paused_until:
            return self._paused_until - now
        while self._ended and self._ended[0].at + self._minute < now:
            self._ended_tokens -= self._ended.popleft().tokens
        too_many = self._requests is not None and self._n_open + len(self._ended) >= self._requests
        counted = self._open_tokens + self._ended_tokens
        # Usage may exceed a reservation that was reduced to the limit of a minute.
        too_long = self._tokens is not None and counted > 0 and counted + tokens > self._tokens
        if not too_many and not too_long:
            return 0.0
        if not self._ended:
            return None
        # Strictly after the minute, so that a window with both its ends stays within the limit.
        return self._ended[0].at + self._minute - now + 1e-3
