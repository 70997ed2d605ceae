"""Sends requests to one server: within its limits, and with retries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from medstress.backends.options import ANSWER_SECONDS
from medstress.backends.server.bounded_body import LARGEST_ANSWER, AnswerEncoded, AnswerTooLarge
from medstress.backends.server.errors import Server, ServerTrouble, Then, from_client
from medstress.backends.server.http_client import open_client
from medstress.backends.server.known_keys import cleaned
from medstress.backends.server.listing import Listing, read_listing, read_one
from medstress.backends.server.rate_limits import RateLimits
from medstress.core.calls import Generated, Scored
from medstress.core.errors import UnreachableError, UsageError

if TYPE_CHECKING:
    from tenacity import RetryCallState, Retrying

T = TypeVar("T", Generated, Scored)
R = TypeVar("R")

_GREETINGS = 3
"""Attempts to list a server's models."""
_MAX_UNREACHABLE = 3
"""Calls in a row without any reply, after all retries, that mean the server is down."""
_FRAMING = 1 << 20
"""Bytes besides the body, for headers and chunk marks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Time limits and retries of a request."""

    attempts: int = 8
    """The most requests for one call."""
    first: float = 0.5
    """The longest wait before the second attempt, in seconds; doubled for each later one."""
    longest: float = 60.0
    """The longest wait between two attempts, in seconds."""
    connect: float = 10.0
    """Time limit to connect, in seconds."""
    answer: float = ANSWER_SECONDS
    """Time limit of a whole request, from its first step to the last byte, in seconds."""

    def again(self, attempts: int, helps: Callable[[ServerTrouble], bool]) -> Retrying:
        """Return the attempts, with waits of full jitter on top of what the server asks."""
        from tenacity import (
            Retrying,
            retry_if_exception,
            stop_after_attempt,
            wait_random_exponential,
        )

        jitter = wait_random_exponential(multiplier=self.first, max=self.longest)
        return Retrying(
            stop=stop_after_attempt(attempts),
            wait=lambda state: jitter(state) + _requested_wait(state),
            retry=retry_if_exception(
                lambda error: isinstance(error, ServerTrouble) and helps(error)
            ),
            reraise=True,
        )


def _may_be_starting(trouble: ServerTrouble) -> bool:
    """Return whether the server may be about to start, so that a retry can help."""
    return trouble.unreachable and not trouble.late and trouble.then is not Then.STOP


def _requested_wait(state: RetryCallState) -> float:
    """Return the seconds that the server asks to wait."""
    assert state.outcome is not None
    return getattr(state.outcome.exception(), "retry_after", None) or 0.0


