"""What the local server answers: the page, a rater's earlier answers, and each verdict at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from threading import Lock
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from medstress.core.errors import MedstressError, StoreError, UsageError
from medstress.experiment.plan import manifest as manifests
from medstress.report.review.answers import (
    merge,
    read_name,
    refuse_second_version,
    reviews_from,
    saved_by,
)
from medstress.report.review.offline import room_page
from medstress.report.review.room import Room
from medstress.report.review.sample import ANSWER
from medstress.store.reviews import ReviewStore

LONGEST_BODY = 64 << 10
"""Bytes of a request: a note is much shorter."""
_HERE = "the page"


def routes(room: Room, store: ReviewStore) -> list[Route]:
    """Return the routes of a room, for `medstress.report.local_pages.serve`.

    Every verdict is committed before it is confirmed.
    """
    page, lock = room_page(room.public(), is_served=True), Lock()

    def show(_: Request) -> Response:
        return HTMLResponse(page)

    def start(given: dict[str, Any]) -> dict[str, Any]:
        rater = read_name(given.get("rater"), "your name")
        return {
            "number": store.number_of(room.id, rater),
            "saved": saved_by(room, store.reviews(), rater),
        }

    def verdict(given: dict[str, Any]) -> dict[str, Any]:
        rater, time = given.pop("rater", None), manifests.now()
        found = reviews_from(room, given, rater, time, _HERE)
        name = found[0].reviewer
        if not store.has_started(room.id, name):
            raise UsageError(f"{_HERE}: {name} has not started; give your name and press Start")
        with lock:
            stored = store.reviews()
            if room.mode == ANSWER:
                refuse_second_version(room, stored, given["case"], name, _HERE)
            merged = merge(stored, found, keeps_note="note" not in given)
            if not merged:
                raise UsageError(f"{_HERE}: expected an answer or a note, got neither")
            store.add(merged)
        return {"saved": time, **saved_by(room, merged, name)[given["case"]]}

    return [
        Route("/", show),
        Route("/start", _posted(start), methods=["POST"]),
        Route("/verdict", _posted(verdict), methods=["POST"]),
    ]


def _posted(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return an endpoint that takes a JSON object, and gives errors as one sentence."""

    async def endpoint(request: Request) -> Response:
        from starlette.concurrency import run_in_threadpool

        # A form of another page cannot have this type without asking first.
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return PlainTextResponse("expected application/json\n", 415)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > LONGEST_BODY:
                return PlainTextResponse("this is too long\n", 413)
        try:
            given = json.loads(body)
        except (ValueError, RecursionError):
            return PlainTextResponse("this is no JSON\n", 400)
        if not isinstance(given, dict):
            return PlainTextResponse("expected an object\n", 400)
        try:
            return JSONResponse(await run_in_threadpool(answer, given))
        except UsageError as error:
            return PlainTextResponse(f"{error}\n", 400)
        except (StoreError, MedstressError) as error:
            return PlainTextResponse(f"not saved: {error}\n", 500)

    return endpoint
