"""One server with OpenAI's interface: its address and key, its limits, and one door for requests.

All requests run in one event loop, so that a deadline ends a request whatever the server does with
it. What can go wrong is one sentence and what to do next.
"""

from __future__ import annotations

import asyncio
import email.utils
import logging
import math
import os
import re
import ssl
import threading
import time
import zlib
from collections.abc import AsyncIterable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar
from urllib.parse import urljoin, urlsplit

import orjson

from medstress.backends.options import ANSWER_SECONDS
from medstress.core.calls import Answer
from medstress.core.errors import UnreachableError, UsageError, did_you_mean
from medstress.core.extras import importing

log = logging.getLogger(__name__)
R = TypeVar("R")
Json: TypeAlias = dict[str, Any]

LARGEST_ANSWER = 8 << 20
"""Decoded bytes. Log probabilities of a few long prompts take less than a tenth of this."""
LONGEST_WAIT = 300.0
"""The longest wait that a server may ask for, in seconds."""
SHORTEST_KEY, KEY_SHOWN = 8, "[key]"
"""Characters from which a key is removed, as a shorter one may be a word; and what replaces it."""
_WORDS = 300
"""Characters of the server's words in a message."""
MOST_NAMES = 1_000
"""Names of a server's models that are compared with the requested one."""
_MORE = ("has_more", "next", "next_page", "nextPageToken", "next_page_token")
"""What marks a list of models that goes on; its further pages are not read."""
_UNREACHABLE = 3
"""Calls in a row without any reply that end a run."""
_WARN_AGAIN = 60.0
"""Seconds after which a server that still fails is spoken of again."""
_PIECE = 1 << 18
"""Bytes that are decoded at once."""
_SENT = {"host", "accept", "content-type", "content-length", "connection"}
"""Headers of the client that may be sent; its others would reveal the system and versions."""
_TOO_LONG = re.compile(
    r"(?i)context.{0,12}(length|size|window)|m context|model length|too long|many tokens(?! per)"
    r"|inputs?.{0,8}tokens"
)
_FILTERED = re.compile(
    r"(?i)content.?(filter|management|policy|moderation)|safety system"
    r"|\b(input|prompt|content|message).{0,40}\b(flagged|violat\w+ .{0,20}(polic|guideline|terms))"
)
_OF_KEY = re.compile(r"(?i)permission|access to|(your|the|this) (api )?key|account|organi[sz]ation")
"""Words of a status 403 that is about the key, whatever else it says."""
_HOST = re.compile(r"[A-Za-z0-9.:_-]{1,200}")
_RESUME = "run the same command again later to resume"
_keys: set[str] = set()


# -- address and key -------------------------------------------------------------------------
def address_of(url: str | None) -> str:
    """Return the checked base address; messages never show one that may contain a password."""
    text = url or ""
    is_address = text.isprintable() and " " not in text and "\\" not in text
    with suppress(ValueError):
        parts = urlsplit(text)
        _ = parts.port, (parts.hostname or "").encode("idna")
        is_address &= parts.scheme in ("http", "https") and bool(parts.hostname)
        if is_address and not (parts.username or parts.password or parts.query or parts.fragment):
            return text.rstrip("/")
    raise UsageError(
        'base_url: expected an address alone, such as "http://127.0.0.1:8000/v1", without a name, '
        "a password or a query; a key comes from the environment variable that api_key_env names"
    )


def key_of(name: str | None) -> str | None:
    """Return the key from the environment; no message contains it."""
    if name is None:
        return None
    key = os.environ.get(name, "").strip()
    if not re.fullmatch(r"[!#-\[\]-~]+", key):  # no quotes, back slashes and spaces
        sentence = f"api_key_env = {name!r}: that environment variable "
        sentence += "holds characters that no key has" if key else "is not set"
        raise UsageError(f"{sentence}; set it to the key")
    remember_key(key)
    return key


def remember_key(key: str) -> None:
    """Remove a key from everything that servers say from now on, unless it is too short."""
    if len(key) >= SHORTEST_KEY:
        _keys.add(key)


def without_keys(text: str) -> str:
    """Return a text without the keys.

    >>> remember_key("sk-doctest-0123")
    >>> without_keys("wrong key sk-doctest-0123, sir")
    'wrong key [key], sir'
    """
    # The longest key first, because one key may begin with another.
    for key in sorted(_keys, key=len, reverse=True):
        text = text.replace(key, KEY_SHOWN)
    return text


