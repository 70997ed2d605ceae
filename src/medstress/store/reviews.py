"""What experts say about the cases of a run, and how it is stored."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeAlias

YES, NO, CANNOT_SAY = "yes", "no", "cannot say"
KEY_RIGHT = "key_right"
"""The judgement on which validity rests."""
JUDGEMENTS = (KEY_RIGHT, "misleading", "plausible", "harmful")
"""What the review room asks of every case; each is answered by one of the three words."""
UNCHANGED, WRONG_KEY, SECOND_ANSWER = "unchanged", "wrong_key", "second_answer"
EXPECTED = {UNCHANGED: YES, WRONG_KEY: NO, SECOND_ANSWER: NO}
"""Planted control -> the right word about its key, which is known because it was made so."""
ANSWER, SHOWN, RIGHT = "answer", "shown", "right"
"""What is stored of an item that a rater answered: the letter, whether the item was clean or
attacked, and whether the letter is the key."""
CLEAN, ATTACKED = "clean", "attacked"
RATER, ADJUDICATOR = "rater", "adjudicator"

Place: TypeAlias = tuple[str | None, ...]
"""What a review is about, who gave it, and as what."""

VALID = {YES: True, NO: False}
"""What is said of the key -> whether the success is valid; "cannot say" is neither."""
_COLUMNS = (
    *("case_id", "trial_id", "control", "control_of", "reviewer", "role", "answers", "note"),
    "time",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """What one expert says about one case; or, of a case of several trials, about one of them."""

    trial_id: str | None
    """The trial; None for a planted control."""
    reviewer: str
    """Who judged, by name or initials."""
    answers: Mapping[str, str] = field(default_factory=dict)
    """Judgement -> word; without those that are not answered."""
    note: str = ""
    """Free text."""
    time: str
    """When, in UTC."""
    role: str = RATER
    """`rater`, or `adjudicator`: who decides where raters disagree."""
    case_id: str | None = None
    """Code under which the case was shown; None if it came without one."""
    control: str | None = None
    """Which control it is, if it is planted."""
    control_of: str | None = None
    """The item of a planted control, as `data set/item`."""


def add(db: sqlite3.Connection, reviews: Iterable[Review]) -> list[Review]:
    """Add reviews that are not stored yet, and return those."""
    columns = ", ".join(_COLUMNS)
    same = " AND ".join(f"{name} IS ?{at}" for at, name in enumerate(_COLUMNS, start=1))
    # One statement, because reading first would let another process write in between.
    query = (
        f"INSERT INTO verdicts ({columns}) "
        f"SELECT {', '.join(f'?{at}' for at in range(1, len(_COLUMNS) + 1))} "
        f"WHERE NOT EXISTS (SELECT 1 FROM verdicts WHERE {same})"
    )
    return [one for one in reviews if db.execute(query, _row(one)).rowcount]


def read(db: sqlite3.Connection) -> list[Review]:
    """Return all reviews of a file of reviews, each expert's latest about each case and trial.

    Of two at the same time, the one that came in later counts.
    """
    found: dict[Place, Review] = {}
    rows = db.execute(f"SELECT {', '.join(_COLUMNS)} FROM verdicts ORDER BY time, id")
    for row in rows:
        given = dict(zip(_COLUMNS, row, strict=True))
        answers = json.loads(given["answers"])
        if not all(isinstance(word, str) for word in answers.values()):
            raise ValueError("an answer is no text")
        one = Review(**given | {"answers": answers})
        found[place(one)] = one
    return list(found.values())


def in_order(found: Iterable[Review]) -> list[Review]:
    """Sort reviews by trial, case and rater."""
    order = attrgetter("trial_id", "case_id", "reviewer")
    return sorted(found, key=lambda one: tuple(part or "" for part in order(one)))


def place(review: Review) -> Place:
    """Return what a review is about and who gave it: a later review of the same place replaces it.

    What a rater says of a clean item in the mode `answer` is no verdict on its attacked trial.
    """
    subject = review.case_id if review.trial_id is None else review.trial_id
    shown = review.answers.get(SHOWN)
    return (subject, shown, review.reviewer.casefold(), review.role)


def _row(one: Review) -> tuple[str | None, ...]:
    answers = json.dumps(dict(one.answers), ensure_ascii=False, sort_keys=True)
    return (
        *(one.case_id, one.trial_id, one.control, one.control_of, one.reviewer, one.role),
        *(answers, one.note, one.time),
    )
