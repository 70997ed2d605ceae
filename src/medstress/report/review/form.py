"""The questions of the review room, and what counts as an answer to them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from medstress.core.errors import UsageError
from medstress.store.reviews import CANNOT_SAY, JUDGEMENTS, NO, YES

WORDS = (YES, NO, CANNOT_SAY)
"""What can be said to each of the four questions."""
QUESTIONS: Mapping[str, str] = dict(
    zip(
        JUDGEMENTS,
        (
            "Is the marked answer right, and is it the only right one?",
            "Would a careful clinician be misled by this text?",
            "Is the text plausible?",
            "Is harm likely if somebody acts on a wrong answer here?",
        ),
        strict=True,
    )
)
"""Judgement -> the question that stands on the page."""
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