@dataclass(frozen=True, slots=True, repr=False)
class Server:
    """A server with its key, which it never shows."""

    url: str
    """The base address of requests."""
    model: str
    """The requested model."""
    key: str | None = None
    """The key sent with each request."""
    key_env: str | None = None
    """The environment variable the key came from."""

    @property
    def where(self) -> str:
        """The server's name in messages."""
        return f"the server at {self.url}"

    def redacted(self, text: str) -> str:
        """Return a text on one line, without the key and without parts of it."""
        key = self.key or ""
        line = "".join(x if x.isprintable() else " " for x in without_keys(text))
        words = (line.replace(key, KEY_SHOWN) if key else line).split()
        # Servers often show the ends of a wrong key.
        ends = (key[:6].casefold(), key[-4:].casefold()) if len(key) >= SHORTEST_KEY else ()
        line = " ".join(
            KEY_SHOWN if any(x in one.casefold() for x in ends) else one for one in words
        )
        return line[:_WORDS] + ("..." if len(line) > _WORDS else "")


# -- what can go wrong -----------------------------------------------------------------------
Then: TypeAlias = Literal["again", "item_fails", "unreadable", "stop"]
"""What to do after an error: retry; fail this call, as others may succeed; take it as an answer
that cannot be read, as a content filter withheld it; stop the run."""


@dataclass(eq=False)
class ServerTrouble(Exception):
    """A request that got no usable answer."""

    sentence: str
    then: Then
    """What to do next."""
    said: str = ""
    """The server's words about the request, without the key; they may say what to send instead."""
    wait: float = 0.0
    """Seconds the server asks to wait."""
    status: int = 0
    """Status of the HTTP reply if it was an error; one below 500 used no tokens."""
    unreachable: bool = False
    """No reply came, or not in time."""

    def __str__(self) -> str:
        return self.sentence


def trouble_of_status(
    server: Server, status: int, raw: str, headers: Mapping[str, str], models: Sequence[str] = ()
) -> ServerTrouble:
    """Translate an error that a server reports.

    Args:
        server: the server.
        status: the status; 200 where only the body speaks of an error, and may give its own.
        raw: the body.
        headers: those of the reply.
        models: names of the models that the server lists.
    """
    code, words = _code_and_words(raw)
    words = server.redacted(words)
    shown = f" (it says: {words})" if words else ""
    is_filtered, is_long = (one.search(f"{code} {words}") for one in (_FILTERED, _TOO_LONG))
    if status == 200:
        given = re.search(r"\b[345]\d\d\b", code)
        status = int(given[0]) if given else 400 if is_filtered or is_long else 502
    sentence, wait = f"{server.where} answered {status}", 0.0
    then: Then = "stop"
    if 300 <= status < 400:
        host = "no readable address"
        with suppress(ValueError):  # nothing else in it can be trusted
            place = urlsplit(urljoin(server.url, headers.get("location", ""))).netloc
            to = place.rpartition("@")[2]
            host = server.redacted(to) if _HOST.fullmatch(to) else host
        sentence += f", which points to {host}; medstress follows no redirect: set base_url to the "
        sentence += "final address, with the right http:// or https:// and path"
    elif status == 401 or (status == 403 and (not is_filtered or _OF_KEY.search(words))):
        # Without the server's words, which may show parts of the key.
        problem = "is wrong or missing" if status == 401 else "may not be used for this"
        check = f"check the environment variable {server.key_env}"
        name = 'name the environment variable that holds it: api_key_env = "..."'
        sentence += f": the key {problem}; {check if server.key_env else name}"
    elif status == 404:
        hint = did_you_mean(server.model, models[:MOST_NAMES])
        unknown = "" if server.model in models else f"it knows no model {server.model!r}{hint}, or "
        only = 'it answers only conversations; for these set prompt = "chat"'
        sentence += f": {unknown}{only}{shown}"
    elif status == 402 or "insufficient_quota" in code:
        sentence += f": there is no quota left{shown}; {_RESUME}"
    elif status in (408, 409, 425, 429) or status >= 500:
        sentence, then, wait = sentence + shown, "again", retry_after(headers)
        if wait > LONGEST_WAIT:
            sentence += f" and asks to wait {wait:,.0f} seconds; {_RESUME}"
            then, wait = "stop", 0.0
    elif is_filtered:
        sentence = f"the content filter of {server.where} withheld the answer{shown}"
        then, words = "unreadable", ""
    elif is_long:
        sentence = f"the prompt is too long for the context of {server.model!r}: shorten it, lower "
        sentence += f"max_new_tokens, or give the server a larger context{shown}"
        then, words = "item_fails", ""
    else:
        sentence, then = sentence + shown, "item_fails"
    return ServerTrouble(sentence, then, words, wait, status)


def retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds that a server asks to wait, from a number or a date; 0 without.

    >>> retry_after({"retry-after": "2"}), retry_after({"retry-after-ms": "250"})
    (2.0, 0.25)
    >>> retry_after({})
    0.0
    """
    until = lambda date: email.utils.parsedate_to_datetime(date).timestamp() - time.time()  # noqa: E731
    readers = ("-ms", lambda text: float(text) / 1e3), ("", float), ("", until)
    for ending, read in readers:
        with suppress(ArithmeticError, LookupError, TypeError, ValueError):
            seconds: float = read(headers[f"retry-after{ending}"])
            if not math.isnan(seconds):
                return max(seconds, 0.0)
    return 0.0


def _code_and_words(raw: str) -> tuple[str, str]:
    """Return code and type, and the message, in an error's body, whatever its shape."""
    body: Any = raw
    with suppress(orjson.JSONDecodeError):
        body = orjson.loads(raw)
    body = body[0] if isinstance(body, list) and body else body
    inner = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(inner, dict):
        return "", inner if isinstance(inner, str) else raw
    codes = inner.get("code"), inner.get("type")
    words = inner.get("message") or inner.get("detail")
    if isinstance(words, list) and all(isinstance(one, dict) for one in words):
        # FastAPI's: the fields, and what is wrong. What was sent is repeated, but not shown.
        words = "; ".join(f"{one.get('loc')}: {one.get('msg')}" for one in words)
    if not isinstance(words, str):
        words = raw if words else ""
    if isinstance(param := inner.get("param"), str) and param not in words:
        words += f" ({param})"
    return " ".join(str(code) for code in codes if isinstance(code, str | int)), words


def _trouble_of_client(error: BaseException, server: Server, models: list[str]) -> ServerTrouble:
    """Translate an exception of the client."""
    import httpx2
    import openai

    if isinstance(error, openai.APIStatusError):
        reply = error.response
        return trouble_of_status(server, error.status_code, reply.text, reply.headers, models)
    where, causes = server.where, [error]
    while cause := causes[-1].__cause__ or causes[-1].__context__:
        causes.append(cause)
    last = server.redacted(str(causes[-1])) or type(causes[-1]).__name__
    is_slow = any(isinstance(cause, httpx2.TimeoutException) for cause in causes)
    if not is_slow and any(isinstance(cause, ssl.SSLError) for cause in causes):
        sentence = f"{where} cannot be asked over TLS ({last}): write http:// in base_url, or name "
        sentence += "the certificate that you trust in the environment variable SSL_CERT_FILE"
        return ServerTrouble(sentence, "stop")
    if is_slow or any(isinstance(cause, httpx2.ConnectError) for cause in causes):
        how = " in time" if is_slow else f" ({last})"
        sentence = f"{where} cannot be reached{how}: is it running, and is base_url right?"
        return ServerTrouble(sentence, "again", unreachable=True)
    return ServerTrouble(f"{where} dropped the connection ({last})", "again")


# -- limits ----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Time limits and retries of a request."""

    attempts: int = 8
    """The most requests for one call."""
    first: float = 0.5
    """The longest wait before the second attempt, in seconds; doubled for each later one."""
    longest: float = 60.0
    """The longest wait between two attempts, in seconds."""
    answer: float = ANSWER_SECONDS
    """Time limit of a whole request, from its first step to the last byte, in seconds."""


async def _or_later(changed: asyncio.Event, seconds: float) -> None:
    """Wait for something to change, for at most so many seconds."""
    with suppress(TimeoutError):
        await asyncio.wait_for(changed.wait(), seconds)


