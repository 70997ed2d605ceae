"""One server: requests within its limits, tried again where that helps, bounded in size."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import urlsplit

import orjson

from medstress.backends.rate_limits import RateLimits
from medstress.backends.server_errors import (
    AnswerTooLarge,
    Server,
    ServerTrouble,
    Then,
    from_client,
)
from medstress.errors import UsageError, missing_extra

T = TypeVar("T")

LARGEST_ANSWER = 8 << 20
"""Bytes. Log probabilities of a few long prompts are below a tenth of it."""
_MOST_UNREACHABLE = 3
"""So many calls in a row for which nothing came back, each tried again and again: it is down."""
_SENT = {"host", "accept", "content-type", "content-length", "connection", "user-agent"}
"""Headers that leave the machine; the client's own tell the system and versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long and how often an answer is waited for."""

    attempts: int = 8
    """Requests made for one call, at most."""
    first: float = 0.5
    """Seconds before the second attempt, at most; doubled each time."""
    longest: float = 60.0
    """Seconds between two attempts, at most."""
    connect: float = 10.0
    """Seconds until a connection stands."""
    answer: float = 120.0
    """Seconds without a byte."""

    def seconds(self, attempt: int, asked: float | None) -> float:
        """The wait after a failed attempt, from 1: full jitter, on top of what the server asks."""
        most = min(self.first * 2.0 ** (attempt - 1), self.longest)
        return random.uniform(0.0, most) + (asked or 0.0)


