"""What experts say about the cases of a run, and its file in the folder of the run.

The file is written verdict by verdict, and read as untrusted input.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import NoneType, TracebackType
from typing import Any, TypeAlias, TypeVar

import orjson

from medstress.core.hashing import hasher
from medstress.core.reading import check_regular
from medstress.core.writing import refuse_occupied
from medstress.store.chain import REVIEW_CHAIN
from medstress.store.database import SIDES, Database, translated
from medstress.store.opening import (
    REVIEWS,
    check_file,
    make_schema,
    reading,
)
from medstress.store.shapes import Only, check_shape

YES, NO, CANNOT_SAY = "yes", "no", "cannot say"
KEY_RIGHT = "key_right"
"""The judgement on which validity rests."""
JUDGEMENTS = (KEY_RIGHT, "misleading", "plausible", "harmful")
"""What the review room asks of every case; each is answered by one of the three words."""
UNCHANGED, WRONG_KEY = "unchanged", "wrong_key"
EXPECTED = {UNCHANGED: YES, WRONG_KEY: NO}
"""Planted control -> the right word about its key, which is known because it was made so."""
ANSWER, SHOWN, RIGHT = "answer", "shown", "right"
"""What is stored of an item that a rater answered: the letter, whether the item was clean or
attacked, and whether the letter is the key."""
CLEAN, ATTACKED = "clean", "attacked"
RATER = "rater"

Place: TypeAlias = tuple[str | None, ...]
"""What a review is about, who gave it, and as what."""

WORDS = (YES, NO, CANNOT_SAY)
"""What can be said of each of the judgements."""
_WORDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(JUDGEMENTS, WORDS),
    SHOWN: (CLEAN, ATTACKED),
    RIGHT: (YES, NO),
}
VALID = {YES: True, NO: False}
"""What is said of the key -> whether the success is valid; "cannot say" is neither."""
_ARM = Only(dict.fromkeys(("dataset", "group", "victim", "attack"), str), n=int)
_CASE = Only(
    {
        **dict.fromkeys(("id", "dataset", "item", "unit"), str),
        "trials": [str],
        "edits": [[str, int, int, str]],
        "hidden": [str],
        "control?": {UNCHANGED, WRONG_KEY},
        "shown?": {CLEAN, ATTACKED},
        **dict.fromkeys(("control_of?", "at?", "pair?"), str),
    }
)
_ROOM = Only(
    mode={"judge", "answer"},
    **dict.fromkeys(("seed", "drawn", "population"), int),
    sample=(int, NoneType),
    arms=[_ARM],
    planted={str: int},
    complete=bool,
    time=str,
    cases=[_CASE],
)
"""The shape of a sample."""
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
    """Always `rater`: exports have the column."""
    case_id: str | None = None
    """Code under which the case was shown; None if it came without one."""
    control: str | None = None
    """Which control it is, if it is planted."""
    control_of: str | None = None
    """The item of a planted control, as `data set/item`."""


_INSERT = (
    f"INSERT INTO verdicts ({', '.join(_COLUMNS)}) SELECT :{', :'.join(_COLUMNS)} "
    "WHERE NOT EXISTS (SELECT 1 FROM verdicts WHERE "
    f"{' AND '.join(f'{name} IS :{name}' for name in _COLUMNS)})"
)
# One statement, because reading first would let another process write in between.


def _add(db: sqlite3.Connection, reviews: Iterable[Review]) -> list[Review]:
    """Add reviews that are not stored yet, and return those."""
    new = []
    for one in reviews:
        answers = json.dumps(dict(one.answers), ensure_ascii=False, sort_keys=True)
        values = {name: getattr(one, name) for name in _COLUMNS} | {"answers": answers}
        if db.execute(_INSERT, values).rowcount:
            new.append(one)
    return new


def _latest(db: sqlite3.Connection) -> list[Review]:
    """Return all reviews of a file of reviews, each expert's latest about each case and trial.

    Of two at the same time, the one that came in later counts.
    """
    return list({place(one): one for one in _every(db)}.values())


def _every(db: sqlite3.Connection) -> list[Review]:
    """Return all reviews, also those that later ones replace, by their time."""
    reviews = []
    for row in db.execute(f"SELECT {', '.join(_COLUMNS)} FROM verdicts ORDER BY time, id"):
        values = dict(zip(_COLUMNS, row, strict=True))
        values["answers"] = json.loads(values["answers"])
        _check_answers(values["answers"])
        reviews.append(Review(**values))
    return reviews


def _check_answers(answers: Mapping[str, Any]) -> None:
    """Check what a stored review says.

    Raises:
        ValueError, AttributeError: medstress did not write it.
    """
    for name, word in answers.items():
        if not isinstance(word, str) or word not in _WORDS.get(name, (word,)):
            raise ValueError(f"{name} cannot be {word!r}")
    if ANSWER in answers and not {SHOWN, RIGHT} <= answers.keys():
        raise ValueError("an answer to an item does not say to which")


def in_order(reviews: Iterable[Review]) -> list[Review]:
    """Sort reviews by trial, case and rater."""
    order = attrgetter("trial_id", "case_id", "reviewer")
    return sorted(reviews, key=lambda one: tuple(part or "" for part in order(one)))


def place(review: Review) -> Place:
    """Return what a review is about and who gave it: a later review of the same place replaces it.

    What a rater says of a clean item in the mode `answer` is no verdict on its attacked trial.
    """
    subject = review.case_id if review.trial_id is None else review.trial_id
    shown = review.answers.get(SHOWN)
    return (subject, shown, review.reviewer.casefold(), review.role)


def _room(body: str) -> dict[str, Any]:
    """Return a room from its text.

    Raises:
        ValueError: medstress did not write it.
    """
    room: dict[str, Any] = json.loads(body)
    check_shape(room, _ROOM, "a room")
    return room


# -- the file --------------------------------------------------------------------------------------
FILE = "reviews.sqlite"
_KEY_BYTES = 32

R = TypeVar("R")


class ReviewStore:
    """The reviews of one run, open for writing.

    Every method commits before it returns, so that a killed process loses nothing. Several
    processes may write at once, and a run in the same folder may go on.
    """

    def __init__(self, folder: Path) -> None:
        """Open the file of reviews in a run folder, or make it.

        Raises:
            StoreError: it cannot be written, or medstress did not make it.
        """
        self.folder = folder
        path = folder / FILE
        with translated(folder):
            for side in SIDES:
                refuse_occupied(folder / f"{FILE}{side}")
        check_file(path, REVIEWS)
        self._db = Database(path, self._prepare, chained=REVIEW_CHAIN)

    def _prepare(self, db: sqlite3.Connection) -> None:
        # Few, precious rows: unlike answers of models, they should survive a power cut too.
        db.execute("PRAGMA synchronous = FULL")
        make_schema(db, self.folder / FILE, REVIEWS)

    def __enter__(self) -> ReviewStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._db.abandon()

    def _kept(self, insert: str, select: str, **values: str) -> Any:
        """Insert a row unless it is there, and return a value of the one that is there then."""

        def work(db: sqlite3.Connection) -> Any:
            db.execute(f"INSERT OR IGNORE INTO {insert}", values)
            return db.execute(select, values).fetchone()[0]

        return self._db.commit(work)

    def key(self) -> bytes:
        """Return the secret from which codes of cases are made; it is drawn once."""
        select = "SELECT value FROM about WHERE key = 'key'"
        new = secrets.token_hex(_KEY_BYTES)
        return bytes.fromhex(self._kept("about VALUES ('key', :value)", select, value=new))

    def add_room(self, room: str, body: dict[str, Any]) -> dict[str, Any]:
        """Store a room unless it is known, and return it as it is stored."""
        insert, select = "rooms (room, body) VALUES (:room, :body)", "SELECT body FROM rooms"
        text = json.dumps(body, ensure_ascii=False)
        return _room(self._kept(insert, f"{select} WHERE room = :room", room=room, body=text))

    def rooms(self) -> dict[str, dict[str, Any]]:
        """Return room -> its body."""
        return self._db.commit(_rooms)

    def number_of(self, room: str, reviewer: str) -> int:
        """Return the number of a rater in a room, from 0 in the order of coming."""
        insert = "raters SELECT :room, :rater, COUNT(*) FROM raters WHERE room = :room"
        select = "SELECT number FROM raters WHERE room = :room AND reviewer = :rater"
        return int(self._kept(insert, select, room=room, rater=reviewer.casefold()))

    def has_started(self, room: str, reviewer: str) -> bool:
        """Return whether a rater has a number in a room."""
        query = "SELECT 1 FROM raters WHERE room = ? AND reviewer = ?"
        rater = (room, reviewer.casefold())
        return self._db.commit(lambda db: db.execute(query, rater).fetchone() is not None)

    def add(self, reviews: Iterable[Review]) -> list[Review]:
        """Store reviews and return those that were new."""
        return self._db.commit(partial(_add, reviews=list(reviews)))

    def reviews(self) -> list[Review]:
        """Return every expert's latest review of each case and trial."""
        return self._db.commit(_latest)


