"""`medstress view`: the page of a run, with all of its cases, from a server on 127.0.0.1.

The server answers only who knows its secret; the review room has the same one.
"""

from __future__ import annotations

import secrets
import socket
import time
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from medstress.analyses.run import Run
from medstress.analyses.shown import Json, as_json, attack_names
from medstress.core.errors import StoreError, UsageError
from medstress.core.hashing import digest
from medstress.report.cases import FILTERS, Cases, json_of, shared, text_of
from medstress.report.html import as_script
from medstress.report.page import Browser, page
from medstress.store.database import FILE
from medstress.store.reviews import FILE as REVIEWS

HOST = "127.0.0.1"
_FIRST_PORT, _PORTS = 49_152, 16_384
"""The ports that no service is registered for."""
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
            Middleware(BaseHTTPMiddleware, dispatch=_own_pages_only),
        ],
        exception_handlers={404: _not_here},
    )


async def _own_pages_only(request: Request, answer: RequestResponseEndpoint) -> Response:
    """Refuse what a page of another origin sent, and add `HEADERS`."""
    reply: Response = PlainTextResponse("not from this page\n", 403)
    if request.headers.get("origin") in (None, f"http://{request.headers.get('host')}"):
        reply = await answer(request)
    reply.headers.update(HEADERS)
    return reply


def _not_here(_: Request, __: Exception) -> Response:
    return PlainTextResponse("no such page: use the address that the command printed\n", 404)


def serve(
    routes: Sequence[Route],
    *,
    port: int = 0,
    usual: str = "",
    show: bool = True,
    announce: Callable[[str], None] = print,
) -> None:
    """Serve until Ctrl+C.

    Args:
        routes: see `protected`.
        port: 0 takes a free one.
        usual: a name from which a port is drawn that is taken if it is free and none is asked for,
            so that a page finds again what it left in the browser.
        show: whether to open the user's browser.
        announce: told the address, secret included.

    Raises:
        UsageError: the port is taken.
    """
    import uvicorn

    secret = secrets.token_urlsafe(24)
    if usual and not port:
        drawn = _FIRST_PORT + int.from_bytes(digest([usual])[:4], "big") % _PORTS
        with closing(socket.socket()) as trial, suppress(OSError):
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((HOST, drawn))
            port = drawn
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


SECONDS = 4
"""Least seconds between a page's questions whether the run has changed."""
AT_LEAST, SHARE = 3.0, 0.2
"""Seconds between two readings of a run that goes on, and the most of the time that they take."""
MOST_LINES = 200
"""Most lines of one answer."""


class Viewer:
    """Shows a run folder, finished or not, and writes nothing into it."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Read the run.

        Raises:
            StoreError: there is no run in the folder, or it is damaged.
        """
        self._folder, self._clock = folder, clock
        self._read()

    def _read(self) -> None:
        started, version = self._clock(), version_of(self._folder)
        self._cases = Cases(Run.open(self._folder))
        self._lines = [self._cases.line(trial) for trial in self._cases.trials]
        self._version, self._page = version, ""
        self._texts: list[str] = []
        """What is searched of every case, once somebody searches."""
        self._at = self._clock()
        self._seconds = self._at - started

    def page(self) -> str:
        """Return the page, whose cases ask this server."""
        self._refresh()
        if not self._page:
            started, run = self._clock(), self._cases.run
            # A page that takes long to make is not asked for again at once.
            data = {
                **shared([run], self._lines),
                "served": True,
                "version": self._version,
                "seconds": max(SECONDS, round(self._seconds / SHARE)),
            }
            n = len(self._lines)
            self._page = page([run], Browser(as_script(data), n, n, is_served=True))
            self._seconds += self._clock() - started
        return self._page

    def cases(self, wish: Mapping[str, str]) -> Json:
        """Return lines of the list.

        Args:
            wish: offset, limit, search, sort, and the value of any of `FILTERS`.
        """
        search = wish.get("search", "").strip().lower()
        filters = {name: wish[name] for name in FILTERS if wish.get(name)}
        if search and not self._texts:
            names = attack_names(cell.attack for cell in self._cases.run.cells)
            for line, trial in zip(self._lines, self._cases.trials, strict=True):
                parts = (*map(str, as_json(line).values()), names[line.attack], text_of(trial))
                self._texts.append("\n".join(parts).lower())
        fitting = [
            line
            for i, line in enumerate(self._lines)
            if (not search or search in self._texts[i])
            and all(getattr(line, name) == value for name, value in filters.items())
        ]
        if wish.get("sort") == "item":
            fitting.sort(key=lambda line: line.item)
        if wish.get("sort") == "score":
            fitting.sort(key=lambda line: (line.score is None, line.score or 0.0))
        start, n = _whole(wish.get("offset"), 0), _whole(wish.get("limit"), 50)
        shown = fitting[start : start + min(n, MOST_LINES)]
        return {"total": len(fitting), "cases": [json_of(line) for line in shown]}

    def case(self, case_id: str) -> Json:
        """Return one case; None if there is none with this short id."""
        trial = self._cases.by_id.get(case_id)
        if trial is None:
            return None
        (case,) = self._cases.cases([trial], most_tried=None)
        return json_of(case)

    def state(self) -> Json:
        """Return whether the run has changed, and how far it is."""
        self._refresh()
        n_planned = int(self._cases.run.manifest["n_planned"])
        return {"version": self._version, "n_trials": len(self._lines), "n_planned": n_planned}

    def _refresh(self) -> None:
        """Read the run again if it has changed and enough time has passed."""
        now = self._clock()
        if now - self._at < max(AT_LEAST, self._seconds / SHARE):
            return
        if version_of(self._folder) == self._version:
            return
        try:
            self._read()
        except StoreError:
            # A writer was faster, or the folder is being replaced: what is known still shows.
            self._at = now


def routes(viewer: Viewer) -> list[Route]:
    """Return the paths of a viewer, for `medstress.report.view`.

    The handlers are coroutines, so that one thread reads the database.
    """

    async def whole(_: Request) -> Response:
        try:
            return HTMLResponse(viewer.page())
        except StoreError as error:
            return PlainTextResponse(f"{error}\n", 503)

    async def cases(request: Request) -> Response:
        return JSONResponse(viewer.cases(request.query_params))

    async def case(request: Request) -> Response:
        try:
            one = viewer.case(request.path_params["id"])
        except StoreError as error:
            return JSONResponse({"error": str(error)}, 503)
        return JSONResponse(one, 404 if one is None else 200)

    async def state(_: Request) -> Response:
        return JSONResponse(viewer.state())

    return [
        Route("/", whole),
        Route("/cases", cases),
        Route("/case/{id}", case),
        Route("/state", state),
    ]


def version_of(folder: Path) -> str:
    """Return what changes with a folder: size and time of the database, its log and reviews."""
    parts = []
    for name in (FILE, f"{FILE}-wal", REVIEWS, f"{REVIEWS}-wal"):
        with suppress(OSError):
            at = (folder / name).stat()
            parts.append(f"{name} {at.st_size} {at.st_mtime_ns}")
    return ", ".join(parts)


def _whole(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 9 else default
