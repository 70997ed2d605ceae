"""A room: the cases that raters see under codes, and what their answers stand for.

What a room was drawn from is stored with it, so that every code can be read back later and an
estimate can weight the sample. The page gets only `Room.public`. The adjudicator's room holds the
cases on which raters disagree, with judgements and without names.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from medstress.analyses.people import JUDGE, Settled, settled
from medstress.analyses.run import Run
from medstress.core.errors import UsageError
from medstress.core.text import edits_of
from medstress.experiment.plan import manifest as manifests
from medstress.report.review.controls import default_number, plant
from medstress.report.review.sample import (
    ADJUDICATE,
    ANSWER,
    DEFAULT,
    Record,
    answer_records,
    by_arm,
    code,
    draw,
    judge_records,
    one_of_each_item,
    pairs_of,
    population,
    record_of,
)
from medstress.report.review.shown import QUESTIONS, WORDS, Shown, planted, shown
from medstress.store.reviews import ADJUDICATOR, JUDGEMENTS, Review, ReviewStore
from medstress.tasks.kinds import Kind, kind_of_all


@dataclass(frozen=True, kw_only=True)
class Room:
    """A drawn sample with its planted controls, ready to be shown."""

    id: str
    """Code of the room."""
    body: Mapping[str, Any]
    """Mode, seed, population and records, as stored."""
    cases: Mapping[str, Shown]
    """Code -> what is shown."""
    disputed: Mapping[str, Mapping[str, Any]]
    """Code -> what raters said, for the adjudicator; empty in other modes."""

    @property
    def mode(self) -> str:
        """`judge`, `answer` or `adjudicate`."""
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
                {
                    "id": name,
                    **self.cases[name].as_json(with_key=with_key),
                    **self.disputed.get(name, {}),
                }
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
    controls: int | None = None,
) -> Room:
    """Draw a room from a run and store it; the same arguments on the same run give the same room.

    Args:
        run: finished, or still going: then the sample is of what it has so far.
        store: the run's reviews.
        mode: `judge` or `answer`.
        sample: successes to judge (default 50, or all if there are fewer), or items to answer.
        seed: another seed, another sample.
        controls: planted controls of each sort in mode `judge`; default a tenth of the cases.

    Raises:
        UsageError: there is nothing to judge, or a number is wrong.
    """
    found = population(run, mode)
    if not found:
        raise UsageError(_nothing(run, mode))
    if mode == ANSWER and controls:
        raise UsageError("--controls: controls are planted among cases to judge, not to answer")
    distinct = one_of_each_item(found, seed) if mode == ANSWER else found
    drawn = draw(distinct, DEFAULT if sample is None else sample, seed)
    key, classes = store.key(), classes_of(run)
    records = answer_records(key, drawn) if mode == ANSWER else judge_records(key, drawn)
    if mode == JUDGE:
        n = default_number(len(records)) if controls is None else controls
        items = {(one.dataset, one.item_id) for one in drawn}
        hidden = ["passage"] if all(one.hides_passage for one in drawn) else []
        records += plant(run, key, n, seed, items, classes, hidden)
    cases = _shown(run, records, classes)
    records = [record for record in records if record["id"] in cases]
    if not records:
        raise UsageError(_nothing(run, mode))
    name = code(key, "room", mode, seed, sorted(record["id"] for record in records), len(found))
    body = {
        "mode": mode,
        "seed": seed,
        "sample": sample,
        "drawn": len(drawn),
        "population": len(distinct),
        "arms": by_arm(found),
        "planted": _planted(records),
        "complete": bool(run.manifest.get("complete")),
        "time": manifests.now(),
        "cases": sorted(records, key=lambda record: str(record["id"])),
    }
    return Room(id=name, body=store.add_room(name, body), cases=cases, disputed={})


def classes_of(run: Run) -> tuple[str, ...]:
    """Return the types of entities of a run; empty for other kinds."""
    return _kind_of(run).classes(run.folder.items.values())


def _kind_of(run: Run) -> Kind:
    return kind_of_all(run.folder.items.values())


def _shown(run: Run, records: Sequence[Record], classes: tuple[str, ...]) -> dict[str, Shown]:
    items, found = run.folder.items, {}
    for record in records:
        item = items[record["dataset"], record["item"]]
        unit = item.of_unit(record["unit"])
        case = shown(unit, edits_of(record["edits"]), classes, hidden=record["hidden"])
        if case is not None:
            control = record.get("control")
            found[record["id"]] = (
                planted(case, control, record["at"], record["name"]) if control else case
            )
    return found


def _planted(records: Sequence[Record]) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for record in records:
        if record.get("control"):
            counts[record["control"]] += 1
    return dict(counts)


def _nothing(run: Run, mode: str) -> str:
    if not _kind_of(run).is_judged:
        return f"{run.folder.path}: its items have no key, so there is nothing to judge"
    state = "" if run.manifest.get("complete") else " so far"
    if mode == ANSWER:
        return f"{run.folder.path}: no item was attacked{state}, so there is nothing to answer"
    return (
        f"{run.folder.path}: no attack has succeeded{state}, so there is nothing to judge; --mode "
        "answer asks people the attacked items"
    )


def disputed_room(run: Run, store: ReviewStore) -> Room:
    """Return the cases on which raters disagree and nobody has decided yet, with what they said.

    Raises:
        UsageError: there is none.
    """
    key, classes = store.key(), classes_of(run)
    found = disputes(run, key)
    cases = _shown(run, [record for record, _ in found], classes)
    if not cases:
        raise UsageError(
            f"{run.folder.path}: raters disagree on no case, or every disagreement is decided; "
            "there is nothing to adjudicate"
        )
    records = [record for record, _ in found if record["id"] in cases]
    body = {"mode": ADJUDICATE, "seed": 0, "cases": records, "planted": {}}
    said = {record["id"]: words for record, words in found if record["id"] in cases}
    name = code(key, "room", ADJUDICATE, sorted(cases))
    return Room(id=name, body=body, cases=cases, disputed=said)


def stored_room(run: Run, store: ReviewStore, name: str) -> Room | None:
    """Return a room that was drawn earlier, by its code; None if the run has no such room."""
    body = store.rooms().get(name)
    if body is None:
        return None
    cases = _shown(run, body["cases"], classes_of(run))
    return Room(id=name, body=body, cases=cases, disputed={})


def disputes(run: Run, key: bytes) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return (record, what was said) of every case with an undecided disagreement, by its code.

    What was said: `ask`, the judgements to decide; `said`, how often each word was given; `notes`.

    Args:
        run: a run with reviews.
        key: secret of the codes.
    """
    reviews = run.folder.reviews
    by_judgement = {name: settled(reviews, name) for name in JUDGEMENTS}
    notes = _notes(reviews)
    records: dict[str, dict[str, Any]] = {}
    told: dict[str, dict[str, Any]] = {}
    for one in population(run, JUDGE):
        split = {
            name: found[one.trial_id]
            for name, found in by_judgement.items()
            if one.trial_id in found and _is_open(found[one.trial_id])
        }
        if not split:
            continue
        record = record_of(key, one)
        if (known := records.get(record["id"])) is not None:
            known["trials"].append(one.trial_id)
            continue
        records[record["id"]] = record
        told[record["id"]] = {
            "ask": list(split),
            "said": {name: dict(Counter(found.words)) for name, found in split.items()},
            "notes": sorted(notes[one.trial_id]),
        }
    return [(records[name], told[name]) for name in sorted(records)]


def _is_open(found: Settled) -> bool:
    return found.is_split and found.decided is None


def _notes(reviews: Sequence[Review]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for review in reviews:
        if review.trial_id is not None and review.note and review.role != ADJUDICATOR:
            found[review.trial_id].add(review.note)
    return found
