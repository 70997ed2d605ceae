"""Sends requests to the servers of one model: within their limits, and with retries."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from medstress.backends.options import ANSWER_SECONDS
from medstress.backends.server.affinity import Labels, Sent
from medstress.backends.server.errors import Server, ServerTrouble, Then
from medstress.backends.server.listing import Listing
from medstress.backends.server.rate_limits import RateLimits
from medstress.backends.server.replica import Replica
from medstress.backends.server.replicas import Replicas
from medstress.backends.server.replies import cached_of
from medstress.core.errors import UsageError

if TYPE_CHECKING:
    from tenacity import RetryCallState, Retrying

T = TypeVar("T")

_GREETINGS = 3
"""Attempts to list a server's models."""
_MAX_UNREACHABLE = 3
"""Calls in a row without any reply, after all retries, that mean the server is down."""


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
    aside: float = 5.0
    """How long one of several servers is set aside at first, in seconds; at most `longest`."""

    def again(
        self, attempts: int, helps: Callable[[ServerTrouble], bool], sleep: Callable[[float], Any]
    ) -> Retrying:
        """Return the attempts, with waits of full jitter on top of what the server asks.

        There is no wait before another server is asked.
        """
        from tenacity import (
            Retrying,
            retry_if_exception,
            stop_after_attempt,
            wait_random_exponential,
        )

        jitter = wait_random_exponential(multiplier=self.first, max=self.longest)
        return Retrying(
            stop=stop_after_attempt(attempts),
            wait=lambda state: 0.0 if _elsewhere(state) else jitter(state) + _requested_wait(state),
            retry=retry_if_exception(
                lambda error: isinstance(error, ServerTrouble) and helps(error)
            ),
            sleep=sleep,
            reraise=True,
        )


def _may_be_starting(trouble: ServerTrouble) -> bool:
    """Return whether the server may be about to start, so that a retry can help."""
    return trouble.unreachable and not trouble.late and trouble.then is not Then.STOP


def _elsewhere(state: RetryCallState) -> bool:
    assert state.outcome is not None
    return getattr(state.outcome.exception(), "elsewhere", False)


def _requested_wait(state: RetryCallState) -> float:
    """Return the seconds that the server asks to wait."""
    assert state.outcome is not None
    return getattr(state.outcome.exception(), "retry_after", None) or 0.0