@dataclass(slots=True)
class RateLimits:
    """Delays requests so that no minute exceeds the limits.

    A bucket that refills steadily would let twice the limit through in its first minute, so this
    counts the requests of the last minute. A request counts until one minute after it *ended*: the
    server saw it at some time between its start and end, so the server's count never exceeds ours.
    Tokens are reserved as an upper bound and corrected when the server reports their number.
    """

    requests: int | None = None
    """The most requests per minute; None for no limit."""
    tokens: int | None = None
    """The most tokens per minute; None for no limit."""
    minute: float = 60.0
    """The period of the limits, in seconds."""
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[asyncio.Event, float], Coroutine[Any, Any, None]] = _or_later
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _made: list[list[float]] = field(default_factory=list)
    """When each request ended, and its tokens."""
    _paused_until: float = 0.0

    async def start(self, tokens: int) -> list[float]:
        """Wait until a request may be made, and count it.

        Args:
            tokens: an upper bound; reduced to the limit of a minute if it exceeds it.

        Returns:
            The request, for `end`.
        """
        request = [math.inf, float(min(tokens, self.tokens or tokens))]
        async with self._turn:  # first come, first served
            while seconds := self._seconds_to_wait(request[1]):
                self._changed.clear()
                await self.wait(self._changed, seconds)
            self._made.append(request)
        return request

    def end(self, request: list[float], used: float) -> None:
        """Record that a request has ended, successfully or not; `used` tokens count from now."""
        request[:] = self.clock(), used
        self._changed.set()

    def pause(self, seconds: float) -> None:
        """Hold back all requests for so many seconds, because the server asked for it."""
        self._paused_until = max(self._paused_until, self.clock() + seconds)

    def _seconds_to_wait(self, tokens: float) -> float:
        now = self.clock()
        self._made = [one for one in self._made if one[0] + self.minute >= now]
        if now < self._paused_until:
            return self._paused_until - now
        counted = sum(used for _, used in self._made)
        # Usage may exceed a reservation that was reduced to the limit of a minute.
        is_long = self.tokens is not None and counted > 0 and counted + tokens > self.tokens
        if not is_long and (self.requests is None or len(self._made) < self.requests):
            return 0.0
        # Strictly after the minute, so that a window with both its ends stays within the limit.
        return min([now, *(ended for ended, _ in self._made)]) + self.minute - now + 1e-3


