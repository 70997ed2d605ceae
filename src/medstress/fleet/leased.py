"""What every worker has: a channel to the driver, and a lease that it renews while it works."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from secrets import token_hex
from typing import Any

from medstress.core.errors import MedstressError
from medstress.fleet.keeper_process import checked_answer
from medstress.fleet.leases import StaleLeaseError, State
from medstress.fleet.ledgers import checked, digest_of, store_at
from medstress.fleet.messages import pack
from medstress.fleet.order import Order

_QUIET_SECONDS = 5.0
"""A worker that has nothing to ask says so after this time, so that nobody thinks it dead."""
NOTHING = b""
"""What is exchanged where there is nothing to ask, or to answer."""


class Channel:
    """Messages of the worker's threads, taken one by one by whoever carries them."""

    def __init__(self) -> None:
        self._asked: queue.Queue[bytes] = queue.Queue()
        self._answers: queue.Queue[bytes] = queue.Queue()
        self._turn = threading.Lock()

    def ask(self, ledger: bytes = b"", **message: Any) -> tuple[dict[str, Any], bytes]:
        """Send a message and wait for its answer.

        Raises:
            StaleLeaseError: it speaks for a lease that has ended.
        """
        with self._turn:
            self._asked.put(pack(message, ledger))
            return checked_answer(self._answers.get())

    def tell(self, **message: Any) -> None:
        """Send a last message, which nobody answers."""
        self._asked.put(pack(message))

    def exchange(self, answer: bytes) -> bytes:
        """Take the answer to the last message, and return the next one.

        Returns:
            The message; empty if there is none for a while.
        """
        if answer:
            self._answers.put(answer)
        try:
            return self._asked.get(timeout=_QUIET_SECONDS)
        except queue.Empty:
            return NOTHING


class Leased:
    """What one worker works on under one lease: reported while it lasts, shipped as bytes."""

    suffix = ""
    """Of the names that it is stored under."""

    def __init__(self, order: Order, channel: Channel, owner: str, answer: dict[str, Any]) -> None:
        self._order, self._channel = order, channel
        self._lease = {**answer["lease"], "owner": owner}
        self._shipped: dict[str, Any] | None = answer["shipped"]
        self._store = None if order.store is None else store_at(order.store)
        self._is_over = threading.Event()
        self._is_stale = self._is_asked_to_stop = False
        self._renewed = time.monotonic()

    def _report(self) -> dict[str, Any]:
        """Return what is told with every message: `used` and `reported`."""
        raise NotImplementedError

    @contextmanager
    def _renewing(self) -> Iterator[None]:
        """Renew the lease in a thread of its own, also while a model takes long to answer."""
        renewing = threading.Thread(target=self._renew, daemon=True, name="medstress-renewing")
        renewing.start()
        try:
            yield
        finally:
            self._is_over.set()
            renewing.join()

    def _renew(self) -> None:
        while not self._is_over.wait(self._order.renew_seconds):
            began = time.monotonic()
            try:
                answer, _ = self._channel.ask(ask="renew", **self._lease, **self._report())
            except (MedstressError, RuntimeError):
                self._is_stale = True  # whatever is wrong, the lease is not renewed
                return
            self._renewed, self._is_asked_to_stop = began, bool(answer.get("stop"))

    def _check_lease(self) -> None:
        """Stop where the lease has ended, or the driver says so.

        Raises:
            StaleLeaseError: nobody has renewed it.
            KeyboardInterrupt: the driver stops.
        """
        if self._is_stale or time.monotonic() - self._renewed > self._order.lease_seconds:
            raise StaleLeaseError(f"shard {self._lease['shard']}: its lease has ended")
        if self._is_asked_to_stop:
            raise KeyboardInterrupt

    def _fetched(self) -> bytes | None:
        """Return what a former owner has shipped."""
        if self._shipped is None:
            return None
        name = self._shipped["name"]
        if self._store is not None:
            data = self._store.get(name)
        else:
            _, data = self._channel.ask(ask="fetch", name=name)
        return checked(data, self._shipped["digest"], name)

    def _send(self, data: bytes, state: State, calls: int) -> None:
        """Ship, and wait until it is the shard's newest."""
        name, kept = None, data
        if self._store is not None:
            name = f"{self._lease['shard']}/{self._lease['epoch']}-{token_hex(6)}{self.suffix}"
            self._store.put(name, data)
            kept = b""
        answer, _ = self._channel.ask(
            kept,
            ask="ship",
            **self._lease,
            **self._report(),
            state=state.value,
            name=name,
            suffix=self.suffix,
            digest=digest_of(data),
            calls=calls,
        )
        if self._store is not None and answer["before"] is not None:
            self._store.remove(answer["before"])
