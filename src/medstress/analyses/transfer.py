"""What one model's successes do to another: read from questions that were asked after the trials.

References:
    Xian et al., "Assessing biomedical knowledge robustness in large language models by
    query-efficient sampling attacks", TMLR 2025, section 5.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from medstress.analyses.run import Cell, Run
from medstress.analyses.shown import (
    Chart,
    Field,
    Point,
    Remark,
    Shown,
    Table,
    column,
    label,
    table,
)
from medstress.analyses.success import with_worst_line
from medstress.core.outcomes import Outcome
from medstress.core.text import edits_of
from medstress.core.trials import Trial
from medstress.stats.estimate import Estimate, unknown, with_worst
from medstress.stats.shares import number_units, rate
from medstress.store.reader import StoredInquiry

PURPOSE = "transfer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """One model's successes under one attack, asked of another model.

    transfer = n_reached / n_asked. The diagonal, `source` = `target`, is the flip check: the same
    model asked again, alone.
    """

    dataset: str
    group: str
    attack: str
    source: str
    """The model that the attack succeeded on."""
    target: str
    """The model that was asked."""
    n_successes: int
    n_right: int
    """Of these, those on items that the target has right."""
    n_items: int
    """Their items."""
    n_asked: int
    """Those that the target answered."""
    n_open: int
    """Those that it was asked without an answer."""
    n_reached: int
    """Answers that reach the goal of the attack."""
    n_wrong: int | None
    """Wrong answers; None where the flip check does not say which they were."""
    n_unreadable: int | None
    transfer: Estimate
    """n_reached / n_asked; at worst unreadable answers and missing ones reach the goal too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer(Shown):
    """Every ordered pair of models under every attack."""

    rows: Sequence[Carried]
    title = "Transfer"

    def tables(self) -> Sequence[Table]:
        """One line for each pair of models."""
        notes = [
            "Of the successes on one model, those that also mislead another which has the item "
            "right. A model beside itself is the flip check: the same question asked again."
        ]
        caption = "Successes on one model, asked of another"
        return [table("transfer", caption, self.rows, FIELDS, n_labels=5, notes=notes)]

    def charts(self) -> Sequence[Chart]:
        """A matrix for each attack: the model of the row misled, the model of the column asked."""
        if len({row.target for row in self.rows}) < 2:
            return ()
        places = {(row.dataset, row.group) for row in self.rows}
        points = [
            Point(
                x=row.target,
                y=row.transfer,
                series=row.source,
                panel=_panel(row, several=len(places) > 1),
                tip=f"{row.n_reached:,} of {row.n_asked:,}",
            )
            for row in self.rows
            if row.transfer.value is not None
        ]
        if not points:
            return ()
        return [
            Chart(
                name="transfer",
                title="Share of successes on the model of the row that mislead that of the column",
                kind="heat",
                x="asked of",
                y="share that carries over",
                points=tuple(points),
                by_model=True,
            )
        ]

    def remarks(self) -> Sequence[Remark]:
        """Say what a reader of the shares has to know."""
        remarks = []
        if len({row.target for row in self.rows}) == 1:
            remarks.append(
                Remark(
                    rule="one_model",
                    sentence="[analysis] transfer needs two models or more; with one it only "
                    "repeats the flip check.",
                )
            )
        others = [row for row in self.rows if row.source != row.target]
        for target in sorted({row.target for row in others}):
            rows = [row for row in others if row.target == target]
            n_asked, n_open = sum(row.n_asked for row in rows), sum(row.n_open for row in rows)
            if n_open:
                remarks.append(
                    Remark(
                        rule="not_answered",
                        where=(target,),
                        sentence=f"{n_open:,} successes on other models were asked of {target} "
                        "without an answer; run again with --retry-failed.",
                    )
                )
            if n_unreadable := sum(row.n_unreadable or 0 for row in rows):
                remarks.append(
                    Remark(
                        rule="unreadable",
                        where=(target,),
                        sentence=f"{n_unreadable:,} of {n_asked:,} answers of {target} to "
                        "successes on other models cannot be read, so these may carry over.",
                    )
                )
            if not any(row.n_right for row in rows):
                remarks.append(
                    Remark(
                        rule="nothing_right",
                        where=(target,),
                        level="note",
                        sentence=f"{target} had none of the items right on which other models were "
                        "misled, so nothing can carry over to it.",
                    )
                )
        return remarks


class TransferOfRun:
    """Successes carried from model to model."""

    name = PURPOSE

    def compute(self, run: Run) -> Transfer | None:
        """Read every pair of models; None where no transfer was asked for.

        transfer[i, j] = #{successes of i that reach the attack's goal on j} / #{successes of i on
        items that j has right, which j answered}. Every seed's trial counts.
        """
        answers = answers_of(run)
        if not answers and not run.manifest["config"].get("analysis", {}).get(PURPOSE):
            return None
        right, rows = right_on(run), []
        models: dict[str, set[str]] = defaultdict(set)
        for cell in run.attacks:
            models[cell.place.dataset].add(cell.place.victim)
        order = sorted(
            run.attacks,
            key=lambda c: (c.place.dataset, c.place.group, c.attack.label, c.place.victim),
        )
        for cell in order:
            won = [trial for trial in cell.trials if trial.first is not None]
            for target in sorted(models[cell.place.dataset]) if won else ():
                if target == cell.place.victim:
                    rows.append(_again(cell, won))
                else:
                    has_right = right.get((cell.place.dataset, target), frozenset())
                    rows.append(_carried(cell, won, target, has_right, answers))
        return Transfer(rows=rows)