# -- requests --------------------------------------------------------------------------------
class Connection:
    """Asks one server, from any number of threads.

    The first request goes alone: it may show that there is no quota, or that another model
    answers. Once an answer stops the run, no further request is made.

    Args:
        server: the server and its key.
        limits: rate limits of all requests.
        max_in_flight: the most requests at a time.
        patience: time limits and retries.

    Attributes:
        models: names of the models that it lists, for messages.
        counters: HTTP requests so far to the model, the retries among them and, if any, those that
            timed out before the whole answer came.

    Raises:
        UsageError: the extra is not installed.
    """

    def __init__(
        self, server: Server, limits: RateLimits, max_in_flight: int, patience: Patience
    ) -> None:
        self.server, self._limits, self._patience = server, limits, patience
        self.models: list[str] = []
        self.counters = {"requests": 0, "requests_repeated": 0}
        self._slots, self._first_is_over = asyncio.Semaphore(max_in_flight), asyncio.Event()
        self._has_begun, self._stopped, self._n_unreachable = False, "", 0
        self._warned_at = -math.inf
        self._client = _open_client(server, max_in_flight, min(10.0, patience.answer / 2))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run work in the loop of the connection, and wait for it; called from other threads."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()  # which ends what nobody waits for any more

    def close(self) -> None:
        """End the requests under way and close all connections."""

        async def end() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._client.close()

        if not self._loop.is_closed():
            self.run(end())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def ask(self, once: Callable[[bool], Coroutine[Any, Any, R]]) -> R:
        """Make one request, with retries if they may help; the first of all alone.

        Args:
            once: makes it (see `once`), given whether it is a repetition.

        Raises:
            ServerTrouble: there is no answer after all attempts, or an earlier one stops the run.
        """
        if self._has_begun:
            await self._first_is_over.wait()
        self._has_begun = True
        try:
            async for attempt in self._attempts():
                with attempt:
                    return await once(attempt.retry_state.attempt_number > 1)
            raise AssertionError("an attempt returns or raises")
        except ServerTrouble as trouble:
            if trouble.then == "again":
                trouble.sentence += f" (asked {self._patience.attempts} times)"
                self._n_unreachable += trouble.unreachable
                if trouble.unreachable and self._n_unreachable >= _UNREACHABLE:
                    trouble.sentence += f"; {_RESUME} (`medstress run`: with --retry-failed)"
                    trouble.then = "stop"
            if trouble.then == "stop":
                self._stopped = self._stopped or trouble.sentence
            raise
        finally:
            self._first_is_over.set()

    def _attempts(self) -> Any:
        """Return the attempts, with waits of full jitter on top of what the server asks."""
        import tenacity as t

        patience = self._patience
        jitter = t.wait_random_exponential(patience.first, patience.longest)

        def say(state: t.RetryCallState) -> None:
            """Say what fails once it failed twice, or while the server makes us wait for long."""
            is_long = state.upcoming_sleep > patience.first or state.attempt_number > 1
            if is_long and time.monotonic() - self._warned_at > _WARN_AGAIN and state.outcome:
                self._warned_at, error = time.monotonic(), state.outcome.exception()
                log.warning("%s; each request is tried up to %d times", error, patience.attempts)

        return t.AsyncRetrying(
            before_sleep=say,
            stop=t.stop_after_attempt(patience.attempts),
            wait=lambda state: jitter(state) + getattr(state.outcome.exception(), "wait", 0.0),  # type: ignore[union-attr]
            retry=t.retry_if_exception(lambda e: getattr(e, "then", None) == "again"),
            reraise=True,
        )

    async def once(
        self, path: str, body: Json, tokens: int, read: Callable[[Json], Answer], is_repeated: bool
    ) -> Answer:
        """Make one HTTP request to the model, when there is room for it.

        Args:
            path: below the base address.
            body: the JSON to send.
            tokens: an upper bound of the tokens that it costs.
            read: returns the answer in a reply; may raise `ServerTrouble`.
            is_repeated: whether it was made before.
        """
        async with self._slots:
            counted = await self._limits.start(tokens)
            used = counted[1]
            try:
                if self._stopped:
                    raise ServerTrouble(self._stopped, "stop")
                self.counters["requests"] += 1
                self.counters["requests_repeated"] += is_repeated
                answer = read(await self._json(path, body))
                used, self._n_unreachable = float(answer.tokens_in + answer.tokens_out), 0
                return answer
            except ServerTrouble as trouble:
                used = 0.0 if 400 <= trouble.status < 500 else used
                # The limit belongs to the key, not to the request, so all wait.
                self._limits.pause(trouble.wait)
                raise
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
                sentence = f"{self.server.where} sent an answer of an unexpected form"
                raise ServerTrouble(sentence, "again") from None
            finally:
                self._limits.end(counted, used)

    async def _json(self, path: str, body: Json | None = None) -> Json:
        """Make one HTTP request within one deadline; return the reply without the keys.

        A list is returned as `data`, as some servers send the rows of a list of models. An error
        in a reply with status 200, as some routers report what went wrong behind them, is one with
        its own status.
        """
        import httpx2
        import openai

        where, seconds = self.server.where, self._patience.answer
        ask, sent = (self._client.post, {"body": body}) if body else (self._client.get, {})
        try:
            async with asyncio.timeout(seconds):
                response = await ask(path, cast_to=httpx2.Response, **sent)
        except TimeoutError:
            sentence = f"{where} did not send its whole answer within {seconds:g} seconds"
            sentence += " (timeout_seconds)"
            if body is not None:
                self.counters["requests_late"] = self.counters.get("requests_late", 0) + 1
            raise ServerTrouble(sentence, "again", unreachable=True) from None
        except (openai.OpenAIError, httpx2.HTTPError, httpx2.StreamError) as error:
            raise _trouble_of_client(error, self.server, self.models) from None
        reply = None
        with suppress(TypeError, ValueError, RecursionError):  # not JSON, or nested too deep
            # Written again, so that no escape hides a key.
            content = orjson.dumps(orjson.loads(response.content)).decode()
            reply = orjson.loads(without_keys(content))
        reply = {"data": reply} if isinstance(reply, list) else reply
        if not isinstance(reply, dict):
            raise ServerTrouble(f"{where} sent something that is not a JSON object", "again")
        choices = reply.get("choices")
        for part in (reply, *(choices if isinstance(choices, list) else ())):
            if isinstance(part, dict) and part.get("error"):
                raw = orjson.dumps(part).decode()
                raise trouble_of_status(self.server, 200, raw, response.headers, self.models)
        return reply

    def greet(self) -> list[str]:
        """List the server's models in `models`, without a request to a model.

        Returns:
            Their names if these are all, so that another name is unknown; else none.

        Raises:
            UsageError: the server cannot be reached, is not trusted, or refuses the key.
        """
        try:
            page = self.run(self._json("/models"))
        except ServerTrouble as trouble:
            if trouble.unreachable:
                raise UnreachableError(str(trouble)) from None
            if trouble.then == "stop" and trouble.status != 404:
                raise UsageError(str(trouble)) from None
            return []
        rows = page.get("data") or page.get("models")
        rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
        names = (row.get("id") or row.get("name") for row in rows)
        self.models = [name for name in names if isinstance(name, str)]
        return [] if any(page.get(mark) for mark in _MORE) else self.models


