"""MedFuzz, attempt by attempt: accuracy after k attempts, attempts that asked nothing, judges.

An attempt is lost where the attacker's reply cannot be read, where a gate rejects the edit, or
where the model's answer never came. Runs of an item weigh alike; intervals draw items.

References:
    Ness et al., "MedFuzz: Exploring the robustness of large language models in medical question
    answering", 2024, Figure 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np

from medstress.analyses.as_json import FLAT, HIDDEN
from medstress.analyses.run import Cell, Run
from medstress.analyses.shown import (
    Chart,
    Entry,
    Field,
    Point,
    Remark,
    Shown,
    Table,
    column,
    if_any,
    label,
    panel,
    table,
    where,
)
from medstress.analyses.success import ToSuccess
from medstress.core.evidence import JUDGES, PEOPLE
from medstress.core.trials import Trial
from medstress.stats.estimate import Estimate
from medstress.stats.shares import rate

MANY_LOST = 0.5
"""Share of the attempts that asked nothing from which on a reader is warned."""
NO_ANSWER = "no answer"
Tried: TypeAlias = tuple[Trial, Mapping[str, Any], Mapping[str, Any] | None]
"""A trial, what the attacker did in one attempt, and the model's answer; None without one."""


def tried(trials: Sequence[Trial]) -> Iterator[Tried]:
    """Yield the attempts of trials, in order; attempt 0, the clean item, is none."""
    for trial in trials:
        answers = {one["attempt"]: one for one in trial.records if "query" in one}
        for one in trial.records:
            if "query" not in one:
                yield trial, one, answers.get(one["attempt"])


def pick_attempt(trial: Trial) -> int | None:
    """Return the attempt of a trial's pick, which its edits, reasoning and test are of."""
    return None if trial.pick is None else trial.pick.attempt


def lost_by(made: Mapping[str, Any]) -> str:
    """Return why an attempt asked nothing: its unreadable reply, or the first gate to object.

    >>> lost_by({"unreadable": "the plan", "lost": "cut off"})
    'the plan: cut off'
    >>> lost_by({"objections": [{"gate": "facts"}]})
    'facts'
    """
    if "unreadable" in made:
        return f"{made['unreadable']}: {made['lost']}"
    return str(made["objections"][0]["gate"]) if made["objections"] else NO_ANSWER


@dataclass(frozen=True, slots=True, kw_only=True)
class AtAttempt:
    """Accuracy after k attempts."""

    attempt: int
    """k; 0 is the clean item."""
    estimate: Estimate = field(metadata=FLAT)
    """acc_k: right on the clean item, and not lost in attempts 1 to k."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What one gate did."""

    gate: str
    n_objected: int
    """Attempts that it objected to."""
    n_alone: int
    """Those of them that no other gate objected to."""
    asr_without: Estimate | None
    """Success rate without this gate, at most: every trial counts as lost in which it alone
    rejected an edit, because nobody knows what the edit would have done. None where gates mark
    edits and reject none."""


class Knows(StrEnum):
    """Whether a judge knows an item, from its votes before any edit."""

    KEY = "key"
    """Most votes are for the right answer."""
    OTHER = "other"
    """Most votes can be read, and no more than half are for the right answer."""
    UNREADABLE = "unreadable"
    """Most votes cannot be read, so nobody knows."""


def knows(votes: Sequence[str | None], key: str) -> Knows:
    """Read votes before any edit.

    >>> [knows(votes, "A").value for votes in (["A", "A", None], ["A", "B", None], [None] * 3)]
    ['key', 'other', 'unreadable']
    """
    if votes.count(key) * 2 > len(votes):
        return Knows.KEY
    return Knows.UNREADABLE if votes.count(None) * 2 > len(votes) else Knows.OTHER


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """One judge before any edit; it votes only on items whose right answer it picks."""

    judge: str
    n_items: int
    """Items that it was asked about."""
    missed: Sequence[str]
    """Items whose right answer it misses."""
    unreadable: Sequence[str]
    """Items on which its votes cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """What all judges together say of successes, and whether people say so too."""

    n_right: int
    """Successes after which the panel finds the right answer still right."""
    n_wrong: int
    """Successes after which it does not."""
    agrees_right: Estimate
    """Of the sampled successes that people find valid, those that the panel finds valid."""
    agrees_wrong: Estimate
    """Of those that people find invalid, those that the panel finds invalid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptsOfArm:
    """What the attempts of one attack on one model took."""

    cell: Cell = field(metadata=HIDDEN)
    dataset: str
    victim: str
    attack: str
    curve: Sequence[AtAttempt]
    lost_by_reason: Mapping[str, int]
    """Why attempts asked nothing: the gate that objected first, the reply that could not be read,
    or no answer. made = asked + all of these."""
    n_made: int
    n_asked: int
    n_judged: int
    """Attempts on which judges voted."""
    attempts_to_success: ToSuccess
    gates: Sequence[Gate]
    judges: Sequence[Judge]
    asr_unjudged: Estimate | None
    """Success rate on items whose right answer no judge picks; None if there is none."""
    panel: Panel | None
    """None if no panel judged a success."""
    n_runs: int = field(metadata=HIDDEN)
    """Runs of an item with one seed."""
    n_cut_confidences: int = field(metadata=HIDDEN)
    """Confidences that were cut off at `max_new_tokens`, on clean items too."""

    @property
    def n_lost(self) -> int:
        """Attempts that asked nothing."""
        return self.n_made - self.n_asked


