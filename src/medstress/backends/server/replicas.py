"""Chooses which of several servers gets a request, and sets aside those that fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock

from medstress.backends.server.errors import ServerTrouble
from medstress.backends.server.replica import Replica, is_leaving

_FAILURES = 3
"""Failures in a row that set a replica aside, whatever they are."""


@dataclass(slots=True, kw_only=True)
class _State:
    """How one replica does."""

    until: float | None = None
    """When it may be tried again, on the monotonic clock; None while it is well."""
    pause: float = 0.0
    """How long it was last set aside, in seconds."""
    n_in_a_row: int = 0
    """Failures since its last answer."""
    probing: bool = False
    """Whether a thread checks it now."""


class Replicas:
    """Servers that answer as one model.

    Requests of an item go to the same one, by rendezvous hashing: each server gets a hash of its
    address and the item, and the largest wins. If one leaves, only its own items move, and they
    come back with it (D. G. Thaler, C. V. Ravishankar, Using name-based mappings to increase hit
    rates, IEEE/ACM Transactions on Networking 6 (1), 1998, section II).

    A server that cannot be reached, drops a connection or answers 502, 503 or 504 is set aside: it
    gets no new requests, and those in flight end. So is one that fails three times in a row. After
    a pause its list of models is asked for; if that comes, it is back, and if not, the pause
    doubles.

    Args:
        replicas: at least one. A single one is never set aside.
        pause: the first pause, in seconds.
        longest: the longest pause, in seconds.
        clock: the monotonic clock.
    """

    def __init__(
        self,
        replicas: Sequence[Replica],
        *,
        pause: float,
        longest: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.all = tuple(replicas)
        self._states = [_State() for _ in self.all]
        self._pause = pause
        self._longest = longest
        self._clock = clock
        self._lock = Lock()

    def choose(self, item: str) -> Replica:
        """Return the server for a request of an item: of those that are well, the item's first.

        If none is well, the one whose pause ends first.
        """
        if len(self.all) == 1:
            return self.all[0]
        for place in self._ranked(item):
            if self._is_usable(place):
                return self.all[place]
        with self._lock:
            waits = [(state.until or 0.0, place) for place, state in enumerate(self._states)]
        return self.all[min(waits)[1]]

    def answered(self, replica: Replica) -> None:
        """Note an answer. One that was in flight when its server was set aside brings it not back:
        a server that is shut down still answers what it has begun."""
        with self._lock:
            state = self._states[self.all.index(replica)]
            if state.until is None:
                state.pause, state.n_in_a_row = 0.0, 0

    def failed(self, replica: Replica, trouble: ServerTrouble) -> bool:
        """Note a failure; set the server aside if it should get no more requests for now.

        Returns:
            Whether another server can take its requests at once.
        """
        with self._lock:
            replica.n_failed += 1
            if len(self.all) == 1:
                return False
            state = self._states[self.all.index(replica)]
            state.n_in_a_row += not trouble.rejected
            if not is_leaving(trouble) and state.n_in_a_row < _FAILURES:
                return False
            if state.until is None:
                # Of the requests in flight, only the first to fail begins the pause.
                self._set_aside(replica, state, trouble.retry_after or 0.0)
            return any(each.until is None for each in self._states)

    def set_aside(self, replica: Replica) -> None:
        """Set a server aside that could not be greeted."""
        with self._lock:
            self._set_aside(replica, self._states[self.all.index(replica)], 0.0)

    def _set_aside(self, replica: Replica, state: _State, asked: float) -> None:
        state.pause = max(min(state.pause * 2 or self._pause, self._longest), asked)
        state.until = self._clock() + state.pause
        replica.n_set_aside += 1

    def _is_usable(self, place: int) -> bool:
        """Return whether a server is well; check one whose pause is over."""
        state = self._states[place]
        with self._lock:
            if state.until is None:
                return True
            if state.probing or self._clock() < state.until:
                return False
            state.probing = True
        well = self.all[place].is_well()
        with self._lock:
            state.probing = False
            if well:
                # The pause stays known until an answer comes, and doubles if none does.
                state.until, state.n_in_a_row = None, 0
            else:
                state.pause = min(state.pause * 2, self._longest)
                state.until = self._clock() + state.pause
        return well

    def _ranked(self, item: str) -> list[int]:
        weights = [
            blake2b(f"{replica.server.url}\n{item}".encode(), digest_size=8).digest()
            for replica in self.all
        ]
        return sorted(range(len(weights)), key=weights.__getitem__, reverse=True)
