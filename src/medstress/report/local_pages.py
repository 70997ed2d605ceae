"""A web server on 127.0.0.1 that answers only who knows its secret."""

from __future__ import annotations

import secrets
import socket
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import closing

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from medstress.core.errors import UsageError

HOST = "127.0.0.1"
LAST_PORT = 65535
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Sent with every answer; a page brings its own Content-Security-Policy."""


def protected(routes: Sequence[Route], secret: str) -> Starlette:
    """Return an application whose addresses all begin with a secret.

    A request for another host than this machine is refused (a web page elsewhere cannot reach it
    under a name of its own), as is one that another page sends, and one without the secret.

    Args:
        routes: paths below the secret, such as `/` and `/case/{id}`.
        secret: first part of every path.
    """
    return Starlette(
        routes=[Mount(f"/{secret}", routes=list(routes))],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"]),
            Middleware(_OwnPagesOnly),
        ],
        exception_handlers={404: _not_here},
    )


class _OwnPagesOnly:
    """Refuses requests that a page of another origin sent, and adds `HEADERS`."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        request = Request(scope)
        origin = request.headers.get("origin")
        if origin is not None and origin != f"http://{request.headers.get('host')}":
            refused = PlainTextResponse("not from this page\n", status_code=403)
            return await refused(scope, receive, send)

        async def with_headers(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start":
                added = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *added]  # type: ignore[misc]
            await send(message)

        return await self.app(scope, receive, with_headers)  # type: ignore[arg-type]


def _not_here(_: Request, __: Exception) -> Response:
    return PlainTextResponse("no such page: use the address that the command printed\n", 404)


def refuse_port(port: int) -> None:
    """Refuse a number that no port has.

    Raises:
        UsageError: it is below 0 or above 65535.
    """
    if not 0 <= port <= LAST_PORT:
        raise UsageError(
            f"--port {port}: expected a port from 1 to {LAST_PORT}, or 0 for a free one"
        )


def serve(
    routes: Sequence[Route],
    *,
    port: int = 0,
    show: bool = True,
    announce: Callable[[str], None] = print,
) -> None:
    """Serve until Ctrl+C.

    Args:
        routes: see `protected`.
        port: 0 takes a free one.
        show: whether to open the user's browser.
        announce: told the address, secret included.

    Raises:
        UsageError: the port is taken, or there is no such port.
    """
    refuse_port(port)
    import uvicorn

    secret = secrets.token_urlsafe(24)
    with closing(socket.socket()) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, port))
        except OSError as error:
            raise UsageError(
                f"port {port}: cannot listen there ({error.strerror}); leave out --port to take a "
                "free one"
            ) from error
        # Who opens the address at once waits, and is not refused.
        listening.listen()
        address = f"http://{HOST}:{listening.getsockname()[1]}/{secret}/"
        announce(f"{address} (Ctrl+C ends it)")
        if show:
            webbrowser.open(address)
        # No access log: it would write the secret.
        config = uvicorn.Config(
            protected(routes, secret), log_level="warning", access_log=False, lifespan="off"
        )
        uvicorn.Server(config).run(sockets=[listening])