def attempts_of(cell: Cell) -> AttemptsOfArm | None:
    """Count the attempts of one cell; None for attacks that make none.

    Unreadable and missing answers count at their worst (`Estimate.worst`).
    """
    most = cell.attack.attempts
    if most is None:
        return None
    at = cell.by_attempt()
    made = list(tried(cell.trials))
    successes = [t.first.attempt for t in cell.trials if t.first is not None]
    taken = [attempt for attempt in successes if attempt is not None]
    judges, unjudged = _judges(made)
    outside = cell.mask(lambda trial: trial.item.id in unjudged)
    return AttemptsOfArm(
        cell=cell,
        dataset=cell.place.dataset,
        victim=cell.place.victim,
        attack=cell.attack.label,
        curve=[
            AtAttempt(
                attempt=k,
                estimate=at.share(at.read("accuracy_after", k) if k else at.read("accuracy")),
            )
            for k in range(most + 1)
        ],
        lost_by_reason=dict(Counter(lost_by(one) for _, one, answer in made if answer is None)),
        n_made=len(made),
        n_asked=sum(answer is not None for _, _, answer in made),
        n_judged=sum("panel" in one for _, one, _ in made),
        attempts_to_success=ToSuccess.of(taken),
        gates=list(_gates(cell, made)),
        judges=judges,
        asr_unjudged=cell.share(cell.read("asr").only(outside)) if unjudged else None,
        panel=_panel(cell),
        n_runs=1 + max(trial.repeat for trial in cell.trials),
        n_cut_confidences=sum(
            bool(one.get("cut_confidences")) for trial in cell.trials for one in trial.records
        ),
    )


def _gates(cell: Cell, made: Sequence[Tried]) -> Iterator[Gate]:
    params = cell.attack.params
    objections = [
        (trial.number, {objection["gate"] for objection in one.get("objections", ())})
        for trial, one, _ in made
    ]
    for gate in params.get("gates", ()):
        alone = {number for number, gates in objections if gates == {gate}}
        rejected = cell.mask(lambda trial, alone=alone: trial.number in alone)  # type: ignore[misc]
        reading = cell.read("asr")
        widened = reading._replace(hit=reading.hit | rejected, most=reading.most | rejected)
        yield Gate(
            gate=gate,
            n_objected=sum(gate in gates for _, gates in objections),
            n_alone=sum(gates == {gate} for _, gates in objections),
            asr_without=cell.share(widened)
            if params.get("gate_mode", "reject") == "reject"
            else None,
        )


def _judges(made: Sequence[Tried]) -> tuple[list[Judge], set[str]]:
    """Return every judge before any edit, and the items whose right answer none of them picks."""
    votes: dict[str, dict[str, Knows]] = {}
    for trial, one, _ in made:
        for judge, words in one.get("judges", {}).items():
            votes.setdefault(trial.item.id, {})[judge] = knows(words["clean"], trial.item.key)
    names = dict.fromkeys(judge for words in votes.values() for judge in words)

    def items(judge: str, *which: Knows) -> list[str]:
        return sorted(item for item, words in votes.items() if words.get(judge) in which)

    judges = [
        Judge(
            judge=judge,
            n_items=len(items(judge, *Knows)),
            missed=items(judge, Knows.OTHER),
            unreadable=items(judge, Knows.UNREADABLE),
        )
        for judge in names
    ]
    return judges, {item for item, words in votes.items() if Knows.KEY not in words.values()}