class Connection:
    """Asks one server, from any number of threads.

    Args:
        server: who is asked, and the key.
        limits: shared by all threads.
        max_in_flight: connections kept open.
        patience: time-outs and repetitions.
        sleep: waits between attempts.

    Attributes:
        n_requests: HTTP requests that asked the model something, repeated ones included.
        n_repeated: those that came after a failed one for the same call.
    """

    def __init__(
        self,
        server: Server,
        limits: RateLimits,
        *,
        max_in_flight: int,
        patience: Patience | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.server = server
        self.n_requests = 0
        self.n_repeated = 0
        self._limits = limits
        self._patience = patience or Patience()
        self._sleep = sleep
        self._lock = Lock()
        self._n_unreachable = 0
        self._models: list[str] = []
        self._client = _client(server, max_in_flight, self._patience)

    def greet(self) -> None:
        """List the server's models, which asks none of them anything.

        Raises:
            UsageError: the server cannot be reached, is not trusted, or refuses the key.
        """
        for attempt in range(1, 4):
            try:
                found = self._send("GET", "/models", None)
            except ServerTrouble as trouble:
                if trouble.then is Then.STOP and trouble.status != 404:
                    raise UsageError(str(trouble)) from None
                if not trouble.unreachable:
                    return  # not every server has the list
                if attempt == 3:
                    raise UsageError(str(trouble)) from None
                self._sleep(self._patience.seconds(attempt, None))
            else:
                rows = found.get("data")
                self._models = [
                    str(row["id"])
                    for row in (rows if isinstance(rows, list) else ())
                    if isinstance(row, dict) and "id" in row
                ]
                return

    def ask(
        self, path: str, body: Mapping[str, Any], tokens: int, read: Callable[[Any], tuple[T, int]]
    ) -> T:
        """Make one request, again where that may help.

        Args:
            path: below the base address.
            body: the JSON to send.
            tokens: an upper bound of what it costs.
            read: reads the answer and returns the tokens it cost; raises `ServerTrouble`.

        Raises:
            ServerTrouble: no answer, after all attempts.
        """
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._once(path, body, tokens, read, repeated=attempt > 1)
            except ServerTrouble as trouble:
                if trouble.retry_after:
                    # The limit is the key's, not the request's: nobody asks before.
                    self._limits.pause(trouble.retry_after)
                if trouble.then is not Then.AGAIN:
                    raise
                if attempt == self._patience.attempts:
                    raise self._given_up(trouble, attempt) from None
                wait = self._patience.seconds(attempt, trouble.retry_after)
            self._sleep(wait)

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def _once(
        self,
        path: str,
        body: Mapping[str, Any],
        tokens: int,
        read: Callable[[Any], tuple[T, int]],
        *,
        repeated: bool,
    ) -> T:
        reserved = self._limits.start(tokens)
        used = reserved
        with self._lock:
            self.n_requests += 1
            self.n_repeated += repeated
        try:
            answer, used = read(self._send("POST", path, body))
        except ServerTrouble as trouble:
            used = 0 if trouble.rejected else reserved
            raise
        finally:
            self._limits.end(reserved, used)
        self._n_unreachable = 0
        return answer

    def _given_up(self, trouble: ServerTrouble, attempts: int) -> ServerTrouble:
        sentence = f"{trouble} (asked {attempts} times)"
        if not trouble.unreachable:
            return ServerTrouble(sentence, Then.ITEM_FAILS, said=trouble.said)
        with self._lock:
            self._n_unreachable += 1
            down = self._n_unreachable >= _MOST_UNREACHABLE
        if down:
            sentence += "; run the same command again to resume, with --retry-failed"
        return ServerTrouble(sentence, Then.STOP if down else Then.ITEM_FAILS)

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        """One HTTP request; its JSON object."""
        import httpx2
        import openai

        try:
            if method == "GET":
                response = self._client.get(path, cast_to=httpx2.Response)
            else:
                response = self._client.post(path, body=body, cast_to=httpx2.Response)
        except openai.OpenAIError as error:
            raise from_client(error, self.server, self._models) from None
        except AnswerTooLarge:
            raise ServerTrouble(
                f"{self.server.where} sent an answer of more than {LARGEST_ANSWER >> 20} MiB",
                Then.AGAIN,
            ) from None
        try:
            found = orjson.loads(response.content)
        except orjson.JSONDecodeError:
            found = None
        if not isinstance(found, dict):
            raise ServerTrouble(
                f"{self.server.where} sent something that is no JSON object", Then.AGAIN
            )
        return found


def _client(server: Server, max_in_flight: int, patience: Patience) -> Any:
    """The official client, without its own repetitions, environment and headers."""
    try:
        import httpx2
        import openai
    except ImportError as error:
        raise missing_extra("the back end 'openai'", "openai") from error

    class Bounded(httpx2.SyncByteStream):
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        def __iter__(self) -> Iterator[bytes]:
            n = 0
            for chunk in self._stream:
                n += len(chunk)
                if n > LARGEST_ANSWER:
                    raise AnswerTooLarge
                yield chunk

        def close(self) -> None:
            self._stream.close()

    def send_only_what_is_needed(request: Any) -> None:
        for name in [name for name in request.headers if name.lower() not in _SENT]:
            del request.headers[name]
        request.headers["User-Agent"] = "medstress"
        if server.key is not None:
            request.headers["Authorization"] = f"Bearer {server.key}"

    def bound_the_answer(response: Any) -> None:
        response.stream = Bounded(response.stream)

    host = urlsplit(server.url).hostname or ""
    loopback = host in ("localhost", "::1") or host.startswith("127.")
    http_client = httpx2.Client(
        timeout=httpx2.Timeout(patience.answer, connect=patience.connect, pool=None),
        limits=httpx2.Limits(
            max_connections=max_in_flight, max_keepalive_connections=max_in_flight
        ),
        # Another address than the one named in the file is never asked.
        follow_redirects=False,
        event_hooks={"request": [send_only_what_is_needed], "response": [bound_the_answer]},
        # A proxy cannot know this machine's own address.
        mounts={f"all://{'[::1]' if host == '::1' else host}": None} if loopback else None,
    )
    # The key is put in by the hook, so that the client, which reads the environment, has none.
    return openai.OpenAI(
        api_key="none", base_url=server.url, max_retries=0, http_client=http_client
    )
