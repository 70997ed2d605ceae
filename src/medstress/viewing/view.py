"""The report of a run from a local server: its cases come from the database, page by page."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from medstress.core.errors import StoreError
from medstress.core.rows import TrialRow
from medstress.kinds import kind_of
from medstress.report.cases.building import Cases, cases_of
from medstress.report.cases.choosing import is_success
from medstress.report.cases.embedding import shared
from medstress.report.cases.listing import FACTORS, SORTS, Line, Wish, line_of, wished
from medstress.report.cases.packing import Texts, as_script, pack
from medstress.report.cases.page import render_served, score_word
from medstress.report.cases.stored import StoredCases
from medstress.report.page import render_report
from medstress.results.load import StoredRun, open_run
from medstress.results.rows import trial_rows
from medstress.serving.local import serve
from medstress.store.odd_rows import interpreting
from medstress.store.review_store import FILE as REVIEWS
from medstress.store.run_store import FILE
from medstress.summary.summary import summarise_run

SECONDS = 4
"""Least seconds between a page's questions whether the run has changed."""
_AT_LEAST = 3.0
"""Seconds between two readings of a run in progress."""
_SHARE = 0.2
"""Most of the time that reading a run in progress may take."""
MOST_LINES = 200
"""Most lines of one answer."""
MOST_TRIED = 500
"""Most edits that failed of one case."""

Stamp = tuple[tuple[int, int] | None, ...]


@dataclass(slots=True, kw_only=True)
class _Read:
    """What was read of a run at one moment."""

    stamp: Stamp
    run: StoredRun | None
    """Kept open unless a run is in progress, whose log would grow for a reader's sake."""
    stack: ExitStack
    cases: Cases
    trials: dict[str, TrialRow]
    """By short id."""
    lines: list[Line]
    questions: list[str]
    """The folded text of each line's item."""
    n_planned: int
    at: float
    seconds: float
    page: str | None = None


class Viewer:
    """Shows a run folder, finished or in progress, and writes nothing into it."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Read the run.

        Raises:
            StoreError: there is no run in the folder, or it is damaged.
        """
        self._folder, self._clock = folder, clock
        self._page_seconds = 0.0
        self._read = self._reading()

    def close(self) -> None:
        """Close the run."""
        self._read.stack.close()

    def page(self) -> str:
        """Return the report, with a case browser that asks this server."""
        self._refresh()
        if self._read.page is None:
            started = self._clock()
            with self._opened() as run:
                won = sum(map(is_success, self._read.cases.trials))
                browser = render_served(
                    as_script(self._data()),
                    len(self._read.lines),
                    won,
                    score_word(self._read.cases),
                )
                self._read.page = render_report(
                    summarise_run(run), trial_rows(run), run.manifest, cases=browser
                )
            self._page_seconds = self._clock() - started
        return self._read.page

    def cases(self, asked: Mapping[str, str]) -> dict[str, Any]:
        """Return lines of the list.

        Args:
            asked: offset, limit, search, sort, descending, and the value of any filter.
        """
        read = self._read
        wish = Wish(
            filters={factor: asked[factor] for factor in FACTORS if asked.get(factor)},
            search=asked.get("search", ""),
            sort=asked["sort"] if asked.get("sort") in SORTS else SORTS[0],
            descending=asked.get("descending") == "1",
        )
        found = wished(read.lines, wish, read.questions.__getitem__, read.cases.names.of)
        offset = _whole(asked.get("offset"), 0)
        limit = min(_whole(asked.get("limit"), 50), MOST_LINES)
        return {
            "total": len(found),
            "size": len(read.lines),
            "lines": found[offset : offset + limit],
        }

    def case(self, short_id: str) -> dict[str, Any] | None:
        """Return one case as the page's script reads it; None if there is none with this id."""
        read = self._read
        trial = read.trials.get(short_id)
        if trial is None:
            return None
        with self._opened() as run:
            cases = read.cases
            if read.run is None:
                cases = Cases(cases.trials, cases.names, StoredCases(run))
            record, line = cases.record(trial, MOST_TRIED), line_of(cases, trial)
        texts = Texts()
        detail = pack(record, texts)
        return {"line": line, "detail": detail, "texts": list(texts.known)}

    def state(self) -> dict[str, Any]:
        """Return whether the run has changed, and how far it is."""
        self._refresh()
        return {
            "version": self._version(),
            "n_trials": len(self._read.lines),
            "n_planned": self._read.n_planned,
        }

    def _data(self) -> dict[str, Any]:
        told = shared(self._read.cases, self._read.lines)
        # A page that takes long to make is not asked for again at once.
        pause = max(SECONDS, max(self._read.seconds, self._page_seconds) / _SHARE)
        return {"served": True, "version": self._version(), "seconds": round(pause), **told}

    def _version(self) -> str:
        return " ".join(map(str, self._read.stamp))

    def _refresh(self) -> None:
        """Read the run again if it has changed and enough time has passed."""
        read, now = self._read, self._clock()
        pause = max(_AT_LEAST, read.seconds / _SHARE)
        if now - read.at < pause or _stamp(self._folder) == read.stamp:
            return
        try:
            fresh = self._reading()
        except StoreError:
            # A writer was faster, or the folder is being replaced: what is known still shows.
            read.at = now
            return
        read.stack.close()
        self._read = fresh

    def _reading(self) -> _Read:
        started, stamp = self._clock(), _stamp(self._folder)
        with interpreting(self._folder / FILE), ExitStack() as stack:
            run = stack.enter_context(_quietly_closed(self._folder))
            cases = cases_of(run)
            lines = [line_of(cases, trial) for trial in cases.trials]
            read = _Read(
                stamp=stamp,
                run=run,
                stack=ExitStack(),
                cases=cases,
                trials={line["id"]: t for line, t in zip(lines, cases.trials, strict=True)},
                lines=lines,
                questions=_questions(run, cases.trials),
                n_planned=int(run.manifest.get("n_planned") or len(lines)),
                at=self._clock(),
                seconds=self._clock() - started,
            )
            if stamp[1] is None:
                read.stack = stack.pop_all()
            else:
                read.run = None
        return read

    @contextmanager
    def _opened(self) -> Iterator[StoredRun]:
        if self._read.run is None:
            with open_run(self._folder) as run:
                yield run
        else:
            with interpreting(self._folder / FILE):
                yield self._read.run


