"""The official client, without its own repetitions, environment, headers and trust in servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from medstress.backends.bounded_body import bounded
from medstress.backends.server_errors import Server
from medstress.errors import missing_extra

if TYPE_CHECKING:
    from medstress.backends.timed_network import Allowance

_SENT = {"host", "accept", "content-type", "content-length", "connection", "user-agent"}
"""Headers that leave the machine; the client's own tell the system and versions."""


def open_client(server: Server, max_in_flight: int, connect: float) -> tuple[Any, Allowance]:
    """Open a client for one server.

    Args:
        server: who is asked.
        max_in_flight: connections kept open.
        connect: seconds until one of them stands.

    Returns:
        The client, and what each of its requests has to be allowed.

    Raises:
        UsageError: the extra is not installed.
    """
    try:
        import httpx2
        import openai

        from medstress.backends.timed_network import Allowance, TimedNetwork
    except ImportError as error:
        raise missing_extra("the back end 'openai'", "openai") from error

    class Bounded(httpx2.SyncByteStream):
        def __init__(self, stream: Any, coding: str) -> None:
            self._stream = stream
            self._coding = coding

        def __iter__(self) -> Iterator[bytes]:
            return bounded(self._stream, self._coding)

        def close(self) -> None:
            self._stream.close()

    def send_only_what_is_needed(request: Any) -> None:
        for name in [name for name in request.headers if name.lower() not in _SENT]:
            del request.headers[name]
        request.headers["User-Agent"] = "medstress"
        request.headers["Accept-Encoding"] = "identity"
        if server.key is not None:
            request.headers["Authorization"] = f"Bearer {server.key}"

    def bound_the_answer(response: Any) -> None:
        # Decoded here, where it is bounded; the client is told that nothing is left to decode.
        coding = response.headers.pop("Content-Encoding", "")
        response.stream = Bounded(response.stream, coding)
        # JSON is UTF-8; another alphabet that a server names may not even fit its own answer.
        response.encoding = "utf-8"

    host = urlsplit(server.url).hostname or ""
    loopback = host in ("localhost", "::1") or host.startswith("127.")
    http_client = httpx2.Client(
        # Each step has the time that is left of the request's.
        timeout=httpx2.Timeout(None, connect=connect),
        limits=httpx2.Limits(
            max_connections=max_in_flight, max_keepalive_connections=max_in_flight
        ),
        # Another address than the one named in the file is never asked.
        follow_redirects=False,
        event_hooks={"request": [send_only_what_is_needed], "response": [bound_the_answer]},
        # A proxy cannot know this machine's own address.
        mounts={f"all://{'[::1]' if host == '::1' else host}": None} if loopback else None,
    )
    allowance = Allowance()
    for transport in (http_client._transport, *http_client._mounts.values()):
        if transport is not None:
            # The client offers no other way that keeps the proxies of the environment.
            pool = transport._pool  # type: ignore[attr-defined]
            pool._network_backend = TimedNetwork(pool._network_backend, allowance)
    # The key is put in by the hook, so that the client, which reads the environment, has none.
    client = openai.OpenAI(
        api_key="none", base_url=server.url, max_retries=0, http_client=http_client
    )
    return client, allowance