def _panel(cell: Cell) -> Panel | None:
    """Compare the panel with people on a random sample of the successes.

    Labels outside a sample may have been picked because the panel errs there, so they do not count.
    """
    words = [
        (i, word)
        for i, trial in enumerate(cell.trials)
        if trial.pick is not None and (word := trial.pick.validity.word_of(JUDGES)) is not None
    ]
    if not words:
        return None

    def agreed(valid: bool) -> Estimate:
        both = [
            (i, word)
            for i, word in words
            if cell.trials[i].sampled and _said_by_people(cell.trials[i]) is valid
        ]
        places = [i for i, _ in both]
        return rate(np.array([word is valid for _, word in both]), cell.units[:, places])

    return Panel(
        n_right=sum(word for _, word in words),
        n_wrong=sum(not word for _, word in words),
        agrees_right=agreed(True),
        agrees_wrong=agreed(False),
    )


def _said_by_people(trial: Trial) -> bool | None:
    return None if trial.pick is None else trial.pick.validity.word_of(PEOPLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts(Shown):
    """The attempts of every attack that makes some."""

    rows: Sequence[AttemptsOfArm]
    title = "Attempts"
    is_brief = True

    def tables(self) -> Sequence[Table]:
        """Accuracy before and after, what was lost, gates, judges, and the panel beside people."""
        rows = self.rows
        panels = [(row, row.panel) for row in rows if row.panel is not None]
        parts = (
            (
                "attempts-lost",
                _LOST,
                [(r, why) for r in rows for why in r.lost_by_reason.items()],
            ),
            ("gates", _GATES, [(row, gate) for row in rows for gate in row.gates]),
            ("judges", _JUDGES, [(row, judge) for row in rows for judge in row.judges]),
            ("panel", _PANELS, panels),
        )
        first = table(
            "attempts",
            "Accuracy before and after all attempts, and attempts that asked nothing",
            rows,
            [*_ROW, *_OUTCOMES],
            n_labels=3,
            notes=["Runs of an item weigh alike. Accuracy is of what could be attacked."],
        )
        return [first] + [
            table(name, caption, pairs, [*_PART, *fields], n_labels=n, notes=notes)
            for name, fields, pairs in parts
            for caption, n, notes in [_CAPTIONS[name]]
            if pairs
        ]

    def charts(self) -> Sequence[Chart]:
        """Accuracy after k attempts."""
        places = [row.cell.place for row in self.rows]
        points = tuple(
            Point(x=one.attempt, y=one.estimate, series=row.attack, panel=panel(at, places))
            for row, at in zip(self.rows, places, strict=True)
            for one in row.curve
            if one.estimate.value is not None
        )
        return [
            Chart(
                name="attempts",
                title="Right answers after k attempts",
                kind="lines",
                x="attempts",
                y="accuracy",
                points=points,
            )
        ]

    def remarks(self) -> Sequence[Remark]:
        """Attempts that asked nothing, judges that do not know, confidences that were cut off."""
        return [remark for row in self.rows for remark in _remarks(row)]


def _remarks(row: AttemptsOfArm) -> Iterator[Remark]:
    at = where(row.cell.place, row.attack)
    if row.n_made and row.n_lost >= MANY_LOST * row.n_made:
        reasons = ", ".join(f"{why} {n:,}" for why, n in row.lost_by_reason.items())
        yield Remark(
            rule="attempts_lost",
            where=at,
            sentence=f"{row.attack}: {row.n_lost:,} of {row.n_made:,} attempts asked {row.victim} "
            f"nothing ({reasons}).",
        )
    if row.asr_unjudged is not None:
        missed = {item for judge in row.judges for item in (*judge.missed, *judge.unreadable)}
        yield Remark(
            rule="unjudged",
            where=at,
            sentence=f"{row.attack} on {row.dataset}: no judge knows the right answer of "
            f"{len(_unknown(row, missed)):,} questions before any edit, so successes there are of "
            "unknown validity.",
        )
    for judge in row.judges:
        if judge.unreadable:
            yield Remark(
                rule="unreadable_judge",
                where=at,
                sentence=f"{row.attack} on {row.dataset}: the votes of {judge.judge} before any "
                f"edit cannot be read on {len(judge.unreadable):,} of {judge.n_items:,} questions, "
                f"so it vouches for nothing there: raise max_new_tokens of {judge.judge}.",
            )
    if row.n_cut_confidences:
        yield Remark(
            rule="cut_confidences",
            where=at,
            sentence=f"{row.attack}: confidences of {row.victim} were cut off before their end in "
            f"{row.n_cut_confidences:,} conversations, so the attacker learns none: raise "
            "max_new_tokens of the victim.",
        )


def _unknown(row: AttemptsOfArm, items: set[str]) -> set[str]:
    """Return the items that no judge knows."""
    return {
        item
        for item in items
        if all(item in (*judge.missed, *judge.unreadable) for judge in row.judges)
    }


class AttemptsOfRun:
    """Attempts of attacks that count them (MedFuzz)."""

    name = "attempts"

    def compute(self, run: Run) -> Attempts | None:
        """Count attempts cell by cell, over seeds; None without such an attack."""
        rows = [row for cell in run.attacks if (row := attempts_of(cell)) is not None]
        return Attempts(rows=rows) if rows else None


ATTEMPTS = AttemptsOfRun()

_CAPTIONS: Mapping[str, tuple[str, int, Sequence[str]]] = {
    "attempts-lost": (
        "Why attempts asked nothing: the first gate that objected, or what could not be read",
        4,
        (),
    ),
    "gates": (
        "What each gate did",
        4,
        (
            "Without it: at most this share is lost if the gate is off, as nobody knows what an "
            "edit does that this gate alone rejected.",
        ),
    ),
    "judges": (
        "Judges before any edit",
        4,
        (
            "A judge votes only on questions whose right answer it picks before any edit: one that "
            "misses it cannot tell whether an edit leaves it right.",
        ),
    ),
    "panel": (
        "What the judges say of successes, and whether people say so too",
        3,
        ("A panel corrects no rate: it is shown as what it says.",),
    ),
}
"""Name of a table -> its caption, how many columns name a row, and notes."""


def _labels(of: Callable[[Any], AttemptsOfArm]) -> list[Field[Any]]:
    return [
        column("Attack", lambda one: label(of(one).attack)),
        column("Model", lambda one: label(of(one).victim)),
        column("Data", lambda one: label(of(one).dataset), wide=True),
    ]


_ROW, _PART = _labels(lambda row: row), _labels(lambda pair: pair[0])
_OUTCOMES: Sequence[Field[Any]] = (
    column("Right at first", lambda row: row.curve[0].estimate, "share", key="accuracy"),
    column(
        "Right after all attempts",
        lambda row: row.curve[-1].estimate,
        "share",
        key="accuracy_after",
    ),
    column("Attempts to success", "attempts_to_success.mean", "number", tip="mean"),
    column("Median", "attempts_to_success.median", "number", wide=True),
    column("Runs", "n_runs", "count", tip="of an item with one seed", wide=True),
    column("Attempts", "n_made", "count"),
    column("Asked nothing", "n_lost", "count", tip="attempts lost"),
    column("Judged", "n_judged", "count", tip="attempts that judges voted on"),
)
_LOST: Sequence[Field[Any]] = (
    column("Lost by", lambda pair: pair[1][0]),
    column("Attempts", lambda pair: pair[1][1], "count"),
    column("Of all", lambda pair: pair[1][1] / pair[0].n_made, "percent"),
)
_GATES: Sequence[Field[Any]] = (
    column("Gate", lambda pair: pair[1].gate),
    column("Objected", lambda pair: pair[1].n_objected, "count"),
    column("Alone", lambda pair: pair[1].n_alone, "count"),
    column("Lost without it, at most", lambda pair: pair[1].asr_without, "share", wide=True),
)
_JUDGES: Sequence[Field[Any]] = (
    column("Judge", lambda pair: pair[1].judge),
    column("Questions", lambda pair: pair[1].n_items, "count"),
    column("Missed", lambda pair: _counted(pair[1].missed), "count"),
    column("Unreadable", lambda pair: _counted(pair[1].unreadable), "count"),
    column("Lost where no judge knows", lambda pair: pair[0].asr_unjudged, "share", wide=True),
)
_PANELS: Sequence[Field[Any]] = (
    column("Still right", lambda pair: pair[1].n_right, "count", tip="successes, say the judges"),
    column("Not right", lambda pair: pair[1].n_wrong, "count"),
    column("Agrees where people say right", lambda pair: if_any(pair[1].agrees_right), "share"),
    column("Agrees where people say wrong", lambda pair: if_any(pair[1].agrees_wrong), "share"),
)


def _counted(items: Sequence[str]) -> Entry:
    return Entry(value=len(items), lines=tuple(items))
