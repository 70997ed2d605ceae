"""The room as a page, served or in one file, and the answers that come back from it.

A file is a page, which gives answers as JSON, or a table (CSV) that is filled in.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from medstress.analyses.run import Run
from medstress.core.errors import MedstressError, StoreError, UsageError
from medstress.core.frames import Reader, Writer
from medstress.core.reading import check_file
from medstress.core.writing import write_text
from medstress.experiment import manifest as manifests
from medstress.experiment.room import (
    ANSWER,
    QUESTIONS,
    Room,
    Shown,
    merge,
    read_name,
    read_time,
    refuse_second_version,
    reviews_from,
    saved_by,
    stored_room,
)
from medstress.report.html import as_script, rendered
from medstress.store.reviews import Place, Review, ReviewStore, place

FORMAT = 1
"""Of the file that the page gives."""
LARGEST = 64 << 20
"""Bytes of such a file: 10,000 cases with the longest notes."""
SHOWN = ("room", "case", "text", "options", "marked")
"""Columns of a table for its reader; `marked` is the answer that is marked as the right one."""
FILLED = ("reviewer", *QUESTIONS, "note")
"""Columns to fill in."""


def export_room(room: Room, to: Path) -> None:
    """Write a room as a page that needs no server and no network, or as a table to fill in.

    Args:
        room: to judge, or as a page also to answer: of a table each rater would see both versions
            of an item.
        to: FILE.html or FILE.csv.

    Raises:
        UsageError: the file cannot be written, or another ending.
    """
    if to.suffix not in (".html", ".csv"):
        raise UsageError(f"--export {to}: the name must end in .html or .csv")
    if to.suffix == ".csv" and room.mode == ANSWER:
        raise UsageError(
            f"--export {to}: a table shows everybody both versions of an item; give FILE.html"
        )
    try:
        is_page = to.suffix == ".html"
        write_text(to, room_page(room.public(), is_served=False) if is_page else _table(room))
    except OSError as error:
        raise UsageError(f"--export {to}: cannot write it: {error.strerror}") from error


def _table(room: Room) -> str:
    stream = io.StringIO(newline="")
    writer = Writer(stream, [*SHOWN, *FILLED])
    for name in sorted(room.cases):
        writer.write(_row(room.id, name, room.cases[name]))
    return stream.getvalue()


def _row(room: str, name: str, case: Shown) -> dict[str, str]:
    texts = (
        f"{heading}: {''.join(f'[{text}]' if marked else text for marked, text in parts)}"
        for heading, parts in case.texts
    )
    options = zip(case.letters, case.options, strict=True)
    return {
        "room": room,
        "case": name,
        "text": "\n".join(texts),
        "options": "\n".join(f"{letter}: {option}" for letter, option in options),
        "marked": case.key,
    }


def import_answers(run: Run, store: ReviewStore, path: Path) -> tuple[int, int]:
    """Store the answers in a file, and return how many it has and were new.

    A case counts once, whatever number of trials it represents.

    The same file read twice adds nothing. An answer of a page that is older than a stored one of
    the same rater does not replace it; what a table says is as old as its reading.

    Args:
        run: the run.
        store: its reviews.
        path: FILE.json that the page gave, or a filled-in FILE.csv.

    Raises:
        UsageError: it is no such file, it is of another run, or an answer in it is wrong; then
            nothing of it is stored.
    """
    if path.suffix == ".csv":
        return _import_table(run, store, path)
    where = f"--import {path}"
    value = _read(path)
    room = stored_room(run, store, str(value.get("room")), where)
    verdicts = value.get("verdicts")
    if not isinstance(verdicts, list):
        raise UsageError(f"{where}: expected a list of verdicts")
    stored = store.reviews()
    reviews_read: list[Review] = []
    for number, verdict in enumerate(verdicts, start=1):
        place = f"{where}, verdict {number}"
        time = read_time(verdict.get("time") if isinstance(verdict, dict) else None, place)
        reviews = reviews_from(room, verdict, value.get("rater"), time, place)
        if room.mode == ANSWER:
            refuse_second_version(
                room, [*stored, *reviews_read], verdict["case"], reviews[0].reviewer, place
            )
        reviews_read += reviews
    return len(verdicts), len({one.case_id for one in store.add(reviews_read)})


def _import_table(run: Run, store: ReviewStore, path: Path) -> tuple[int, int]:
    rooms: dict[str, Room] = {}
    latest = {place(one): one for one in store.reviews()}
    reviews_read: list[Review] = []
    heard: dict[tuple[Place, str], tuple[int, str]] = {}
    for number, row in enumerate(_rows(path), start=2):
        where = f"--import {path}, row {number}"
        filled = {name: row.get(name, "").strip() for name in FILLED}
        if not any(filled[name] for name in (*QUESTIONS, "note")):
            continue  # not judged yet
        name = row["room"].strip()
        if name not in rooms:
            rooms[name] = stored_room(run, store, name, where)
        answers = {name: filled[name].casefold() or None for name in QUESTIONS}
        value = {"case": row["case"].strip(), "answers": answers, "note": filled["note"]}
        reviews = reviews_from(rooms[name], value, filled["reviewer"], manifests.now(), where)
        _check_agrees(reviews[0], number, heard, f"--import {path}")
        reviews_read += reviews
    new = []
    for one in reviews_read:
        last = latest.get(place(one))
        if last is None or (dict(last.answers), last.note) != (dict(one.answers), one.note):
            new.append(one)
    cases = {(one.case_id, one.reviewer.casefold()) for one in reviews_read}
    return len(cases), len({one.case_id for one in store.add(new)})


def _check_agrees(
    review: Review, row: int, heard: dict[tuple[Place, str], tuple[int, str]], where: str
) -> None:
    """Refuse a row whose reviewer says otherwise of the same case in an earlier one."""
    for name, word in review.answers.items():
        earlier, before = heard.setdefault((place(review), name), (row, word))
        if before != word:
            raise UsageError(
                f"{where}, rows {earlier} and {row}, column {name!r}: expected one answer of "
                f"{review.reviewer!r} on the case {review.case_id!r}, got {before!r} and {word!r}; "
                "keep the row that holds"
            )


def _text(path: Path) -> str:
    check_file(path)
    try:
        if path.stat().st_size > LARGEST:
            raise UsageError(f"--import {path}: the file is larger than any page or table")
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise UsageError(f"--import {path}: cannot read it: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--import {path}: not a UTF-8 text; save it as UTF-8") from error


def _rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table, even if a spreadsheet saved it since."""
    text = _text(path)
    head = text.partition("\n")[0]
    # In many countries, spreadsheets separate with semicolons.
    separator = ";" if head.count(";") > head.count(",") else ","
    try:
        rows = Reader(io.StringIO(text, newline=""), separator)
        value = list(rows)
    except csv.Error as error:
        raise UsageError(f"--import {path}: not a CSV file ({error})") from error
    if missing := [name for name in ("room", "case", *FILLED) if name not in rows.fields]:
        raise UsageError(
            f"--import {path}: the column {missing[0]!r} is missing; write a table with: medstress "
            "review DIR --export FILE.csv"
        )
    return value


