"""A network in which a request has so many seconds and bytes in all, however it spends them.

The client's own time-outs hold for one read or write: a server that sends a byte a second keeps
every one of them, for ever.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import httpcore2

from medstress.backends.bounded_body import AnswerTooLarge

T = TypeVar("T")

_CHUNK = 1 << 16
"""Bytes written at once: the time is looked at in between."""


class Allowance(threading.local):
    """What the request of this thread may still use."""

    until: float | None = None
    """On the monotonic clock; None: there is no request."""
    n_bytes: int = 0
    """Bytes that may still come, headers and all."""

    @contextmanager
    def of(self, seconds: float, n_bytes: int) -> Iterator[None]:
        """Give the request that is made meanwhile so much in all."""
        self.until, self.n_bytes = time.monotonic() + seconds, n_bytes
        try:
            yield
        finally:
            self.until = None

    def seconds(self, asked: float | None, late: type[Exception]) -> float | None:
        """The seconds that one step may take, of which the client asked for so many.

        Raises:
            Exception: of the type `late`, where nothing is left.
        """
        if self.until is None:
            return asked
        left = self.until - time.monotonic()
        if left <= 0:
            raise late("the time of the request is up")
        return left if asked is None else min(asked, left)

    def count(self, n: int) -> None:
        """So many bytes came.

        Raises:
            AnswerTooLarge: more than may come.
        """
        self.n_bytes -= n
        if self.until is not None and self.n_bytes < 0:
            raise AnswerTooLarge


class TimedNetwork(httpcore2.NetworkBackend):
    """Connections whose every step looks at the allowance of the request.

    Args:
        network: makes the connections.
        allowance: shared with whoever makes requests.
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
        """Connect; looking the name up and trying its addresses count too."""
        most = self._allowance.seconds(None, httpcore2.ConnectTimeout)
        seconds = self._allowance.seconds(timeout, httpcore2.ConnectTimeout)

        def connect() -> httpcore2.NetworkStream:
            return self._network.connect_tcp(host, port, seconds, local_address, socket_options)

        return _TimedStream(_within(most, connect), self._allowance)

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.NetworkStream:
        """Connect to a file of this machine."""
        seconds = self._allowance.seconds(timeout, httpcore2.ConnectTimeout)
        stream = self._network.connect_unix_socket(path, seconds, socket_options)
        return _TimedStream(stream, self._allowance)

    def sleep(self, seconds: float) -> None:
        """Wait, as the client does between two tries to connect."""
        self._network.sleep(seconds)


class _TimedStream(httpcore2.NetworkStream):
    def __init__(self, stream: httpcore2.NetworkStream, allowance: Allowance) -> None:
        self._stream = stream
        self._allowance = allowance

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        seconds = self._allowance.seconds(timeout, httpcore2.ReadTimeout)
        found = self._stream.read(max_bytes, seconds)
        self._allowance.count(len(found))
        return found

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
    """Connect, given up after so many seconds: nothing else ends a look-up of a name.

    Raises:
        httpcore2.ConnectTimeout: it took longer.
    """
    ended: queue.SimpleQueue[httpcore2.NetworkStream | BaseException] = queue.SimpleQueue()
    given_up = threading.Event()

    def work() -> None:
        try:
            stream = connect()
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            ended.put(error)
            return
        ended.put(stream)
        if given_up.is_set():
            stream.close()

    threading.Thread(target=work, name="medstress-connect", daemon=True).start()
    try:
        found = ended.get(timeout=seconds)
    except queue.Empty:
        given_up.set()
        raise httpcore2.ConnectTimeout("the time of the request is up") from None
    if isinstance(found, BaseException):
        raise found
    return found