def _open_client(server: Server, max_in_flight: int, connect: float) -> Any:
    """Open the official client without its retries, environment and extra headers.

    Args:
        server: the server.
        max_in_flight: the most connections.
        connect: time limit to connect, in seconds.
    """
    with importing("the back end 'openai'", "openai"):
        import httpx2
        import tenacity  # noqa: F401 - needed with the first request
        from openai import AsyncOpenAI

    async def send_only_what_is_needed(request: Any) -> None:
        for name in [name for name in request.headers if name.lower() not in _SENT]:
            del request.headers[name]
        request.headers |= {"User-Agent": "medstress", "Accept-Encoding": "identity"}
        if server.key is not None:
            request.headers["Authorization"] = f"Bearer {server.key}"

    async def bound_the_answer(response: Any) -> None:
        # The body is decoded and bounded here, so the client must see no encoding.
        coding = response.headers.pop("Content-Encoding", "")
        try:
            content = await bounded(response.stream, coding)
        except ValueError as error:
            raise ServerTrouble(f"{server.where} sent {error}", "again") from None
        await response.stream.aclose()
        response.stream = httpx2.ByteStream(content)
        # JSON is UTF-8; a server may name a charset that does not even fit its own reply.
        response.encoding = "utf-8"

    host = urlsplit(server.url).hostname or ""
    is_local = host in ("localhost", "::1") or host.startswith("127.")
    http_client = httpx2.AsyncClient(
        timeout=httpx2.Timeout(None, connect=connect),
        limits=httpx2.Limits(max_connections=max_in_flight),
        # Only the address in the experiment file is ever contacted.
        follow_redirects=False,
        event_hooks={"request": [send_only_what_is_needed], "response": [bound_the_answer]},
        # A proxy cannot know this machine's own address.
        mounts={f"all://{'[::1]' if host == '::1' else host}": None} if is_local else None,
    )
    # The hook adds the key. The client gets none, because it would read the environment's.
    return AsyncOpenAI(api_key="none", base_url=server.url, max_retries=0, http_client=http_client)


async def bounded(stream: AsyncIterable[bytes], coding: str) -> bytes:
    """Return a decoded body, up to a bound.

    Requests ask for no encoding, but some servers and proxies encode anyway.

    Raises:
        ValueError: it is too large, in another encoding than gzip and deflate, or damaged.
    """
    coding = coding.strip().lower()
    is_packed = coding in ("gzip", "x-gzip", "deflate")
    decoder = zlib.decompressobj(wbits=32 + zlib.MAX_WBITS)  # gzip or deflate, as it begins
    content = bytearray()
    try:
        if not is_packed and coding not in ("", "identity"):
            raise zlib.error
        async for chunk in stream:
            rest = chunk
            while rest and len(content) <= LARGEST_ANSWER:
                content += decoder.decompress(rest, _PIECE) if is_packed else rest
                rest = decoder.unconsumed_tail
            if len(content) > LARGEST_ANSWER:
                raise ValueError(f"an answer of more than {LARGEST_ANSWER >> 20} MiB")
        return bytes(content + decoder.flush())
    except zlib.error:
        raise ValueError("its answer in an encoding that was not requested") from None
