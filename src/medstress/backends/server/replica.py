"""One server of a model: its client, and what it has done so far."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import orjson

from medstress.backends.server.bounded_body import LARGEST_ANSWER, AnswerEncoded, AnswerTooLarge
from medstress.backends.server.errors import Server, ServerTrouble, Then, from_client
from medstress.backends.server.http_client import open_client
from medstress.backends.server.known_keys import cleaned
from medstress.backends.server.listing import Listing, read_listing, read_one
from medstress.backends.server.prefix_cache import PrefixCache

T = TypeVar("T")

_FRAMING = 1 << 20
"""Bytes besides the body, for headers and chunk marks."""
_PROBE_SECONDS = 5.0
"""Time limit of a health check, and of a look at the metrics."""
_LEAVING = (502, 503, 504)
"""Statuses of a server that is shut down, or of a proxy that has lost it."""


class Replica:
    """One of the servers that answer as one model, from any number of threads.

    Args:
        server: the server and its key.
        max_in_flight: the most connections.
        connect: time limit to connect, in seconds.
        answer: time limit of a whole request, in seconds.
        headers: names of headers that its requests may carry besides those that HTTP needs.

    Attributes:
        models: names of the models that it lists, for messages.
        n_requests: requests to the model, retries included.
        n_failed: those among them that got no usable answer.
        n_set_aside: how often it was set aside.
        cache: what it reports about its prefix cache.
    """

    def __init__(
        self,
        server: Server,
        *,
        max_in_flight: int,
        connect: float,
        answer: float,
        headers: Collection[str] = (),
    ) -> None:
        self.server = server
        self.models: list[str] = []
        self.n_requests = 0
        self.n_failed = 0
        self.n_set_aside = 0
        self._before: dict[str, int] = {}
        self.cache = PrefixCache(self._metrics)
        self._answer = answer
        self._connect = connect
        self._client, self._allowance = open_client(server, max_in_flight, connect, headers)

    def greet(self, again: Callable[..., bytes]) -> Listing:
        """List the server's models, to check the connection without a request to a model.

        Args:
            again: calls a function with its arguments, with retries.

        Raises:
            ServerTrouble: the server cannot be reached, is not trusted, or refuses the key.
        """
        try:
            listing = read_listing(lambda path: again(self.content, "GET", path))
        except ServerTrouble as trouble:
            if trouble.unreachable or (trouble.then is Then.STOP and trouble.status != 404):
                raise
            return Listing()  # not every server can list its models
        self.models = list(listing.names)
        if listing.is_vllm:
            self.cache.start()
        return listing

    def described(self) -> str | None:
        """Ask the server for its name of the requested model, without a request to the model."""
        return read_one(lambda path: self.content("GET", path), self.server.model)

    def is_well(self) -> bool:
        """Check whether the server answers at all, without a request to the model."""
        try:
            self.content("GET", "/models", seconds=min(self._answer, _PROBE_SECONDS))
        except ServerTrouble as trouble:
            # One that cannot list its models, or is busy, is there.
            return trouble.status is not None and trouble.status < 500
        return True

    def send(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> dict[str, Any]:
        """Make one request; return the JSON object of the reply, without the keys."""
        content = self.content("POST", path, body, headers)
        try:
            reply = orjson.loads(content)
            if isinstance(reply, dict):
                return cleaned(reply)
        except (orjson.JSONDecodeError, orjson.JSONEncodeError):
            pass  # not JSON, or nested too deep
        raise ServerTrouble(
            f"{self.server.where} sent something that is not a JSON object",
            Then.AGAIN,
            is_reply=True,
        )

    def content(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        seconds: float | None = None,
    ) -> bytes:
        """Make one HTTP request; return the body of the reply."""
        import httpx2
        import openai

        where, limit = self.server.where, self._answer if seconds is None else seconds
        options = {"headers": dict(headers)} if headers else {}
        try:
            with self._allowance.of(limit, LARGEST_ANSWER + _FRAMING):
                if method == "GET":
                    response = self._client.get(path, cast_to=httpx2.Response)
                else:
                    response = self._client.post(
                        path, body=body, options=options, cast_to=httpx2.Response
                    )
                content: bytes = response.content
                return content
        except (openai.OpenAIError, httpx2.HTTPError, httpx2.StreamError) as error:
            raise from_client(error, self.server, self.models, limit) from None
        except AnswerTooLarge:
            sentence = f"{where} sent an answer of more than {LARGEST_ANSWER >> 20} MiB"
            raise ServerTrouble(sentence, Then.AGAIN, is_reply=True) from None
        except AnswerEncoded:
            sentence = f"{where} sent its answer in an encoding that was not requested"
            raise ServerTrouble(sentence, Then.AGAIN, is_reply=True) from None

    def describe(self) -> dict[str, Any]:
        """Return what it has done in this run, for the manifest."""
        counts = {name: n + self._before.get(name, 0) for name, n in self._counts.items()}
        return {"url": self.server.url, **counts}

    def go_on(self, known: Mapping[str, Any]) -> None:
        """Count on from what `describe` returned in an earlier process; from 0 if it is empty."""
        self._before = {name: known.get(name, 0) - n for name, n in self._counts.items()}

    @property
    def _counts(self) -> dict[str, int]:
        return {
            "requests": self.n_requests,
            "failed": self.n_failed,
            "set_aside": self.n_set_aside,
        }

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def _metrics(self) -> str:
        """Return what the server shows at `/metrics`, beside its `/v1`."""
        parts = urlsplit(self.server.url)
        path = f"{parts.path.removesuffix('/v1')}/metrics"
        url = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
        return self.content("GET", url, seconds=_PROBE_SECONDS).decode("utf-8", "replace")


def is_leaving(trouble: ServerTrouble) -> bool:
    """Return whether an error says that the server is gone or about to go.

    A refusal for too many requests says nothing about the server; neither does an error about one
    prompt.
    """
    return trouble.then is Then.AGAIN and (
        trouble.unreachable or trouble.dropped or trouble.status in _LEAVING
    )
