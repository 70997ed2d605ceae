"""Limits the total time and bytes of a request.

The client's own time-outs apply to single reads and writes, so a server that sends one byte per
second would never exceed them.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import httpcore2

from medstress.backends.server.bounded_body import AnswerTooLarge

T = TypeVar("T")

_CHUNK = 1 << 16
"""Bytes written at once; the time limit is checked in between."""


class Allowance(threading.local):
    """The remaining time and bytes of this thread's request."""

    until: float | None = None
    """Deadline on the monotonic clock; None outside a request."""
    n_bytes: int = 0
    """Bytes that may still be received, headers included."""

    @contextmanager
    def of(self, seconds: float, n_bytes: int) -> Iterator[None]:
        """Limit the request made inside this context to a total time and size."""
        self.until, self.n_bytes = time.monotonic() + seconds, n_bytes
        try:
            yield
        finally:
            self.until = None

    def seconds(self, timeout: float | None, late: type[Exception]) -> float | None:
        """Return the time limit of one step, at most the client's `timeout`.

        Raises:
            Exception: an error of type `late` if no time is left.
        """
        if self.until is None:
            return timeout
        left = self.until - time.monotonic()
        if left <= 0:
            raise late("the time of the request is up")
        return left if timeout is None else min(timeout, left)

    def count(self, n: int) -> None:
        """Count `n` received bytes.

        Raises:
            AnswerTooLarge: the request has exceeded its bytes.
        """
        self.n_bytes -= n
        if self.until is not None and self.n_bytes < 0:
            raise AnswerTooLarge


class TimedNetwork(httpcore2.NetworkBackend):
    """Makes connections that check the request's allowance at every step.

    Args:
        network: makes the connections.
        allowance: shared with the code that makes requests.
    """

    def __init__(self, network: httpcore2.NetworkBackend, allowance: Allowance) -> None:
        self._network = network
        self._allowance = allowance

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        """Connect; the limit includes looking up the name and trying its addresses."""
        total = self._allowance.seconds(None, httpcore2.ConnectTimeout)
        seconds = self._allowance.seconds(timeout, httpcore2.ConnectTimeout)

        def connect() -> httpcore2.NetworkStream:
            return self._network.connect_tcp(host, port, seconds, local_address, socket_options)

        return _TimedStream(_within(total, connect), self._allowance)

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.NetworkStream:
        """Connect to a Unix socket."""
        seconds = self._allowance.seconds(timeout, httpcore2.ConnectTimeout)
        stream = self._network.connect_unix_socket(path, seconds, socket_options)
        return _TimedStream(stream, self._allowance)

    def sleep(self, seconds: float) -> None:
        """Wait between two attempts to connect."""
        self._network.sleep(seconds)


class _TimedStream(httpcore2.NetworkStream):
    def __init__(self, stream: httpcore2.NetworkStream, allowance: Allowance) -> None:
        self._stream = stream
        self._allowance = allowance

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        seconds = self._allowance.seconds(timeout, httpcore2.ReadTimeout)
        data = self._stream.read(max_bytes, seconds)
        self._allowance.count(len(data))
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _CHUNK):
            seconds = self._allowance.seconds(timeout, httpcore2.WriteTimeout)
            self._stream.write(buffer[start : start + _CHUNK], seconds)

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        seconds = self._allowance.seconds(timeout, httpcore2.ConnectTimeout)
        stream = self._stream.start_tls(ssl_context, server_hostname, seconds)
        return _TimedStream(stream, self._allowance)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _within(
    seconds: float | None, connect: Callable[[], httpcore2.NetworkStream]
) -> httpcore2.NetworkStream:
    """Connect in a thread, and give up after so many seconds.

    A name look-up cannot be stopped in any other way.

    Raises:
        httpcore2.ConnectTimeout: it took longer.
    """
    ended: queue.SimpleQueue[httpcore2.NetworkStream | BaseException] = queue.SimpleQueue()
    given_up = threading.Event()

    def work() -> None:
        try:
            stream = connect()
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            ended.put(error)
            return
        ended.put(stream)
        if given_up.is_set():
            stream.close()

    threading.Thread(target=work, name="medstress-connect", daemon=True).start()
    try:
        result = ended.get(timeout=seconds)
    except queue.Empty:
        given_up.set()
        raise httpcore2.ConnectTimeout("the time of the request is up") from None
    if isinstance(result, BaseException):
        raise result
    return result
