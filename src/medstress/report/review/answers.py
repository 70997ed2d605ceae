"""What counts as an answer of a rater, and the reviews that it amounts to.

An answer comes from the page or from a file, and is not trusted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from medstress.core.errors import UsageError
from medstress.report.review.room import Room
from medstress.report.review.sample import ADJUDICATE, ANSWER, Record
from medstress.report.review.shown import WORDS
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

LONGEST_NAME = 60
LONGEST_NOTE = 4000
SLACK = timedelta(days=1)
"""How far a clock elsewhere may be ahead."""


def read_name(given: Any, where: str) -> str:
    """Return a rater's name or initials, white space tidied.

    Raises:
        UsageError: it is empty, too long, or no text.
    """
    name = " ".join(given.split()) if isinstance(given, str) else ""
    if not name or not name.isprintable():
        raise UsageError(f"{where}: expected a name or initials, got {_short(given)}")
    if len(name) > LONGEST_NAME:
        raise UsageError(
            f"{where}: expected at most {LONGEST_NAME} characters, got {len(name)}; initials do"
        )
    return name


def read_note(given: Any, where: str) -> str:
    """Return a note.

    Raises:
        UsageError: it is too long, or no text.
    """
    if not isinstance(given, str) or len(given) > LONGEST_NOTE:
        got = f"{len(given)} characters" if isinstance(given, str) else _short(given)
        raise UsageError(
            f"{where}: expected a note of at most {LONGEST_NOTE} characters, got {got}"
        )
    return _plain(given).strip()


def read_judgements(given: Any, asked: Collection[str], where: str) -> dict[str, str]:
    """Return judgement -> word, for those that are answered.

    Args:
        given: a JSON object; null means not answered.
        asked: judgements that may be given.
        where: for messages.

    Raises:
        UsageError: an unknown judgement or word.
    """
    if not isinstance(given, dict):
        raise UsageError(f"{where}: expected answers as an object, got {_short(given)}")
    found = {name: word for name, word in given.items() if word is not None}
    for name, word in found.items():
        if name not in asked:
            raise UsageError(f"{where}: expected {', '.join(asked)}, got {_short(name)}")
        if word not in WORDS:
            raise UsageError(f"{where}, {name}: expected {', '.join(WORDS)}, got {_short(word)}")
    return found


def read_letter(given: Any, letters: str, where: str) -> str | None:
    """Return the letter that a rater chose; None if the answer was taken back.

    Raises:
        UsageError: it is no letter of an option.
    """
    letter = given.get("answer") if isinstance(given, dict) else None
    if not isinstance(given, dict) or set(given) - {"answer"}:
        raise UsageError(f"{where}: expected an answer, got {_short(given)}")
    if letter is not None and (not isinstance(letter, str) or letter not in tuple(letters)):
        raise UsageError(f"{where}: expected one of {', '.join(letters)}, got {_short(letter)}")
    return letter


def read_time(given: Any, where: str) -> str:
    """Return a time in UTC, to the second, as verdicts are stored.

    Raises:
        UsageError: it is no time with a time zone, or it lies in the future: then no later answer
            would ever replace the one that has it.
    """
    try:
        found = datetime.fromisoformat(given)
        found = found.astimezone(UTC) if found.tzinfo else _no(given)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(
            f"{where}: expected a time such as 2026-01-31T09:30:00+00:00, got {_short(given)}"
        ) from error
    if found > datetime.now(UTC) + SLACK:
        raise UsageError(
            f"{where}: expected a time that has passed, got {_short(given)}; if the clock was "
            "wrong where this was answered, correct the times in the file"
        )
    return found.isoformat(timespec="seconds")


def _no(given: Any) -> NoReturn:
    raise ValueError(given)


def _plain(text: str) -> str:
    """Return a text without lone surrogates, which no file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _short(given: Any) -> str:
    shown = repr(given)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."


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