def stored_reviews(folder: Path) -> list[Review]:
    """Return the reviews in a run folder, without changing it; none if there is no such file.

    Raises:
        StoreError: medstress did not write the file.
    """
    return _read(folder, _latest, [])


def every_review(folder: Path) -> list[Review]:
    """Return all reviews, also those that later ones replace, as `stored_reviews`."""
    return _read(folder, _every, [])


def reviews_commits(folder: Path) -> list[tuple[str, int, int]]:
    """Return, after each commit, the digest of reviews and samples, and how many samples and
    reviews there were; empty without any review.

    The digests are those of the chain, which was checked: they cover every sample that was given
    before.
    """
    return _read(folder, _commits, [])


def reviews_digests(folder: Path) -> list[str]:
    """Return the digests of `reviews_commits`."""
    return [digest for digest, *_ in reviews_commits(folder)]


def with_reviews(root: str, reviews: str | None) -> str:
    """Return the root of a run that experts have reviewed.

    Args:
        root: the root of the run alone.
        reviews: the digest of all reviews; None without any.
    """
    if reviews is None:
        return root
    return hasher(orjson.dumps([root, reviews])).hexdigest()


def stored_rooms(folder: Path) -> dict[str, dict[str, Any]]:
    """Return room -> its body, as `stored_reviews`."""
    return _read(folder, _rooms, {})


