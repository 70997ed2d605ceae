"""What one model's successes do to another: read from questions that were asked after the trials.

References:
    Xian et al., "Assessing biomedical knowledge robustness in large language models by
    query-efficient sampling attacks", TMLR 2025, section 5.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from medstress.analyses.run import Cell, Reading, Run, share_of
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
from medstress.core.trials import Success, Trial
from medstress.stats.estimate import Estimate, unknown
from medstress.stats.shares import number_units
from medstress.store.reader import StoredInquiry

PURPOSE, _CHECKED = "transfer", "asked again"


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
                row.target,
                row.transfer,
                row.source,
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
        return list(self._remarks())

    def _remarks(self) -> Iterator[Remark]:
        if len({row.target for row in self.rows}) == 1:
            yield Remark(
                "one_model",
                "[analysis] transfer needs two models or more; with one it only repeats the flip "
                "check.",
            )
        others = [row for row in self.rows if row.source != row.target]
        for target in sorted({row.target for row in others}):
            rows = [row for row in others if row.target == target]
            n_asked, n_open = sum(row.n_asked for row in rows), sum(row.n_open for row in rows)
            if n_open:
                sentence = (
                    f"{n_open:,} successes on other models were asked of {target} without an "
                    "answer; run again with --retry-failed."
                )
                yield Remark("not_answered", sentence, (target,))
            if n_unreadable := sum(row.n_unreadable or 0 for row in rows):
                sentence = (
                    f"{n_unreadable:,} of {n_asked:,} answers of {target} to successes on other "
                    "models cannot be read, so these may carry over."
                )
                yield Remark("unreadable", sentence, (target,))
            if not any(row.n_right for row in rows):
                sentence = (
                    f"{target} had none of the items right on which other models were misled, so "
                    "nothing can carry over to it."
                )
                yield Remark("nothing_right", sentence, (target,), "note")


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
            won = [(trial, trial.first) for trial in cell.trials if trial.first is not None]
            for target in sorted(models[cell.place.dataset]) if won else ():
                on_target = right.get((cell.place.dataset, target), frozenset())
                rows.append(_carried(cell, target, won, on_target, answers))
        return Transfer(rows=rows)


TRANSFER = TransferOfRun()


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


def _carried(
    cell: Cell,
    target: str,
    won: Sequence[tuple[Trial, Success]],
    right: frozenset[tuple[str, str]],
    answers: Mapping[tuple[str, str], StoredInquiry],
) -> Carried:
    """Count what became of the successes on a model that were asked of another, or of itself.

    The flip check says whether the goal was reached again, not by which answer: only where exactly
    the wrong answers reach it.
    """
    is_check = target == cell.place.victim
    fits = [one for one in won if is_check or (one[0].item.id, one[0].unit) in right]
    asked: list[tuple[Trial, str | None, bool]] = []
    for trial, first in fits:
        answer = answers.get((trial.id, target))
        if is_check:
            if first.repeats is not None:
                asked.append((trial, _CHECKED, first.repeats))
        # A retry may have changed the success since.
        elif answer and edits_of(json.loads(answer.spec["edits"])) == first.edits:
            outcome = answer.outcomes[0] if answer.outcomes else None
            asked.append((trial, outcome, bool(answer.reached)))
    outcomes = Counter(outcome for _, outcome, _ in asked)
    has_answer = np.array([outcome is not None for _, outcome, _ in asked], dtype=bool)
    is_open = [outcome in (None, Outcome.UNREADABLE) for _, outcome, _ in asked]
    is_read = ~np.array(is_open, dtype=bool)
    reached = np.array([is_reached for *_, is_reached in asked], dtype=bool) & has_answer
    share = Reading(
        counts=has_answer,
        hit=reached,
        may_count=np.ones(len(asked), dtype=bool),
        least=reached & is_read,
        most=reached | ~is_read,
    )
    transfer = share_of(share, number_units([trial.path for trial, *_ in asked]))
    n_wrong: int | None = outcomes[Outcome.WRONG]
    if is_check:
        by_wrong = not cell.attack.params.get("unreadable_is_success")
        is_known = by_wrong and cell.attack.goal == "untargeted"
        n_wrong = int(reached.sum()) if is_known else None
        if not asked:
            transfer = unknown("no success was asked again: flip_check = false")
    return Carried(
        dataset=cell.place.dataset,
        group=cell.place.group,
        attack=cell.attack.label,
        source=cell.place.victim,
        target=target,
        n_successes=len(won),
        n_right=len(fits),
        n_items=len({trial.item.id for trial, _ in fits}),
        n_asked=int(has_answer.sum()),
        n_open=outcomes[None],
        n_reached=int(reached.sum()),
        n_wrong=n_wrong,
        n_unreadable=None if is_check else outcomes[Outcome.UNREADABLE],
        transfer=transfer,
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