def _read(path: Path) -> dict[str, Any]:
    text = _text(path)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise UsageError(
            f"--import {path}: it is not what the page gives with “Download my answers”"
        )
    return value


def room_page(public: Mapping[str, Any], *, is_served: bool) -> str:
    """Return the page as HTML that loads nothing; texts are in it as data, never as markup.

    Script and style are allowed by their hashes alone, and only a served page may send anything,
    to the address it came from.

    Args:
        public: see `medstress.experiment.room.Room.public`.
        is_served: False for a file: its page keeps answers in the browser and gives them as a file.
    """
    return rendered(
        "room",
        "connect-src 'self'" if is_served else "connect-src 'none'",
        data=as_script({**public, "served": is_served}),
        mode=public["mode"],
        is_served=is_served,
        n_cases=len(public["pairs"] or public["cases"]),
    )


LONGEST_BODY = 64 << 10
"""Bytes of a request: a note is much shorter."""
_HERE = "the page"


def routes(room: Room, store: ReviewStore) -> list[Route]:
    """Return the routes of a room, for `medstress.report.view.serve`.

    Every verdict is committed before it is confirmed.
    """
    page, lock = room_page(room.public(), is_served=True), Lock()

    def show(_: Request) -> Response:
        return HTMLResponse(page)

    def start(value: dict[str, Any]) -> dict[str, Any]:
        rater = read_name(value.get("rater"), "your name")
        return {
            "number": store.number_of(room.id, rater),
            "saved": saved_by(room, store.reviews(), rater),
        }

    def verdict(value: dict[str, Any]) -> dict[str, Any]:
        rater, time = value.pop("rater", None), manifests.now()
        reviews_read = reviews_from(room, value, rater, time, _HERE)
        name = reviews_read[0].reviewer
        if not store.has_started(room.id, name):
            raise UsageError(f"{_HERE}: {name} has not started; give your name and press Start")
        with lock:
            stored = store.reviews()
            if room.mode == ANSWER:
                refuse_second_version(room, stored, value["case"], name, _HERE)
            merged = merge(stored, reviews_read, keeps_note="note" not in value)
            if not merged:
                raise UsageError(f"{_HERE}: expected an answer or a note, got neither")
            store.add(merged)
        return {"saved": time, **saved_by(room, merged, name)[value["case"]]}

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
            value = json.loads(body)
        except (ValueError, RecursionError):
            return PlainTextResponse("this is no JSON\n", 400)
        if not isinstance(value, dict):
            return PlainTextResponse("expected an object\n", 400)
        try:
            return JSONResponse(await run_in_threadpool(answer, value))
        except UsageError as error:
            return PlainTextResponse(f"{error}\n", 400)
        except (StoreError, MedstressError) as error:
            return PlainTextResponse(f"not saved: {error}\n", 500)

    return endpoint
