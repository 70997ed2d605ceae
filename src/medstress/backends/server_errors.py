"""What can go wrong with a server, each as one sentence and what to do about it."""

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

from medstress.backends.known_keys import SHORTEST, SHOWN, without_keys
from medstress.errors import did_you_mean

LONGEST_WAIT = 300.0
"""Seconds; a server that asks for more is not waited for."""
_TOO_LONG = re.compile(
    r"context.{0,12}(length|size|window)|maximum context|prompt is too long|too many tokens", re.I
)
_MOST_NAMES = 1_000
"""Of a server's models, so many are compared with the one that was asked for."""
_SAID = 300
_HOST = re.compile(r"[A-Za-z0-9.:_-]{1,200}")
_RESUME = "run the same command again later to resume"


class Then(Enum):
    """What follows from an error."""

    AGAIN = "again"
    """Worth another try."""
    ITEM_FAILS = "item_fails"
    """This call cannot be answered; the others may."""
    STOP = "stop"
    """Going on makes no sense."""


class ServerTrouble(Exception):
    """A request that brought no answer.

    Attributes:
        then: what follows.
        said: the server's own words, without the key.
        retry_after: seconds the server asks to wait.
        status: of the HTTP answer, where it was an error.
        unreachable: nothing at all came back, or not in time.
        late: it did not come back in time.
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
        """Whether the server did not begin to work on it, so that no tokens were used."""
        return self.status is not None and 400 <= self.status < 500


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Server:
    """Who is asked, for sentences; the only holder of the key, which it never shows."""

    url: str
    """The address that requests go to."""
    model: str
    """The model that is asked for."""
    key: str | None = None
    """Sent with each request."""
    key_env: str | None = None
    """The environment variable that the key came from."""

    def __repr__(self) -> str:
        return f"Server({self.url!r}, {self.model!r})"

    @property
    def where(self) -> str:
        """The server as sentences name it."""
        return f"the server at {self.url}"

    def redacted(self, text: str) -> str:
        """One line of text without the key and without half of it."""
        words = without_keys(text).split()
        if self.key:
            words = " ".join(words).replace(self.key, SHOWN).split(" ")
            if len(self.key) >= SHORTEST:
                # Servers like to show the ends of a wrong key.
                ends = self.key[:6].casefold(), self.key[-4:].casefold()
                words = [
                    SHOWN if any(end in word.casefold() for end in ends) else word for word in words
                ]
        text = " ".join(words)
        return text[:_SAID] + ("..." if len(text) > _SAID else "")


def from_client(
    error: Exception, server: Server, known_models: list[str], seconds: float
) -> ServerTrouble:
    """The client's exception as ours; so long a request may take."""
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
    never = any(name in ("ConnectError", "ConnectTimeout", "gaierror") for name in names)
    if never:
        return ServerTrouble(
            f"{server.where} cannot be reached ({last}): is it running, and is base_url right?",
            Then.AGAIN,
            unreachable=True,
        )
    return ServerTrouble(f"{server.where} dropped the connection ({last})", Then.AGAIN)


def _from_status(error: Any, server: Server, known_models: list[str]) -> ServerTrouble:
    status: int = error.status_code
    code, said = _said(error, server)
    shown = f" (it says: {said})" if said else ""
    start = f"{server.where} answered {status}"
    seconds = None
    if 300 <= status < 400:
        sentence, then = f"{start}, {_about_the_way(error, server)}", Then.STOP
    elif status in (401, 403):
        # Not with the server's words, which may show parts of what was sent.
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


def _about_the_way(error: Any, server: Server) -> str:
    """Where a redirect points: to whom, and nothing else that a stranger wrote."""
    said = str(error.response.headers.get("location", ""))
    try:
        to = urlsplit(urljoin(server.url, said))
        host = (to.hostname or "") if to.port is None else f"{to.hostname}:{to.port}"
    except ValueError:
        host = ""
    known = server.redacted(host)
    if not _HOST.fullmatch(host):
        known = "no address that can be read"
    elif to.hostname == urlsplit(server.url).hostname:
        known += " (the same host)"
    return (
        f"which points to {known}; medstress asks nobody but the address you name: put the one "
        "that answers itself into base_url, with the right http:// or https:// and path"
    )


def _about_the_key(status: int, server: Server) -> str:
    told = "is wrong or missing" if status == 401 else "may not be used for this"
    if server.key_env:
        return f"the key {told}; check the environment variable {server.key_env}"
    return f'the key {told}; name the environment variable that holds it: api_key_env = "..."'


def _about_the_model(server: Server, known: list[str]) -> str:
    hint = did_you_mean(server.model, known[:_MOST_NAMES])
    if not hint and known and server.model not in known:
        hint = f" (it has: {', '.join(known[:8])})"
    return (
        f"it knows no model {server.model!r}{hint}, or only answers conversations, for which "
        'prompt = "chat" is the way'
    )


def retry_after(headers: Any) -> float | None:
    """Seconds that a server asks to wait: a number, or a date.

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
        if seconds == seconds:  # no nan
            return max(seconds, 0.0)
    return None


def _said(error: Any, server: Server) -> tuple[str, str]:
    """The code and the words of an error's body, whatever its shape."""
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
