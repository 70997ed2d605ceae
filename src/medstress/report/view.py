"""`medstress view`: the page of a run, with all of its cases, from a server on 127.0.0.1.

The server answers only who knows its secret; the review room has the same one.
"""

from __future__ import annotations

import secrets
import socket
import time
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from medstress.analyses.run import Run
from medstress.analyses.shown import Json
from medstress.core.errors import StoreError, UsageError
from medstress.core.trials import Trial
from medstress.report.cases import FILTERS, Cases, Line, json_of, shared, text_of
from medstress.report.html import as_script
from medstress.report.page import Browser, page
from medstress.store.database import FILE
from medstress.store.reviews import FILE as REVIEWS

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


SECONDS = 4
"""Least seconds between a page's questions whether the run has changed."""
AT_LEAST, SHARE = 3.0, 0.2
"""Seconds between two readings of a run that goes on, and the most of the time that they take."""
MOST_LINES = 200
"""Most lines of one answer."""
Stamp: TypeAlias = tuple[tuple[int, int] | None, ...]


class Read:
    """What was read of a run at one moment."""

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        """Read a folder.

        Raises:
            StoreError: there is no run in it, or it is damaged.
        """
        started = clock()
        self.stamp = stamp(folder)
        self.run = Run.open(folder)
        self.cases = Cases(self.run)
        self.lines: Sequence[Line] = [self.cases.line(trial) for trial in self.cases.trials]
        self.by_id: Mapping[str, Trial] = {
            line.id: trial for line, trial in zip(self.lines, self.cases.trials, strict=True)
        }
        self.at = clock()
        self.seconds = self.at - started
        self.page: str | None = None
        self._texts: list[str] | None = None

    @property
    def version(self) -> str:
        """Changes with the folder."""
        return " ".join(map(str, self.stamp))

    def texts(self) -> list[str]:
        """Return what is searched of every case: its line, and the texts of its item."""
        if self._texts is None:
            words: Mapping[str, Mapping[str, str]] = shared([self.run], ())["words"]
            names = {**words["attack"], **words["model"]}
            self._texts = [
                "\n".join(
                    (
                        *(str(getattr(line, name)) for name in SEARCHED),
                        *(names.get(key, "") for key in (line.attack, line.model)),
                        *((line.change.replaced, line.change.replacement) if line.change else ()),
                        text_of(trial),
                    )
                ).lower()
                for line, trial in zip(self.lines, self.cases.trials, strict=True)
            ]
        return self._texts


SEARCHED = ("id", "attack", "model", "dataset", "group", "item", "key", "before", "after")


class Viewer:
    """Shows a run folder, finished or not, and writes nothing into it."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Read the run.

        Raises:
            StoreError: there is no run in the folder, or it is damaged.
        """
        self._folder, self._clock = folder, clock
        self._read = Read(folder, clock)

    def page(self) -> str:
        """Return the page, whose cases ask this server."""
        self._refresh()
        read = self._read
        if read.page is None:
            started = self._clock()
            # A page that takes long to make is not asked for again at once.
            data = {
                **shared([read.run], read.lines),
                "served": True,
                "version": read.version,
                "seconds": max(SECONDS, round(read.seconds / SHARE)),
            }
            n = len(read.lines)
            cases = Browser(data=as_script(data), n_held=n, n_cases=n, is_served=True)
            read.page = page([read.run], cases)
            read.seconds += self._clock() - started
        return read.page

    def cases(self, wish: Mapping[str, str]) -> Json:
        """Return lines of the list.

        Args:
            wish: offset, limit, search, sort, and the value of any of `FILTERS`.
        """
        read, search = self._read, wish.get("search", "").strip().lower()
        filters = {name: wish[name] for name in FILTERS if wish.get(name)}
        texts = read.texts() if search else [""] * len(read.lines)
        fitting = [
            line
            for line, text in zip(read.lines, texts, strict=True)
            if search in text and all(getattr(line, k) == v for k, v in filters.items())
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
        trial = self._read.by_id.get(case_id)
        if trial is None:
            return None
        (case,) = self._read.cases.cases([trial], most_tried=None)
        return json_of(case)

    def state(self) -> Json:
        """Return whether the run has changed, and how far it is."""
        self._refresh()
        read = self._read
        n_planned = int(read.run.manifest["n_planned"])
        return {"version": read.version, "n_trials": len(read.lines), "n_planned": n_planned}

    def _refresh(self) -> None:
        """Read the run again if it has changed and enough time has passed."""
        read, now = self._read, self._clock()
        if now - read.at < max(AT_LEAST, read.seconds / SHARE) or stamp(self._folder) == read.stamp:
            return
        try:
            self._read = Read(self._folder, self._clock)
        except StoreError:
            # A writer was faster, or the folder is being replaced: what is known still shows.
            read.at = now


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


def view(
    folder: Path, *, port: int = 0, show: bool = True, announce: Callable[[str], None] = print
) -> None:
    """Serve the page of a run folder until Ctrl+C.

    Args:
        folder: the run folder.
        port: 0 takes a free one.
        show: whether to open the user's browser.
        announce: takes the address.

    Raises:
        StoreError: there is no run in the folder, or it is damaged.
        UsageError: the port is taken.
    """
    serve(routes(Viewer(folder)), port=port, show=show, announce=announce)


def stamp(folder: Path) -> Stamp:
    """Return size and time of the database, of its log and of reviews, None where there is none."""
    stamps: list[tuple[int, int] | None] = []
    for name in (FILE, f"{FILE}-wal", REVIEWS, f"{REVIEWS}-wal"):
        try:
            at = (folder / name).stat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append((at.st_size, at.st_mtime_ns))
    return tuple(stamps)


def _whole(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 9 else default
