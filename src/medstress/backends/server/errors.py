"""Turns everything that can go wrong with a server into one sentence and what to do next."""

from __future__ import annotations

import email.utils
import re
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any
from urllib.parse import urljoin, urlsplit

import orjson

from medstress.backends.server.known_keys import SHORTEST, SHOWN, without_keys
from medstress.core.errors import did_you_mean

LONGEST_WAIT = 300.0
"""The longest wait that a server may ask for, in seconds."""
_TOO_LONG = re.compile(
    r"context.{0,12}(length|size|window)|maximum context|prompt is too long|too many tokens", re.I
)
_MAX_NAMES = 1_000
"""How many names of a server's models are compared with the requested one."""
_MOST_SHOWN = 300
"""Characters of the server's words in a message."""
_HOST = re.compile(r"[A-Za-z0-9.:_-]{1,200}")
_RESUME = "run the same command again later to resume"


class Then(Enum):
    """What to do after an error."""

    AGAIN = "again"
    """Retry."""
    ITEM_FAILS = "item_fails"
    """Fail this call; others may succeed."""
    STOP = "stop"
    """Stop the run."""


class ServerTrouble(Exception):
    """A request that got no usable answer.

    Attributes:
        then: what to do next.
        said: the server's own words, without the key.
        retry_after: seconds the server asks to wait.
        status: status of the HTTP reply if it was an error.
        unreachable: no reply came, or not in time.
        late: the reply did not come in time.
    """

    def __init__(
        self,
        sentence: str,
        then: Then,
        *,
        said: str = "",
        retry_after: float | None = None,
        status: int | None = None,
        unreachable: bool = False,
        late: bool = False,
    ) -> None:
        super().__init__(sentence)
        self.then = then
        self.said = said
        self.retry_after = retry_after
        self.status = status
        self.unreachable = unreachable or late
        self.late = late

    @property
    def rejected(self) -> bool:
        """Whether the server refused the request without using tokens."""
        return self.status is not None and 400 <= self.status < 500


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
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

    def __repr__(self) -> str:
        return f"Server({self.url!r}, {self.model!r})"

    @property
    def where(self) -> str:
        """The server's name in messages."""
        return f"the server at {self.url}"

    def redacted(self, text: str) -> str:
        """Return a text on one line, without the key and without parts of it."""
        words = without_keys(text).split()
        if self.key:
            words = " ".join(words).replace(self.key, SHOWN).split(" ")
            if len(self.key) >= SHORTEST:
                # Servers often show the ends of a wrong key.
                ends = self.key[:6].casefold(), self.key[-4:].casefold()
                words = [
                    SHOWN if any(end in word.casefold() for end in ends) else word for word in words
                ]
        text = " ".join(words)
        return text[:_MOST_SHOWN] + ("..." if len(text) > _MOST_SHOWN else "")


def from_client(
    error: Exception, server: Server, known_models: list[str], seconds: float
) -> ServerTrouble:
    """Translate the client's exception; `seconds` is the time limit of a request."""
    import httpx2
    import openai

    if isinstance(error, openai.APITimeoutError | httpx2.TimeoutException):
        if any(isinstance(cause, httpx2.ConnectTimeout) for cause in _causes(error)):
            return ServerTrouble(
                f"{server.where} cannot be reached in time: is it running, and is base_url right?",
                Then.AGAIN,
                unreachable=True,
            )
        return ServerTrouble(
            f"{server.where} did not send its whole answer within {seconds:g} seconds "
            "(timeout_seconds)",
            Then.AGAIN,
            late=True,
        )
    if isinstance(error, openai.APIStatusError):
        return _from_status(error, server, known_models)
    return _from_connection(error, server)


def _from_connection(error: Exception, server: Server) -> ServerTrouble:
    causes = list(_causes(error))
    untrusted = next((c for c in causes if isinstance(c, ssl.SSLCertVerificationError)), None)
    texts = [str(cause) for cause in causes]
    if untrusted is not None or any("CERTIFICATE_VERIFY_FAILED" in text for text in texts):
        why = getattr(untrusted, "verify_message", "") or "it cannot be verified"
        return ServerTrouble(
            f"{server.where} shows a certificate that is not trusted ({why}): set the environment "
            "variable SSL_CERT_FILE to a file with the certificate you trust, or mend base_url",
            Then.STOP,
        )
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return ServerTrouble(
            f"{server.where} does not speak TLS: write http:// in base_url if that is meant",
            Then.STOP,
        )
    names = [type(cause).__name__ for cause in causes]
    last = server.redacted(texts[-1]) or names[-1]
    if any(name in ("ConnectError", "ConnectTimeout", "gaierror") for name in names):
        return ServerTrouble(
            f"{server.where} cannot be reached ({last}): is it running, and is base_url right?",
            Then.AGAIN,
            unreachable=True,
        )
    return ServerTrouble(f"{server.where} dropped the connection ({last})", Then.AGAIN)