class Connection:
    """Asks one server, from any number of threads.

    Args:
        server: the server and its key.
        limits: rate limits, shared by all threads.
        max_in_flight: the most connections.
        patience: time limits and retries.

    Attributes:
        models: names of the models that it lists, for messages.
        n_requests: requests to the model, retries included.
        n_repeated: retries among the requests.
        n_late: requests that timed out before the whole answer came.
    """

    def __init__(
        self,
        server: Server,
        limits: RateLimits,
        *,
        max_in_flight: int,
        patience: Patience | None = None,
    ) -> None:
        self.server = server
        self.models: list[str] = []
        self.n_requests = 0
        self.n_repeated = 0
        self.n_late = 0
        self._limits = limits
        self._patience = patience or Patience()
        self._lock = Lock()
        self._n_unreachable = 0
        self._client, self._allowance = open_client(server, max_in_flight, self._patience.connect)

    @property
    def counters(self) -> dict[str, int]:
        """HTTP requests so far, the retries among them and, if any, those that timed out."""
        late = self.n_late
        return {
            "requests": self.n_requests,
            "requests_repeated": self.n_repeated,
            **({"requests_late": late} if late else {}),
        }

    def greet(self) -> Listing:
        """List the server's models, to check the connection without a request to a model.

        Returns:
            The list; empty if the server cannot list its models.

        Raises:
            UsageError: the server cannot be reached, is not trusted, or refuses the key.
        """
        again = self._patience.again(_GREETINGS, _may_be_starting)
        try:
            listing = read_listing(lambda path: again(self._content, "GET", path))
        except ServerTrouble as trouble:
            if trouble.unreachable:
                raise UnreachableError(str(trouble)) from None
            if trouble.then is Then.STOP and trouble.status != 404:
                raise UsageError(str(trouble)) from None
            return Listing()
        self.models = list(listing.names)
        return listing

    def described(self) -> str | None:
        """Ask the server for its name of the requested model, without a request to the model."""
        return read_one(lambda path: self._content("GET", path), self.server.model)

    def ask(
        self,
        path: str,
        body: Mapping[str, Any],
        tokens: int,
        read: Callable[[dict[str, Any]], T],
    ) -> T:
        """Make one request, with retries if they may help.

        Args:
            path: the path below the base address.
            body: the JSON to send.
            tokens: an upper bound of the tokens it costs.
            read: returns the answer in a reply; may raise `ServerTrouble`.

        Raises:
            ServerTrouble: there is no answer after all attempts.
        """
        attempts = self._patience.attempts
        again = self._patience.again(attempts, lambda error: error.then is Then.AGAIN)
        try:
            for attempt in again:
                with attempt:
                    repeated = attempt.retry_state.attempt_number > 1
                    return self._once(path, body, tokens, read, repeated=repeated)
        except ServerTrouble as trouble:
            if trouble.then is Then.AGAIN:
                raise self._given_up(trouble, attempts) from None
            raise
        raise AssertionError("an attempt returns or raises")

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def _once(
        self,
        path: str,
        body: Mapping[str, Any],
        tokens: int,
        read: Callable[[dict[str, Any]], T],
        *,
        repeated: bool,
    ) -> T:
        reserved = self._limits.start(tokens)
        used = reserved
        with self._lock:
            self.n_requests += 1
            self.n_repeated += repeated
        try:
            answer = self._read(self._send(path, body), read)
            used = answer.tokens_in + answer.tokens_out
        except ServerTrouble as trouble:
            used = 0 if trouble.rejected else reserved
            with self._lock:
                self.n_late += trouble.late
            if trouble.retry_after:
                # The limit belongs to the key, not to the request, so all threads wait.
                self._limits.pause(trouble.retry_after)
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
            down = self._n_unreachable >= _MAX_UNREACHABLE
        if down:
            sentence += "; run the same command again to resume, with --retry-failed"
        return ServerTrouble(sentence, Then.STOP if down else Then.ITEM_FAILS)

    def _read(self, reply: dict[str, Any], read: Callable[[dict[str, Any]], T]) -> T:
        """Read a reply; a value of an unexpected type becomes a `ServerTrouble`."""
        try:
            return read(reply)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            raise ServerTrouble(
                f"{self.server.where} sent an answer of an unexpected form", Then.AGAIN
            ) from None

    def _send(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Make one request; return the JSON object of the reply, without the keys."""
        content = self._content("POST", path, body)
        try:
            reply = orjson.loads(content)
            if isinstance(reply, dict):
                return cleaned(reply)
        except (orjson.JSONDecodeError, orjson.JSONEncodeError):
            pass  # not JSON, or nested too deep
        raise ServerTrouble(
            f"{self.server.where} sent something that is not a JSON object", Then.AGAIN
        )

    def _content(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        """Make one HTTP request; return the body of the reply."""
        import httpx2
        import openai

        where, limit = self.server.where, self._patience.answer
        try:
            with self._allowance.of(limit, LARGEST_ANSWER + _FRAMING):
                if method == "GET":
                    response = self._client.get(path, cast_to=httpx2.Response)
                else:
                    response = self._client.post(path, body=body, cast_to=httpx2.Response)
                content: bytes = response.content
                return content
        except (openai.OpenAIError, httpx2.HTTPError, httpx2.StreamError) as error:
            raise from_client(error, self.server, self.models, limit) from None
        except AnswerTooLarge:
            sentence = f"{where} sent an answer of more than {LARGEST_ANSWER >> 20} MiB"
            raise ServerTrouble(sentence, Then.AGAIN) from None
        except AnswerEncoded:
            sentence = f"{where} sent its answer in an encoding that was not requested"
            raise ServerTrouble(sentence, Then.AGAIN) from None


class FirstRequest:
    """Lets one request through, and the others once it is over and does not stop the run.

    It may show that the server answers as another model.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._is_over = False
        self._stopped: ServerTrouble | None = None

    def then(self, ask: Callable[[], R]) -> R:
        """Make a request when its turn comes.

        Raises:
            ServerTrouble: the request's own, or that of the first request if it stops the run.
        """
        if self._is_over:
            return ask()
        with self._lock:
            if self._stopped is not None:
                raise ServerTrouble(str(self._stopped), Then.STOP)
            if not self._is_over:
                try:
                    return ask()
                except ServerTrouble as trouble:
                    if trouble.then is Then.STOP:
                        self._stopped = trouble
                    raise
                finally:
                    self._is_over = self._stopped is None
        return ask()
