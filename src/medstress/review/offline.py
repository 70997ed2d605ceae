"""The room as one file for people who may install nothing, and their answers back from one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from medstress.core.errors import UsageError
from medstress.files.writing import write_text
from medstress.results.load import StoredRun
from medstress.review.form import read_time
from medstress.review.page import room_page
from medstress.review.room import Room, stored_room
from medstress.review.sample import ANSWER
from medstress.review.verdicts import refuse_second_version, reviews_from
from medstress.store.review_store import ReviewStore
from medstress.store.reviews import Review

FORMAT = 1
"""Of the file that the page gives."""
LARGEST = 64 << 20
"""Bytes of such a file: 10,000 cases with the longest notes."""


def export_room(room: Room, to: Path) -> None:
    """Write a room as a page that needs no server and no network.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        write_text(to, room_page(room.public(), is_served=False))
    except OSError as error:
        raise UsageError(f"--export {to}: cannot write it: {error.strerror}") from error


def import_answers(run: StoredRun, store: ReviewStore, path: Path) -> tuple[int, int]:
    """Store the answers in a file that the page gave, and return how many it has and were new.

    A case counts once, whatever number of trials it stands for.

    The same file read twice adds nothing. An answer that is older than a stored one of the same
    rater does not replace it.

    Raises:
        UsageError: it is no such file, it was given by a page of another run, or an answer in it
            is wrong; then nothing of it is stored.
    """
    where = f"--import {path}"
    given = _read(path)
    name = given.get("room")
    room = stored_room(run, store, name) if isinstance(name, str) else None
    if room is None:
        raise UsageError(f"{where}: its page was not made from {run.folder}; give its own run")
    verdicts = given.get("verdicts")
    if not isinstance(verdicts, list):
        raise UsageError(f"{where}: expected a list of verdicts")
    stored = store.reviews()
    found: list[Review] = []
    for number, verdict in enumerate(verdicts, start=1):
        place = f"{where}, verdict {number}"
        time = read_time(verdict.get("time") if isinstance(verdict, dict) else None, place)
        reviews = reviews_from(room, verdict, given.get("rater"), time, place)
        if room.mode == ANSWER:
            refuse_second_version(
                room, [*stored, *found], verdict["case"], reviews[0].reviewer, place
            )
        found += reviews
    return len(verdicts), len({one.case_id for one in store.add(found)})


def _read(path: Path) -> dict[str, Any]:
    where = f"--import {path}"
    try:
        if path.stat().st_size > LARGEST:
            raise UsageError(f"{where}: the file is larger than any page gives")
        given = json.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{where}: cannot read it: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{where}: it is not what the page gives with “Download my answers”"
        ) from error
    if not isinstance(given, dict) or given.get("format") != FORMAT:
        raise UsageError(f"{where}: expected a file of format {FORMAT} that the page gave")
    return given
