"""Runs whose truth is planted: trials made by hand, read as any run is.

For tests of what is concluded: counts, intervals, verdicts. Nothing is asked and nothing is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log
from pathlib import Path
from typing import Any

from medstress.analyses.run import Run
from medstress.core.arms import Arm, AttackRecord, Place
from medstress.core.items import Question
from medstress.core.outcomes import Verdict
from medstress.core.text import Edit
from medstress.core.trials import UNKNOWN, Answer, Queries, Success, Trial, Validity
from medstress.store.inquiries import StoredInquiry
from medstress.store.reviews import Review

PLACE = Place("cases", "drugs", "model")
NEAR = AttackRecord(
    label="near names",
    name="entity_substitution",
    budget=8,
    params={"name": "entity_substitution", "sampler": "pdws", "n": -20, "budget": 8},
    draws_names=True,
)


def arm(
    attack: AttackRecord = NEAR,
    seed: int | None = 0,
    control_of: str | None = None,
    **place: str,
) -> Arm:
    """Return an arm; `dataset`, `group` and `victim` say where."""
    return Arm(place=PLACE._replace(**place), attack=attack, seed=seed, control_of=control_of)


def control(name: str = "no_op", of: Arm | None = None) -> Arm:
    """Return the control arm of an attack."""
    attacked = of or arm()
    label = f"{attacked.attack.label} / {name}"
    record = AttackRecord(
        label=label,
        name=name,
        budget=attacked.attack.budget,
        params={"name": name, "control_of": dict(attacked.attack.params)},
    )
    return Arm(
        place=attacked.place, attack=record, seed=attacked.seed, control_of=attacked.attack.label
    )


def question(number: int, key: str = "A", n_options: int = 4, document: str = "") -> Question:
    """Return a made-up question; its options are drug names of its own."""
    return Question(
        id=f"q{number}",
        stem=f"Which drug is right in case {number}?",
        options=tuple(f"drug {number} {letter}" for letter in "ABCDEFGHIJ"[:n_options]),
        key=key,
        metadata={"document": document} if document else {},
    )


def edit(name: str = "other drug", option: str = "B") -> Edit:
    """Return an edit that replaces the beginning of an option."""
    return Edit(field=option, start=0, end=4, replacement=name)


def trial(
    number: int,
    at: Arm | None = None,
    *,
    verdict: Verdict = Verdict.HELD,
    flipped_at: int | None = None,
    asked: int | None = None,
    unreadable: int = 0,
    failed: int = 0,
    unchanged: int = 0,
    rejected: int = 0,
    name: str = "other drug",
    valid: bool | None = None,
    reason: str | None = None,
    p_before: float = 0.7,
    p_after: float = 0.2,
    item: Any = None,
    cluster: str | None = None,
    repeat: int = 0,
    **rest: Any,
) -> Trial:
    """Return one trial on a question.

    Args:
        number: of the question.
        at: the arm; default: near names, seed 0.
        verdict: how it ended; `flipped_at` makes it flipped.
        flipped_at: query of the first success.
        asked: perturbed queries; default: up to the success, or the budget.
        unreadable: of these, answers that could not be read.
        failed: of these, calls that failed.
        unchanged: of these, queries that put the same text in.
        rejected: attempts that gates took away.
        name: what the success put in.
        valid: whether the right answer stays right after it.
        reason: who says so.
        p_before: P(right answer) on the clean item.
        p_after: P(right answer) in the last or the successful answer.
        item: another item.
        cluster: its document; default: the item.
        repeat: number of the repeat.
        rest: further fields of the trial.
    """
    where, asks = at or arm(), item or question(number)
    if flipped_at is not None:
        verdict = Verdict.FLIPPED
    attacked = verdict in (Verdict.FLIPPED, Verdict.HELD, Verdict.CUT_SHORT, Verdict.FAILED)
    n = asked if asked is not None else (flipped_at or where.attack.budget) * attacked
    success = None
    if flipped_at is not None:
        success = Success(
            query=flipped_at,
            edits=(edit(name),),
            answer=_answer(asks, "B", p_after),
            validity=UNKNOWN if valid is None and reason is None else Validity(valid, reason),
        )
    key = getattr(asks, "key", "A")  # tagged texts and pairs have none
    right = verdict is not Verdict.ALREADY_WRONG
    before = _answer(asks, key if right else "B", p_before)
    known = verdict not in (Verdict.NOT_ATTACKABLE, Verdict.UNREADABLE)
    fields: dict[str, Any] = {
        "id": f"{where.place}{where.attack.label}{where.seed}{asks.id}{repeat}",
        "number": number,
        "arm": where,
        "item": asks,
        "cluster": cluster or asks.id,
        "repeat": repeat,
        "verdict": verdict,
        "before": before if known else None,
        "first": success,
        "pick": success,
        "last": success.answer if success else (_answer(asks, key, p_after) if n else None),
        "edits": success.edits if success else (),
        "queries": Queries(
            asked=n,
            paid=n - failed,
            failed=failed,
            unreadable=unreadable,
            unchanged=unchanged,
            rejected=rejected,
        ),
        "at": "attack" if verdict in (Verdict.CUT_SHORT, Verdict.FAILED) else None,
    }
    return Trial(**{**fields, **rest})


def _answer(item: Any, letter: str, p: float) -> Answer:
    letters = getattr(item, "letters", "")
    if not letters:
        return Answer(letter)
    other = (1 - p) / (len(letters) - 1)
    return Answer(letter, tuple(log(p if x == item.key else other) for x in letters), 0.9)


@dataclass(kw_only=True)
class Planted:
    """What a run folder would hold (`medstress.store.trials.Folder`)."""

    trials: Sequence[Trial]
    manifest: Mapping[str, Any]
    path: Path = Path("runs/planted")
    items: Mapping[tuple[str, str], Any] = field(default_factory=dict)
    inquiries: Sequence[StoredInquiry] = ()
    reviews: Sequence[Review] = ()
    rooms: Sequence[Mapping[str, Any]] = ()
    other_counts: Mapping[Any, Mapping[str, int]] = field(default_factory=dict)
    role_counts: Mapping[Any, Any] = field(default_factory=dict)
    spending: Sequence[Any] = ()
    totals: Mapping[str, int] = field(default_factory=dict)
    n_from_cache: int = 0
    calls_per_query: Mapping[str, float] = field(default_factory=dict)
    doubt: str | None = None
    root: str | None = "0" * 32
    edits: Mapping[int, Sequence[tuple[int, tuple[Edit, ...]]]] = field(default_factory=dict)
    names: Mapping[int, frozenset[str]] = field(default_factory=dict)


def planted_run(trials: Iterable[Trial], /, **parts: Any) -> Run:
    """Return a run of made-up trials; their numbers are their places.

    Args:
        trials: in the plan's order.
        parts: entries of the manifest, or other fields of `Planted`.
    """
    numbered = [replace(one, number=i + 1) for i, one in enumerate(trials)]
    own = {name: parts.pop(name) for name in list(parts) if name in Planted.__dataclass_fields__}
    attacks = {one.arm.attack.label: dict(one.arm.attack.params) for one in numbered}
    manifest = {
        "config": {"experiment": {"name": "planted"}},
        "fingerprint": "planted",
        "complete": True,
        "seeds": sorted({t.arm.seed for t in numbered if t.arm.seed is not None}),
        "versions": {},
        "started": "2026-01-01T00:00:00+00:00",
        "finished": "2026-01-01T00:01:00+00:00",
        "n_planned": len(numbered),
        "attacks": attacks,
        "datasets": {},
        "groups": {},
        "victims": {t.arm.place.victim: {} for t in numbered},
        "performance": {},
        **parts,
    }
    items = {(t.arm.place.dataset, t.item.id): t.item for t in numbered}
    return Run(Planted(**{"trials": numbered, "manifest": manifest, "items": items, **own}))