def stored_key(folder: Path) -> bytes:
    """Return the secret from which codes of cases are made, as `stored_reviews`."""
    about = "SELECT key, value FROM about"
    return _read(folder, lambda db: bytes.fromhex(dict(db.execute(about)).get("key", "")), b"")


def remove_reviews(folder: Path) -> None:
    """Remove the file of reviews: what it says is about the trials of a run that is removed."""
    for side in SIDES:
        (folder / f"{FILE}{side}").unlink(missing_ok=True)


def _commits(db: sqlite3.Connection) -> list[tuple[str, int, int]]:
    rows = db.execute(
        "SELECT hex(digest), rooms, verdicts FROM commits WHERE verdicts > 0 ORDER BY id"
    )
    return [(digest.lower(), rooms, reviews) for digest, rooms, reviews in rows]


def _rooms(db: sqlite3.Connection) -> dict[str, dict[str, Any]]:
    rows = db.execute("SELECT room, body FROM rooms ORDER BY room")
    return {room: _room(body) for room, body in rows}


def _read(folder: Path, work: Callable[[sqlite3.Connection], R], nothing: R) -> R:
    if not check_regular(folder / FILE):
        return nothing
    with reading(folder / FILE, REVIEWS) as db:
        # Without tables its maker was stopped before it made them.
        return nothing if db is None else work(db)