def routes(viewer: Viewer) -> list[Route]:
    """Return the paths of a viewer, for `medstress.serving.local`.

    The handlers are coroutines, so that all of them read the database in one thread.
    """

    async def page(_: Request) -> Response:
        try:
            return HTMLResponse(viewer.page())
        except StoreError as error:
            return PlainTextResponse(f"{error}\n", 503)

    async def cases(request: Request) -> Response:
        return JSONResponse(viewer.cases(request.query_params))

    async def case(request: Request) -> Response:
        try:
            found = viewer.case(request.path_params["id"])
        except StoreError as error:
            return JSONResponse({"error": str(error)}, 503)
        return JSONResponse(found, 404 if found is None else 200)

    async def state(_: Request) -> Response:
        return JSONResponse(viewer.state())

    return [
        Route("/", page),
        Route("/cases", cases),
        Route("/case/{id}", case),
        Route("/state", state),
    ]


def view(
    folder: Path, *, port: int = 0, show: bool = True, announce: Callable[[str], None] = print
) -> None:
    """Serve the report of a run folder until Ctrl+C.

    Args:
        folder: the run folder.
        port: 0 takes a free one.
        show: whether to open the user's browser.
        announce: told the address.

    Raises:
        StoreError: there is no run in the folder, or it is damaged.
        UsageError: the port is taken.
    """
    viewer = Viewer(folder)
    try:
        serve(routes(viewer), port=port, show=show, announce=announce)
    finally:
        viewer.close()


@contextmanager
def _quietly_closed(folder: Path) -> Iterator[StoredRun]:
    """Open a run that may change while it is open: it is read again then."""
    run = StoredRun(folder)
    try:
        yield run
    finally:
        run.close()


def _stamp(folder: Path) -> Stamp:
    """Return size and time of the database, of its log and of reviews, None where there is none."""
    found: list[tuple[int, int] | None] = []
    for name in (FILE, f"{FILE}-wal", REVIEWS, f"{REVIEWS}-wal"):
        try:
            at = (folder / name).stat()
        except OSError:
            found.append(None)
        else:
            found.append((at.st_size, at.st_mtime_ns))
    return tuple(found)


def _questions(run: StoredRun, trials: Sequence[TrialRow]) -> list[str]:
    texts = {
        place: "\n".join(_strings(kind_of(item).values(item.candidate()))).casefold()
        for place, item in run.items_by_id().items()
    }
    return [texts[trial.dataset, trial.item_id] for trial in trials]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, list | tuple):
        words = [each for each in value if isinstance(each, str)]
        yield " ".join(words)


def _whole(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 9 else default
