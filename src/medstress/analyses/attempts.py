"""MedFuzz, attempt by attempt: accuracy after k attempts, and attempts that asked nothing.

An attempt is lost where the attacker's reply cannot be read, where a gate rejects the edit, or
where the model's answer never came. Runs of an item weigh alike; intervals draw items.

References:
    Ness et al., "MedFuzz: Exploring the robustness of large language models in medical question
    answering", 2024, Figure 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from medstress.analyses.run import Analysis, Cell, Run
from medstress.analyses.shown import (
    FLAT,
    HIDDEN,
    Chart,
    Field,
    Point,
    Remark,
    Shown,
    Table,
    column,
    named,
    panel,
    table,
    where,
)
from medstress.analyses.success import ToSuccess
from medstress.core.trials import Trial
from medstress.stats.estimate import Estimate

LISTED = "lets about a sixth of clinical evidence through."
"""What the list misses of strangers' sentences, as docs/medfuzz.md has it."""
MANY_LOST = 0.5
"""Share of the attempts that asked nothing from which on a reader is warned."""
NO_ANSWER = "no answer"
Tried: TypeAlias = tuple[Trial, Mapping[str, Any], Mapping[str, Any] | None]
"""A trial, what is noted of one attempt, and the model's answer; None without one."""


def tried(trials: Sequence[Trial]) -> Iterator[Tried]:
    """Yield the attempts of trials, in order; attempt 0, the clean item, is none."""
    for trial in trials:
        notes: dict[int, dict[str, Any]] = {}
        answers = {one["attempt"]: one for one in trial.records if "query" in one}
        for one in trial.records:
            if "query" not in one and one["attempt"]:
                notes.setdefault(one["attempt"], {}).update(one)
        for attempt, made in notes.items():
            yield trial, made, answers.get(attempt)


def pick_attempt(trial: Trial) -> int | None:
    """Return the attempt of a trial's pick, which its edits, reasoning and test are of."""
    return None if trial.pick is None else trial.pick.attempt


def lost_by(made: Mapping[str, Any]) -> str:
    """Return why an attempt asked nothing: its unreadable reply, or the first gate to object.

    >>> lost_by({"unreadable": "the plan", "lost": "cut off"})
    'the plan: cut off'
    >>> lost_by({"objections": [{"gate": "facts"}]})
    'facts'
    >>> lost_by({"objections": [{"gate": "evidence"}], "evidence_by": "judge"})
    'evidence, says the judge'
    """
    if "unreadable" in made:
        cause = "no JSON object in the reply" if made["lost"] == "no JSON" else made["lost"]
        return f"{made['unreadable']}: {cause}"
    if not made.get("objections"):
        return NO_ANSWER
    gate = str(made["objections"][0]["gate"])
    is_judged = gate == "evidence" and made.get("evidence_by") == "judge"
    return f"{gate}, says the judge" if is_judged else gate


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated:
    """Who decided what is clinical evidence in the edits of an attack (METHODS 2.8)."""

    n_judged: int
    """Edits that a judge was asked about."""
    n_objected: int
    """Of these, edits in which it finds evidence."""
    n_listed: int
    """Edits that the list of words decided about."""

    @classmethod
    def of(cls, trials: Sequence[Trial]) -> Gated:
        """Count the edits of some trials."""
        by = [(one.get("evidence_by"), bool(one.get("objections"))) for _, one, _ in tried(trials)]
        judged = [objected for who, objected in by if who == "judge"]
        listed = sum(who == "list" for who, _ in by)
        return cls(n_judged=len(judged), n_objected=sum(judged), n_listed=listed)

    @property
    def always_objected(self) -> bool:
        """Whether the judge let no edit be asked."""
        return 0 < self.n_judged == self.n_objected


@dataclass(frozen=True, slots=True, kw_only=True)
class AtAttempt:
    """Accuracy after k attempts."""

    attempt: int
    """k; 0 is the clean item."""
    estimate: Estimate = field(metadata=FLAT)
    """acc_k: right on the clean item, and not lost in attempts 1 to k."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyVotes:
    """What the judge answers after successful edits; it corrects no rate (METHODS 2.8)."""

    n_kept: int
    """Successes after which it still picks the right answer."""
    n_changed: int
    """Successes after which it picks another."""
    n_set_aside: int
    """Successes on items whose right answer it misses before any edit, or with an unreadable
    vote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptsOfArm:
    """What the attempts of one attack on one model took."""

    cell: Cell = field(metadata=HIDDEN)
    dataset: str
    victim: str
    attack: str
    curve: Sequence[AtAttempt]
    lost_by_reason: Mapping[str, int]
    """Why attempts asked nothing: the reply that could not be read, the gate that objected first,
    or no answer. made = asked + all of these."""
    n_made: int
    n_asked: int
    attempts_to_success: ToSuccess
    key_votes: KeyVotes | None
    """None if no judge was asked about a success."""
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
    at, made = cell.by_attempt(), list(tried(cell.trials))
    successes = [trial.first.attempt for trial in cell.trials if trial.first is not None]
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
        n_asked=sum(answer is not None for *_, answer in made),
        attempts_to_success=ToSuccess.of([one for one in successes if one is not None]),
        key_votes=_key_votes(made),
        n_runs=1 + max(trial.repeat for trial in cell.trials),
        n_cut_confidences=sum(
            bool(one.get("cut_confidences")) for trial in cell.trials for one in trial.records
        ),
    )