TRANSFER = TransferOfRun()


class _Asked(NamedTuple):
    """One success, asked of another model."""

    trial: Trial
    outcome: str | None
    """`right`, `wrong` or `unreadable`; None without an answer."""
    is_reached: bool


def answers_of(run: Run) -> dict[tuple[str, str], StoredInquiry]:
    """Return (trial, model that was asked) -> the inquiry, answered if there is one that is."""
    answers: dict[tuple[str, str], StoredInquiry] = {}
    for one in run.folder.inquiries:
        if one.purpose == PURPOSE:
            key = one.spec["trial"], one.victim
            if one.outcomes or key not in answers:
                answers[key] = one
    return answers


def right_on(run: Run) -> dict[tuple[str, str], frozenset[tuple[str, str]]]:
    """Return (data set, model) -> (item, part) that it answers right, over groups and attacks."""
    right: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for trial in run.trials:
        if trial.is_eligible and not trial.arm.is_control:
            place = trial.arm.place
            right[place.dataset, place.victim].add((trial.item.id, trial.unit))
    return {place: frozenset(items) for place, items in right.items()}


def _again(cell: Cell, won: Sequence[Trial]) -> Carried:
    """Return a model with itself, from the flip check, which says whether the goal was reached."""
    checked = [(t, t.first.repeats) for t in won if t.first and t.first.repeats is not None]
    row = _row(cell, cell.place.victim, won, won, [_Asked(t, None, again) for t, again in checked])
    # It does not say by which answer: only where exactly the wrong ones reach the goal.
    is_wrong = cell.attack.goal == "untargeted" and not cell.attack.params.get(
        "unreadable_is_success"
    )
    if not checked:
        none = unknown("no success was asked again: flip_check = false")
        row = replace(row, transfer=none)
    return replace(
        row,
        n_asked=len(checked),
        n_open=0,
        n_wrong=row.n_reached if is_wrong else None,
        n_unreadable=None,
    )


def _carried(
    cell: Cell,
    won: Sequence[Trial],
    target: str,
    has_right: frozenset[tuple[str, str]],
    answers: Mapping[tuple[str, str], StoredInquiry],
) -> Carried:
    fits = [trial for trial in won if (trial.item.id, trial.unit) in has_right]
    asked = []
    for trial in fits:
        one = answers.get((trial.id, target))
        # A retry may have changed the success since.
        if one is not None and trial.first and _is_about(one, trial):
            outcome = one.outcomes[0] if one.outcomes else None
            asked.append(_Asked(trial, outcome, bool(one.reached)))
    row = _row(cell, target, won, fits, asked)
    least, most = (
        rate(np.array(hits, dtype=bool), number_units([a.trial.path for a in asked]))
        for hits in (
            [a.is_reached and a.outcome != Outcome.UNREADABLE for a in asked],
            [a.is_reached or a.outcome in (None, Outcome.UNREADABLE) for a in asked],
        )
    )
    is_open = any(a.outcome in (None, Outcome.UNREADABLE) for a in asked)
    return replace(row, transfer=with_worst(row.transfer, least, most)) if is_open else row


def _is_about(one: StoredInquiry, trial: Trial) -> bool:
    return trial.first is not None and edits_of(json.loads(one.spec["edits"])) == trial.first.edits


def _row(
    cell: Cell,
    target: str,
    won: Sequence[Trial],
    fits: Sequence[Trial],
    asked: Sequence[_Asked],
) -> Carried:
    is_check = target == cell.place.victim
    answered = [a for a in asked if is_check or a.outcome is not None]
    return Carried(
        dataset=cell.place.dataset,
        group=cell.place.group,
        attack=cell.attack.label,
        source=cell.place.victim,
        target=target,
        n_successes=len(won),
        n_right=len(fits),
        n_items=len({trial.item.id for trial in fits}),
        n_asked=len(answered),
        n_open=len(asked) - len(answered),
        n_reached=sum(a.is_reached for a in answered),
        n_wrong=sum(a.outcome == Outcome.WRONG for a in answered),
        n_unreadable=sum(a.outcome == Outcome.UNREADABLE for a in answered),
        transfer=rate(
            np.array([a.is_reached for a in answered], dtype=bool),
            number_units([a.trial.path for a in answered]),
        ),
    )


def _panel(row: Carried, *, several: bool) -> str:
    words = label(row.attack).words
    return f"{words}, {row.group}, {row.dataset}" if several else words


FIELDS: Sequence[Field[Carried]] = (
    column("Attack", lambda row: label(row.attack)),
    column("Model misled", lambda row: label(row.source)),
    column("Model asked", lambda row: label(row.target)),
    column("Data", lambda row: label(row.dataset), wide=True),
    column("Group", lambda row: label(row.group), wide=True),
    column("Successes", lambda row: row.n_successes, "count"),
    column(
        "Right", lambda row: row.n_right, "count", tip="on items that the other model has right"
    ),
    column(
        "Carry over",
        lambda row: (
            replace(with_worst_line(row.transfer), lines=("flip check",))
            if row.source == row.target
            else with_worst_line(row.transfer)
        ),
        "share",
    ),
    column("Wrong", lambda row: row.n_wrong, "count", wide=True),
    column("Unreadable", lambda row: row.n_unreadable, "count", wide=True),
)
