"""Opens the official OpenAI client without its retries, environment and extra headers.

Replies are bounded, because servers are not trusted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from medstress.backends.server.bounded_body import bounded
from medstress.backends.server.errors import Server
from medstress.files.extras import importing

if TYPE_CHECKING:
    from medstress.backends.server.timed_network import Allowance

_SENT = {"host", "accept", "content-type", "content-length", "connection", "user-agent"}
"""Headers that may be sent; the client's others would reveal the system and versions."""


def open_client(server: Server, max_in_flight: int, connect: float) -> tuple[Any, Allowance]:
    """Open a client for one server.

    Args:
        server: the server to connect to.
        max_in_flight: the most connections.
        connect: seconds to establish a connection.

    Returns:
        The client, and the allowance in which each request sets its time limit.

    Raises:
        UsageError: the extra is not installed.
    """
    with importing("the back end 'openai'", "openai"):
        import httpx2
        from httpx2 import Client
        from openai import OpenAI
        from tenacity import Retrying  # noqa: F401 - needed with the first request

        from medstress.backends.server.timed_network import Allowance, TimedNetwork

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
        # The body is decoded and bounded here, so the client must see no encoding.
        coding = response.headers.pop("Content-Encoding", "")
        response.stream = Bounded(response.stream, coding)
        # JSON is UTF-8; a server may name a charset that does not even fit its own reply.
        response.encoding = "utf-8"

    host = urlsplit(server.url).hostname or ""
    loopback = host in ("localhost", "::1") or host.startswith("127.")
    http_client = Client(
        # `TimedNetwork` limits each step to the time left for the request.
        timeout=httpx2.Timeout(None, connect=connect),
        limits=httpx2.Limits(
            max_connections=max_in_flight, max_keepalive_connections=max_in_flight
        ),
        # Only the address in the experiment file is ever contacted.
        follow_redirects=False,
        event_hooks={"request": [send_only_what_is_needed], "response": [bound_the_answer]},
        # A proxy cannot know this machine's own address.
        mounts={f"all://{'[::1]' if host == '::1' else host}": None} if loopback else None,
    )
    allowance = Allowance()
    for transport in (http_client._transport, *http_client._mounts.values()):
        if transport is not None:
            # No public way to replace the network keeps the environment's proxies.
            pool = transport._pool  # type: ignore[attr-defined]
            pool._network_backend = TimedNetwork(pool._network_backend, allowance)
    # The hook adds the key. The client gets none, because it would read the environment's.
    client = OpenAI(api_key="none", base_url=server.url, max_retries=0, http_client=http_client)
    return client, allowance
