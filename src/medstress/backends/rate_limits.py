"""Requests and tokens per minute, shared by all threads that ask one server."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Lock

MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class _Ended:
    """A request that has ended and still counts."""

    at: float
    tokens: int


class RateLimits:
    """Lets requests through so that no minute ever holds more than is allowed.

    A bucket that refills steadily would let through twice the limit in its first minute, so the
    requests of the last minute are counted themselves. A request counts until a minute after it
    *ended*: the server saw it somewhere between its start and its end, and whenever that was, the
    server's own minute holds no more than ours. Tokens are reserved before, as an upper bound,
    and put right when the server says how many there were.

    Args:
        requests: the most requests a minute; None for no limit.
        tokens: the most tokens a minute; None for no limit.
        minute: seconds that the limits hold for.
        clock: seconds that never go back.
        wait: waits on a condition for at most so many seconds (None: until it is told).
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
            tokens: an upper bound; more than a whole minute's are taken for a minute's.

        Returns:
            The tokens reserved, for `end`.
        """
        reserved = tokens if self._tokens is None else min(tokens, self._tokens)
        # One thread waits for room, the others for their turn: first come, first served.
        with self._turn, self._changed:
            while (seconds := self._seconds_to_wait(reserved)) != 0:
                self._wait(self._changed, seconds)
            self._n_open += 1
            self._open_tokens += reserved
        return reserved

    def end(self, reserved: int, used: int) -> None:
        """A request has ended, well or not; `used` tokens count from now on."""
        with self._changed:
            self._n_open -= 1
            self._open_tokens -= reserved
            if self._requests is not None or self._tokens is not None:
                self._ended.append(_Ended(self._clock(), used))
                self._ended_tokens += used
            self._changed.notify_all()

    def pause(self, seconds: float) -> None:
        """Let nothing through for so long: the server has asked for it."""
        with self._changed:
            self._paused_until = max(self._paused_until, self._clock() + seconds)

    def _seconds_to_wait(self, tokens: int) -> float | None:
        """0: now; None: until a request ends."""
        now = self._clock()
        if now < self._paused_until:
            return self._paused_until - now
        while self._ended and self._ended[0].at + self._minute < now:
            self._ended_tokens -= self._ended.popleft().tokens
        too_many = self._requests is not None and self._n_open + len(self._ended) >= self._requests
        counted = self._open_tokens + self._ended_tokens
        # Usage may exceed what was reserved where that was cut to a whole minute's.
        too_long = self._tokens is not None and counted > 0 and counted + tokens > self._tokens
        if not too_many and not too_long:
            return 0.0
        if not self._ended:
            return None
        # Strictly after the minute, so that a window that includes both its ends holds no more.
        return self._ended[0].at + self._minute - now + 1e-3
