"""One answer of one rater, as the page sends it or a file holds it, turned into reviews."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from medstress.core.errors import UsageError
from medstress.report.review.form import read_judgements, read_letter, read_name, read_note
from medstress.report.review.records import Record
from medstress.report.review.room import Room
from medstress.report.review.sample import ADJUDICATE, ANSWER
from medstress.store.reviews import (
    ADJUDICATOR,
    JUDGEMENTS,
    NO,
    RATER,
    RIGHT,
    SHOWN,
    YES,
    Review,
    place,
)
from medstress.store.reviews import ANSWER as LETTER


def reviews_from(room: Room, given: Any, rater: Any, time: str, where: str) -> list[Review]:
    """Return the reviews that one answer amounts to: one for each trial of its case.

    Args:
        room: where the case was shown.
        given: `case`, `answers` and `note`, as JSON values; untrusted.
        rater: name or initials; untrusted.
        time: when it was given, in UTC.
        where: for messages.

    Raises:
        UsageError: it is not an answer to a case of this room.
    """
    name = read_name(rater, f"{where}, rater")
    if not isinstance(given, dict) or set(given) - {"case", "answers", "note", "time"}:
        raise UsageError(f"{where}: expected an object with case, answers and note")
    case = given.get("case")
    record = room.records.get(case) if isinstance(case, str) else None
    if record is None:
        raise UsageError(f"{where}: this room has no case {str(case)[:40]!r}")
    answers = _answers(room, record, given.get("answers"), f"{where}, case {case}")
    note = read_note(given.get("note", ""), f"{where}, case {case}, note")
    role = ADJUDICATOR if room.mode == ADJUDICATE else RATER
    trials = record["trials"] or [None]
    return [
        Review(
            trial_id=trial,
            reviewer=name,
            answers=answers,
            note=note,
            time=time,
            role=role,
            case_id=record["id"],
            control=record.get("control"),
            control_of=record.get("control_of"),
        )
        for trial in trials
    ]


def _answers(room: Room, record: Record, given: Any, where: str) -> dict[str, str]:
    if room.mode == ANSWER:
        case = room.cases[record["id"]]
        letter = read_letter(given, case.letters, where)
        if letter is None:
            return {SHOWN: record["shown"]}
        right = YES if letter == case.key else NO
        return {LETTER: letter, SHOWN: record["shown"], RIGHT: right}
    asked = room.disputed.get(record["id"], {}).get("ask", JUDGEMENTS)
    return read_judgements(given, asked, where)


def merge(stored: Iterable[Review], found: Iterable[Review], *, keeps_note: bool) -> list[Review]:
    """Return new reviews with what their rater said before of the same case and does not say anew.

    So two tabs of one rater do not erase each other's answers.

    Args:
        stored: all reviews.
        found: those of one answer.
        keeps_note: whether the answer came without a note, so that the stored one stays.

    Returns:
        An empty list if nothing is said, and nothing was.
    """
    earlier = {place(one): one for one in stored}
    merged = []
    for one in found:
        known = earlier.get(place(one))
        if known is not None:
            one = replace(
                one,
                answers={**known.answers, **one.answers},
                note=known.note if keeps_note else one.note,
            )
        elif not one.note and not set(one.answers) - {SHOWN}:
            return []
        merged.append(one)
    return merged


def refuse_second_version(
    room: Room, reviews: Iterable[Review], case: str, rater: str, where: str
) -> None:
    """Refuse, in mode `answer`, an item of which the rater has answered the other version.

    Raises:
        UsageError: that would measure memory.
    """
    pair = room.records[case]["pair"]
    others = {name for name, each in room.records.items() if each["pair"] == pair} - {case}
    for review in reviews:
        is_same = review.case_id in others and review.reviewer.casefold() == rater.casefold()
        if is_same and LETTER in review.answers:
            raise UsageError(f"{where}: {rater} has answered another version of this item already")


def saved_by(room: Room, reviews: Iterable[Review], rater: str) -> dict[str, dict[str, Any]]:
    """Return case -> answers and note of one rater, as the page takes them.

    What is stored beside an answer (clean or attacked, right or wrong) stays here.
    """
    role = ADJUDICATOR if room.mode == ADJUDICATE else RATER
    return {
        str(review.case_id): {
            "answers": {
                name: word for name, word in review.answers.items() if name in (LETTER, *JUDGEMENTS)
            },
            "note": review.note,
        }
        for review in reviews
        if review.case_id in room.records
        and review.role == role
        and review.reviewer.casefold() == rater.casefold()
    }
