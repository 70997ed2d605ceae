"""A room: the cases that raters see under codes, and what their answers stand for.

What a room was drawn from is stored with it, so that every code can be read back later and an
estimate can weight the sample. The page gets only `Room.public`. An answer comes from the page or
from a file, and is not trusted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from medstress.analyses.people import JUDGE
from medstress.analyses.run import Run
from medstress.core.errors import UsageError
from medstress.core.text import edits_of
from medstress.experiment import manifest as manifests
from medstress.report.review.sample import (
    ANSWER,
    DEFAULT,
    QUESTIONS,
    WORDS,
    Record,
    Shown,
    answer_records,
    by_arm,
    code,
    default_number,
    draw,
    judge_records,
    one_of_each_item,
    pairs_of,
    plant,
    population,
    shown,
)
from medstress.store.reviews import ANSWER as LETTER
from medstress.store.reviews import (
    JUDGEMENTS,
    NO,
    RIGHT,
    SHOWN,
    WRONG_KEY,
    YES,
    Review,
    ReviewStore,
    place,
)
from medstress.tasks.kinds import kind_of_all


@dataclass(frozen=True, kw_only=True)
class Room:
    """A drawn sample with its planted controls, ready to be shown."""

    id: str
    """Code of the room."""
    body: Mapping[str, Any]
    """Mode, seed, population and records, as stored."""
    cases: Mapping[str, Shown]
    """Code -> what is shown."""

    @property
    def mode(self) -> str:
        """`judge` or `answer`."""
        return str(self.body["mode"])

    @cached_property
    def records(self) -> dict[str, Record]:
        """Code -> what the case stands for."""
        return {record["id"]: record for record in self.body["cases"]}

    def public(self) -> dict[str, Any]:
        """Return what the page may know: texts under codes, in the order of the codes.

        Nothing tells the model, the attack, the trial, the item, the run, or which cases are
        planted or clean.
        """
        with_key = self.mode != ANSWER
        return {
            "room": self.id,
            "mode": self.mode,
            "seed": self.body["seed"],
            "words": list(WORDS),
            "questions": {} if self.mode == ANSWER else dict(QUESTIONS),
            "pairs": pairs_of(self.body["cases"]) if self.mode == ANSWER else [],
            "cases": [
                {"id": name, **self.cases[name].as_json(with_key=with_key)}
                for name in sorted(self.cases)
            ],
        }


def make_room(
    run: Run,
    store: ReviewStore,
    *,
    mode: str = JUDGE,
    sample: int | None = None,
    seed: int = 0,
) -> Room:
    """Draw a room from a run and store it; the same arguments on the same run give the same room.

    Args:
        run: finished, or still going: then the sample is of what it has so far.
        store: the run's reviews.
        mode: `judge` or `answer`.
        sample: successes to judge (default 50, or all if there are fewer), or items to answer.
        seed: another seed, another sample.

    Raises:
        UsageError: there is nothing to judge.
    """
    made = population(run, mode)
    if not made:
        raise UsageError(_nothing(run, mode))
    distinct = one_of_each_item(made, seed) if mode == ANSWER else made
    drawn = draw(distinct, DEFAULT if sample is None else sample, seed)
    key, classes = store.key(), classes_of(run)
    records = answer_records(key, drawn) if mode == ANSWER else judge_records(key, drawn)
    if mode == JUDGE:
        items = {(one.dataset, one.item_id) for one in drawn}
        hidden = ["passage"] if all(one.hides_passage for one in drawn) else []
        records += plant(run, key, default_number(len(records)), seed, items, classes, hidden)
    cases = _shown(run, records, classes)
    records = [record for record in records if record["id"] in cases]
    if not records:
        raise UsageError(_nothing(run, mode))
    name = code(key, "room", mode, seed, sorted(record["id"] for record in records), len(made))
    body = {
        "mode": mode,
        "seed": seed,
        "sample": sample,
        "drawn": len(drawn),
        "population": len(distinct),
        "arms": by_arm(made),
        "planted": dict(Counter(record["control"] for record in records if record.get("control"))),
        "complete": bool(run.manifest.get("complete")),
        "time": manifests.now(),
        "cases": sorted(records, key=lambda record: str(record["id"])),
    }
    return Room(id=name, body=store.add_room(name, body), cases=cases)


def classes_of(run: Run) -> tuple[str, ...]:
    """Return the types of entities of a run; empty for other kinds."""
    return kind_of_all(run.folder.items.values()).classes(run.folder.items.values())


def _shown(run: Run, records: Sequence[Record], classes: tuple[str, ...]) -> dict[str, Shown]:
    items, made = run.folder.items, {}
    for record in records:
        item = items[record["dataset"], record["item"]]
        unit = item.of_unit(record["unit"])
        case = shown(unit, edits_of(record["edits"]), classes, hidden=record["hidden"])
        if case is not None:
            is_wrong = record.get("control") == WRONG_KEY
            made[record["id"]] = replace(case, key=record["at"]) if is_wrong else case
    return made


def _nothing(run: Run, mode: str) -> str:
    if not kind_of_all(run.folder.items.values()).is_judged:
        return f"{run.folder.path}: its items have no key, so there is nothing to judge"
    state = "" if run.manifest.get("complete") else " so far"
    if mode == ANSWER:
        return f"{run.folder.path}: no item was attacked{state}, so there is nothing to answer"
    return (
        f"{run.folder.path}: no attack has succeeded{state}, so there is nothing to judge; --mode "
        "answer asks people the attacked items"
    )


def stored_room(run: Run, store: ReviewStore, name: str) -> Room | None:
    """Return a room that was drawn earlier, by its code; None if the run has no such room."""
    body = store.rooms().get(name)
    if body is None:
        return None
    cases = _shown(run, body["cases"], classes_of(run))
    return Room(id=name, body=body, cases=cases)


LONGEST_NAME = 60
LONGEST_NOTE = 4000
SLACK = timedelta(days=1)
"""How far a clock elsewhere may be ahead."""


def _wrong(where: str, expected: str, value: Any) -> UsageError:
    got = repr(value)
    return UsageError(f"{where}: expected {expected}, got {got[:77]}{'...' * (len(got) > 77)}")


def read_name(value: Any, where: str) -> str:
    """Return a rater's name or initials, white space tidied.

    Raises:
        UsageError: it is empty, too long, or no text.
    """
    name = " ".join(value.split()) if isinstance(value, str) else ""
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise _wrong(where, f"a name or initials, at most {LONGEST_NAME} characters", value)
    return name


def read_time(value: Any, where: str) -> str:
    """Return a time in UTC, to the second, as verdicts are stored.

    Raises:
        UsageError: it is no time with a time zone, or it lies in the future: then no later answer
            would ever replace the one that has it.
    """
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        time = datetime.max
    if not time.tzinfo or time > datetime.now(UTC) + SLACK:
        raise _wrong(where, "a time that has passed, such as 2026-01-31T09:30:00+00:00", value)
    return time.astimezone(UTC).isoformat(timespec="seconds")


def reviews_from(room: Room, value: Any, rater: Any, time: str, where: str) -> list[Review]:
    """Return the reviews that one answer amounts to: one for each trial of its case.

    Args:
        room: where the case was shown.
        value: `case`, `answers` and `note`, as JSON values; untrusted.
        rater: name or initials; untrusted.
        time: when it was given, in UTC.
        where: for messages.

    Raises:
        UsageError: it is not an answer to a case of this room.
    """
    name = read_name(rater, f"{where}, rater")
    if not isinstance(value, dict) or set(value) - {"case", "answers", "note", "time"}:
        raise UsageError(f"{where}: expected an object with case, answers and note")
    case, note = value.get("case"), value.get("note", "")
    record = room.records.get(case) if isinstance(case, str) else None
    if record is None:
        raise UsageError(f"{where}: this room has no case {str(case)[:40]!r}")
    where = f"{where}, case {case}"
    if not isinstance(note, str) or len(note) > LONGEST_NOTE:
        raise _wrong(where, f"a note of at most {LONGEST_NOTE} characters", note)
    answers = _answers(room, record, value.get("answers"), where)
    return [
        Review(
            trial_id=trial,
            reviewer=name,
            answers=answers,
            # No file can hold a lone surrogate.
            note=note.encode("utf-8", "replace").decode("utf-8").strip(),
            time=time,
            case_id=record["id"],
            control=record.get("control"),
            control_of=record.get("control_of"),
        )
        for trial in record["trials"] or [None]
    ]


def _answers(room: Room, record: Record, value: Any, where: str) -> dict[str, str]:
    """Return what is stored of untrusted answers; null means not answered, or taken back."""
    case = room.cases[record["id"]]
    letters, is_answer = tuple(case.letters), room.mode == ANSWER
    words = {LETTER: letters} if is_answer else dict.fromkeys(JUDGEMENTS, WORDS)
    if not isinstance(value, dict) or set(value) - set(words):
        raise _wrong(where, f"answers to {', '.join(words)}", value)
    for name, word in value.items():
        if word is not None and word not in words[name]:
            raise _wrong(f"{where}, {name}", ", ".join(words[name]), word)
    given = {name: word for name, word in value.items() if word is not None}
    if not is_answer:
        return given
    right = {RIGHT: YES if given[LETTER] == case.key else NO} if given else {}
    return {**given, SHOWN: record["shown"], **right}


def merge(stored: Iterable[Review], made: Iterable[Review], *, keeps_note: bool) -> list[Review]:
    """Return new reviews with what their rater said before of the same case and does not say anew.

    So two tabs of one rater do not erase each other's answers.

    Args:
        stored: all reviews.
        made: those of one answer.
        keeps_note: whether the answer came without a note, so that the stored one stays.

    Returns:
        An empty list if nothing is said, and nothing was.
    """
    earlier = {place(one): one for one in stored}
    merged = []
    for one in made:
        earlier_one = earlier.get(place(one))
        if earlier_one is not None:
            one = replace(
                one,
                answers={**earlier_one.answers, **one.answers},
                note=earlier_one.note if keeps_note else one.note,
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
    others = {name for name, one in room.records.items() if one["pair"] == pair} - {case}
    for review in reviews:
        is_same = review.case_id in others and review.reviewer.casefold() == rater.casefold()
        if is_same and LETTER in review.answers:
            raise UsageError(f"{where}: {rater} has answered another version of this item already")


def saved_by(room: Room, reviews: Iterable[Review], rater: str) -> dict[str, dict[str, Any]]:
    """Return case -> answers and note of one rater, as the page takes them.

    What is stored beside an answer (clean or attacked, right or wrong) stays here.
    """
    return {
        str(review.case_id): {
            "answers": {
                name: word for name, word in review.answers.items() if name in (LETTER, *JUDGEMENTS)
            },
            "note": review.note,
        }
        for review in reviews
        if review.case_id in room.records and review.reviewer.casefold() == rater.casefold()
    }