def _key_votes(made: Sequence[Tried]) -> KeyVotes | None:
    votes = [
        (one["clean_vote"], one["key_vote"], trial.item.key)
        for trial, one, _ in made
        if "key_vote" in one and one["attempt"] == pick_attempt(trial)
    ]
    n_known = sum(clean == key and vote is not None for clean, vote, key in votes)
    n_kept = sum(clean == vote == key for clean, vote, key in votes)
    if not votes:
        return None
    return KeyVotes(n_kept=n_kept, n_changed=n_known - n_kept, n_set_aside=len(votes) - n_known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts(Shown):
    """The attempts of every attack that makes some."""

    rows: Sequence[AttemptsOfArm]
    title = "Attempts"
    is_brief = True

    def tables(self) -> Sequence[Table]:
        """Accuracy before and after, what was lost, and what the judge says of successes."""
        lost = [(row, why) for row in self.rows for why in row.lost_by_reason.items()]
        voted = [(row, row.key_votes) for row in self.rows if row.key_votes is not None]
        of_all = "Runs of an item weigh alike. Accuracy is of what could be attacked."
        of_judge = "A judge is a model as well: its votes correct no rate. People decide."
        after = "Accuracy before and after all attempts, and attempts that asked nothing"
        why = "Why attempts asked nothing: what could not be read, or the first gate that objected"
        votes = "What the judge answers after successful edits"
        return [
            table("attempts", after, self.rows, _OUTCOMES, notes=[of_all]),
            table("attempts-lost", why, lost, _LOST),
            table("key-votes", votes, voted, _VOTES, notes=[of_judge]),
        ]

    def charts(self) -> Sequence[Chart]:
        """Accuracy after k attempts."""
        places = [row.cell.place for row in self.rows]
        points = [
            Point(one.attempt, one.estimate, row.attack, panel(row.cell.place, places))
            for row in self.rows
            for one in row.curve
            if one.estimate.value is not None
        ]
        title = "Right answers after k attempts"
        return [Chart("attempts", title, "lines", "attempts", "accuracy", points)]

    def remarks(self) -> Sequence[Remark]:
        """Attempts that asked nothing, and confidences that were cut off."""
        return [remark for row in self.rows for remark in _remarks(row)]


def _remarks(row: AttemptsOfArm) -> Iterator[Remark]:
    at, gated = where(row.cell.place, row.attack), Gated.of(row.cell.trials)
    if gated.always_objected:
        sentence = (
            f"{row.attack}: the judge objected to every edit ({gated.n_objected:,} of "
            f"{gated.n_judged:,}). `medstress case DIR ID` shows what it objects to; another "
            "judge, or none, may let edits be asked."
        )
        yield Remark("judge_objects", sentence, at)
    made = [notes for _, notes, _ in tried(row.cell.trials)]
    if unlisted := Counter(name for notes in made for name in notes.get("unlisted", ())):
        names = ", ".join(f"{name[:40]} {n:,}" for name, n in unlisted.most_common(5))
        sentence = (
            f"{row.attack}: {unlisted.total():,} insertions name a category that the set does not "
            f"have: {names}{', ...' if len(unlisted) > 5 else ''}."
        )
        yield Remark("unlisted_categories", sentence, at, "note")
    if row.n_made and row.n_lost >= MANY_LOST * row.n_made:
        reasons = ", ".join(f"{why} {n:,}" for why, n in row.lost_by_reason.items())
        is_cut = any(why.endswith(": cut off") for why in row.lost_by_reason)
        sentence = (
            f"{row.attack}: {row.n_lost:,} of {row.n_made:,} attempts asked {row.victim} nothing "
            f"({reasons}).{' Raise max_new_tokens of [role.attacker].' * is_cut}"
        )
        yield Remark("attempts_lost", sentence, at)
    if row.n_cut_confidences:
        sentence = (
            f"{row.attack}: confidences of {row.victim} were cut off before their end in "
            f"{row.n_cut_confidences:,} conversations, so the attacker learns none: raise "
            "max_new_tokens of [[victim]]."
        )
        yield Remark("cut_confidences", sentence, at)


def attempts_in(run: Run) -> Attempts | None:
    """Count attempts cell by cell, over seeds; None without an attack that counts them."""
    rows = [row for cell in run.attacks if (row := attempts_of(cell)) is not None]
    return Attempts(rows=rows) if rows else None


ATTEMPTS = Analysis("attempts", attempts_in)


def _labels(at: str = "") -> list[Field[Any]]:
    return [
        named("Attack", f"{at}attack"),
        named("Model", f"{at}victim"),
        named("Data", f"{at}dataset", wide=True),
    ]


_OUTCOMES: Sequence[Field[AttemptsOfArm]] = (
    *_labels(),
    column("Right at first", lambda row: row.curve[0].estimate, "share", key="accuracy"),
    column(
        "Right after all attempts",
        lambda row: row.curve[-1].estimate,
        "share",
        key="accuracy_after",
    ),
    column("Attempts to success", "attempts_to_success.mean", "number", "mean"),
    column("Median", "attempts_to_success.median", "number", wide=True),
    column("Runs", "n_runs", "count", "of an item with one seed", wide=True),
    column("Attempts", "n_made", "count"),
    column("Asked nothing", "n_lost", "count", "attempts lost"),
)
_LOST: Sequence[Field[tuple[AttemptsOfArm, tuple[str, int]]]] = (
    *_labels("0."),
    column("Lost by", "1.0", key="lost_by"),
    column("Attempts", "1.1", "count", key="attempts"),
    column("Of all", lambda pair: pair[1][1] / pair[0].n_made, "percent"),
)
_VOTES: Sequence[Field[tuple[AttemptsOfArm, KeyVotes]]] = (
    *_labels("0."),
    column("Still right", "1.n_kept", "count", "successes"),
    column("Not right", "1.n_changed", "count"),
    column("Set aside", "1.n_set_aside", "count", "the judge does not know the item"),
)