def _from_status(error: Any, server: Server, known_models: list[str]) -> ServerTrouble:
    status: int = error.status_code
    code, said = _code_and_words(error, server)
    shown = f" (it says: {said})" if said else ""
    start = f"{server.where} answered {status}"
    seconds = None
    if 300 <= status < 400:
        sentence, then = f"{start}, {_about_the_redirect(error, server)}", Then.STOP
    elif status in (401, 403):
        # Without the server's words, which may show parts of the key.
        sentence, then = f"{start}: {_about_the_key(status, server)}", Then.STOP
    elif status == 404:
        sentence, then = f"{start}: {_about_the_model(server, known_models)}{shown}", Then.STOP
    elif status == 402 or code == "insufficient_quota":
        sentence = f"{start}: there is no quota left{shown}; {_RESUME}"
        then = Then.STOP
    elif status in (408, 409, 425, 429) or status >= 500:
        sentence, then = f"{start}{shown}", Then.AGAIN
        seconds = retry_after(error.response.headers)
        if seconds is not None and seconds > LONGEST_WAIT:
            sentence += f" and asks to wait {seconds:,.0f} seconds; {_RESUME}"
            then, seconds = Then.STOP, None
    elif code == "context_length_exceeded" or _TOO_LONG.search(said):
        sentence = f"the prompt is too long for the context of {server.model!r}{shown}"
        then = Then.ITEM_FAILS
    else:
        sentence, then = f"{start}{shown}", Then.ITEM_FAILS
    return ServerTrouble(sentence, then, said=said, retry_after=seconds, status=status)


def _about_the_redirect(error: Any, server: Server) -> str:
    """Say which host a redirect points to; nothing else in it can be trusted."""
    location = str(error.response.headers.get("location", ""))
    try:
        to = urlsplit(urljoin(server.url, location))
        host = (to.hostname or "") if to.port is None else f"{to.hostname}:{to.port}"
    except ValueError:
        host = ""
    shown = server.redacted(host)
    if not _HOST.fullmatch(host):
        shown = "no readable address"
    elif to.hostname == urlsplit(server.url).hostname:
        shown += " (the same host)"
    return (
        f"which points to {shown}; medstress follows no redirect: set base_url to the final "
        "address, with the right http:// or https:// and path"
    )


def _about_the_key(status: int, server: Server) -> str:
    problem = "is wrong or missing" if status == 401 else "may not be used for this"
    if server.key_env:
        return f"the key {problem}; check the environment variable {server.key_env}"
    return f'the key {problem}; name the environment variable that holds it: api_key_env = "..."'


def _about_the_model(server: Server, known: list[str]) -> str:
    hint = did_you_mean(server.model, known[:_MAX_NAMES])
    if not hint and known and server.model not in known:
        hint = f" (it has: {', '.join(known[:8])})"
    return (
        f"it knows no model {server.model!r}{hint}, or answers only conversations; for these set "
        'prompt = "chat"'
    )


def retry_after(headers: Any) -> float | None:
    """Return the seconds that a server asks to wait, from a number or a date.

    >>> retry_after({"retry-after": "2"}), retry_after({"retry-after-ms": "250"})
    (2.0, 0.25)
    >>> retry_after({}) is None
    True
    """
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * scale
        except ValueError:
            try:
                seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
            except (ArithmeticError, LookupError, TypeError, ValueError):
                continue
        if seconds == seconds:  # not NaN
            return max(seconds, 0.0)
    return None


def _code_and_words(error: Any, server: Server) -> tuple[str, str]:
    """Return the code and the message in an error's body, whatever its shape."""
    raw: str = error.response.text
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return "", server.redacted(raw)
    inner = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(inner, dict):
        return "", server.redacted(inner if isinstance(inner, str) else raw)
    code, said = inner.get("code") or inner.get("type"), inner.get("message") or inner.get("detail")
    shown = said if isinstance(said, str) else raw if said else ""
    return code if isinstance(code, str) else "", server.redacted(shown)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