class Connection:
    """Asks the servers of one model, from any number of threads.

    Args:
        server: the server and its key.
        limits: rate limits, shared by all threads.
        max_in_flight: the most connections.
        patience: time limits and retries.
        seconds: time limit of one whole request if `patience` is not given.
        sleep: waits between attempts.
        others: further servers of the same model.
        labels: what requests carry of their item and purchase.

    Attributes:
        n_repeated: retries among the requests.
        n_late: requests that timed out before the whole answer came.
        n_cached: tokens of prompts that the replies say were cached.
    """

    def __init__(
        self,
        server: Server,
        limits: RateLimits,
        *,
        max_in_flight: int,
        patience: Patience | None = None,
        seconds: float = ANSWER_SECONDS,
        sleep: Callable[[float], object] = time.sleep,
        others: Sequence[Server] = (),
        labels: Labels | None = None,
    ) -> None:
        self.server = replace(server, n_others=len(others))
        self.n_repeated = 0
        self.n_late = 0
        self.n_cached = 0
        self.labels = labels or Labels()
        self._limits = limits
        self._patience = patience or Patience(answer=seconds)
        self._sleep = sleep
        self._lock = Lock()
        self._n_unreachable = 0
        self.replicas = Replicas(
            [
                Replica(
                    each,
                    max_in_flight=max_in_flight,
                    connect=self._patience.connect,
                    answer=self._patience.answer,
                    headers=self.labels.headers,
                )
                for each in (server, *others)
            ],
            pause=self._patience.aside,
            longest=self._patience.longest,
        )

    @property
    def n_requests(self) -> int:
        """HTTP requests to the model, retries included."""
        return sum(replica.n_requests for replica in self.replicas.all)

    @property
    def counters(self) -> dict[str, int]:
        """HTTP requests so far, the retries among them and, if any, those that timed out; tokens
        that caches saved, as far as servers tell."""
        counts = [replica.cache.counts() for replica in self.replicas.all]
        told = [each for each in counts if each is not None]
        late, cached = self.n_late, self.n_cached
        return {
            "requests": self.n_requests,
            "requests_repeated": self.n_repeated,
            **({"requests_late": late} if late else {}),
            **({"tokens_cached": cached} if cached else {}),
            **({"prefix_cache_queries": sum(queries for queries, _ in told)} if told else {}),
            **({"prefix_cache_hits": sum(hits for _, hits in told)} if told else {}),
        }

    def count_cached(self, reply: dict[str, Any]) -> None:
        """Count the cached tokens that a reply tells of."""
        n = cached_of(reply)
        with self._lock:
            self.n_cached += n

    def describe(self) -> dict[str, Any]:
        """Return the address and, of several servers, what each has done in this run; the name of
        the run in its idempotency keys, if they are sent."""
        several = len(self.replicas.all) > 1
        return {
            "url": self.server.url,
            **({"replicas": [each.describe() for each in self.replicas.all]} if several else {}),
            **({"purchases": self.labels.run} if self.labels.has_keys else {}),
        }

    def expect(self, known: Mapping[str, Any]) -> None:
        """Go on from what `describe` returned in an earlier process; empty: a run begins."""
        self.labels.run = known.get("purchases") or self.labels.run
        rows = {row["url"]: row for row in known.get("replicas") or ()}
        for replica in self.replicas.all:
            replica.go_on(rows.get(replica.server.url, {}))

    def greet(self) -> Listing:
        """List the models of the first server, as `greet_all`."""
        return next(iter(self.greet_all().values()))

    def greet_all(self) -> dict[Replica, Listing]:
        """List every server's models, to check the connections without a request to a model.

        Returns:
            The lists of the servers that could be reached; the others are set aside.

        Raises:
            UsageError: none can be reached, or one is not trusted or refuses the key.
        """
        again = self._patience.again(_GREETINGS, _may_be_starting, self._sleep)
        found: dict[Replica, Listing] = {}
        absent: list[tuple[Replica, ServerTrouble]] = []
        for replica in self.replicas.all:
            try:
                found[replica] = replica.greet(again)
            except ServerTrouble as trouble:
                if trouble.then is Then.STOP:
                    raise UsageError(str(trouble)) from None
                absent.append((replica, trouble))
        if not found:
            raise UsageError(str(absent[0][1])) from None
        for replica, _ in absent:
            self.replicas.set_aside(replica)
        return found

    def ask(self, path: str, sent: Sent, tokens: int, read: Callable[[Any], tuple[T, int]]) -> T:
        """Make one request, with retries if they may help.

        Args:
            path: the path below the base address.
            sent: the JSON to send and the item it belongs to.
            tokens: an upper bound of the tokens it costs.
            read: returns the answer in a reply and the tokens it cost; may raise `ServerTrouble`.

        Raises:
            ServerTrouble: there is no answer after all attempts.
        """
        attempts = self._patience.attempts
        again = self._patience.again(attempts, lambda error: error.then is Then.AGAIN, self._sleep)
        n_replies = 0
        try:
            for attempt in again:
                with attempt:
                    repeated = attempt.retry_state.attempt_number > 1
                    replica = self.replicas.choose(sent.item)
                    headers = self.labels.of(sent, n_replies)
                    try:
                        return self._once(
                            replica, path, sent, headers, tokens, read, repeated=repeated
                        )
                    except ServerTrouble as trouble:
                        n_replies += trouble.is_reply
                        raise
        except ServerTrouble as trouble:
            if trouble.then is Then.AGAIN:
                raise self._given_up(trouble, attempts) from None
            raise
        raise AssertionError("an attempt returns or raises")

    def close(self) -> None:
        """Close all connections."""
        for replica in self.replicas.all:
            replica.close()

    def _once(
        self,
        replica: Replica,
        path: str,
        sent: Sent,
        headers: Mapping[str, str],
        tokens: int,
        read: Callable[[Any], tuple[T, int]],
        *,
        repeated: bool,
    ) -> T:
        reserved = self._limits.start(tokens)
        used = reserved
        with self._lock:
            replica.n_requests += 1
            self.n_repeated += repeated
        try:
            answer, used = self._read(replica, replica.send(path, sent.body, headers), read)
        except ServerTrouble as trouble:
            used = 0 if trouble.rejected else reserved
            with self._lock:
                self.n_late += trouble.late
            trouble.elsewhere = self.replicas.failed(replica, trouble)
            if trouble.retry_after and not trouble.elsewhere:
                # The limit belongs to the key, not to the request, so all threads wait. A server
                # that goes away while another is well asks for itself alone.
                self._limits.pause(trouble.retry_after)
            raise
        finally:
            self._limits.end(reserved, used)
        self._n_unreachable = 0
        self.replicas.answered(replica)
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

    def _read(
        self, replica: Replica, reply: dict[str, Any], read: Callable[[Any], tuple[T, int]]
    ) -> tuple[T, int]:
        """Read a reply; a value of an unexpected type becomes a `ServerTrouble`."""
        try:
            return read(reply)
        except ServerTrouble as trouble:
            trouble.is_reply = True
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            raise ServerTrouble(
                f"{replica.server.where} sent an answer of an unexpected form",
                Then.AGAIN,
                is_reply=True,
            ) from None
