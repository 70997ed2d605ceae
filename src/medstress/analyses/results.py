"""The rows of a run: one for each attack in each place, over its seeds and seed by seed.

A row is made of parts. Each part is computed from one cell by the module of its capability; the
same functions serve rows over all seeds, rows of one seed and slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from medstress.analyses import controls, diversity, scores, success, validity
from medstress.analyses.as_json import FLAT, HIDDEN
from medstress.analyses.names import control_words
from medstress.analyses.run import LEDGER, Cell, Run
from medstress.analyses.shown import (
    Chart,
    Field,
    OfAttack,
    Point,
    Remark,
    Shown,
    Table,
    attack_labels,
    column,
    label,
    panel,
    table,
)
from medstress.tasks.scores import MEANINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class Key(OfAttack):
    """What a row speaks of."""

    attack_spec: Mapping[str, Any]
    seeds: Sequence[int | None]
    control_of: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """All about one attack in one place; a part is None where it has no meaning."""

    cell: Cell = field(metadata=HIDDEN)
    key: Key = field(metadata=FLAT)
    counts: success.Counts = field(metadata=FLAT)
    knows: success.Knowledge | None = field(metadata=FLAT)
    success: success.Success | None = field(metadata=FLAT)
    loss: controls.Loss | None = field(metadata=FLAT)
    validity: validity.Validity | None = field(metadata=FLAT)
    diversity: diversity.Diversity | None = field(metadata=FLAT)
    scores: scores.Scores | None = field(metadata=FLAT)
    """Of tagged texts and pairs."""
    queries: Mapping[str, int]

    @property
    def name(self) -> str:
        """The label of the attack."""
        return self.key.attack


def row_of(run: Run, cell: Cell) -> Row:
    """Assemble a row from its parts; the only place that does."""
    attack = cell.attack
    key = Key(
        **cell.place._asdict(),
        attack=attack.label,
        attack_spec=attack.params,
        seeds=cell.seeds,
        control_of=cell.arm.control_of,
    )
    is_attacked = attack.judged and not attack.asks_clean_only
    return Row(
        cell=cell,
        key=key,
        counts=success.counts(cell),
        knows=success.knowledge(cell) if attack.judged else None,
        success=success.success(cell) if is_attacked else None,
        loss=controls.loss(run, cell) if is_attacked else None,
        validity=validity.validity(cell),
        diversity=diversity.diversity(cell),
        scores=scores.scores(run, cell),
        queries=run.ledger(cell),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Results(Shown):
    """All rows of a run."""

    rows: Sequence[Row]
    """Over seeds, controls too."""
    run: Run = field(metadata=HIDDEN)
    title = "Results"
    is_brief = True

    def by_seed(self) -> Iterator[Row]:
        """Yield the rows of every seed; one of one seed alone is also that seed's."""
        for row in self.rows:
            alone = len(row.key.seeds) == 1
            yield from [row] if alone else (row_of(self.run, one) for one in row.cell.by_seed())

    @property
    def attacks(self) -> list[Row]:
        """The rows of attacks; their controls are parts of them."""
        return [row for row in self.rows if row.key.control_of is None]

    def tables(self) -> Sequence[Table]:
        """Rates, then outcomes and queries."""
        rows, n = self.attacks, len(LABELS)
        rated = [row for row in rows if row.success is not None]
        fields = [*LABELS, *KNOWS, *RATES, *control_fields(rated)]
        made = scores.table_of(rows, LABELS)
        meanings = {row.scores.scoring.meanings if row.scores else MEANINGS for row in rated}
        return [
            *([made] if made else []),
            table("results", "Results", rated, fields, n_labels=n, notes=sorted(meanings)),
            table("outcomes", "How every trial ended", rows, [*LABELS, *COUNTS], n_labels=n),
            table("queries", "Queries", rows, [*LABELS, *QUERIES], n_labels=n),
        ]

    def charts(self) -> Sequence[Chart]:
        """What attack and controls take, and the curves over the budget."""
        rows = [row for row in self.attacks if row.success is not None]
        places = [row.cell.place for row in rows]
        bars, curves = [], []
        for row in rows:
            assert row.success is not None
            at = panel(row.cell.place, places)
            taken = {"attack": row.success.asr, **(row.loss.control if row.loss else {})}
            bars += [
                Point(x=row.name, y=share, series=control_words(name), panel=at)
                for name, share in taken.items()
            ]
            curves += [
                Point(x=point.budget, y=point.estimate, series=row.name, panel=at)
                for point in row.success.asr_at
            ]
        has_curve = any(point.x != 1 for point in curves)
        return [
            *scores.charts(self.rows),
            Chart(
                name="loss",
                title="Lost under attack, and under harmless edits",
                kind="bars",
                x="attack",
                y="share of right answers lost",
                counts="trials: each question once in every seed",
                points=tuple(bars),
            ),
            Chart(
                name="curves",
                title="Lost within a budget of queries",
                kind="lines",
                x="queries",
                y="share of right answers lost",
                points=tuple(curves) if has_curve else (),
                log_x=True,
            ),
        ]

    def remarks(self) -> Sequence[Remark]:
        """What each part has to say of a row."""
        of_rows = (
            remark
            for row in self.attacks
            for remark in (
                *success.remarks(row.cell, row.counts, row.knows),
                *controls.remarks(row.cell, row.loss, row.success),
                *validity.remarks(row.cell, row.validity),
            )
        )
        return [*of_rows, *scores.remarks(self.rows)]


class ResultsOfRun:
    """All rows of a run."""

    name = "results"

    def compute(self, run: Run) -> Results | None:
        """Compute every row."""
        return (
            Results(rows=[row_of(run, cell) for cell in run.cells], run=run) if run.cells else None
        )


RESULTS = ResultsOfRun()


def diversity_of(run: Run, cell: Cell) -> diversity.Diversity:
    """Return the diversity of a cell of a run, which its row has too."""
    results = run.of(RESULTS)
    rows = results.rows if results else ()
    kept = next((row.diversity for row in rows if row.cell is cell), None)
    return kept or diversity.diversity(cell)


LABELS: Sequence[Field[Row]] = (*attack_labels(attrgetter("key")),)
KNOWS: Sequence[Field[Row]] = (
    column(
        "Accuracy",
        lambda row: success.with_worst_line(row.knows.accuracy) if row.knows else None,
        "share",
        tip="right before any edit, of what could be attacked",
    ),
    column(
        "Chance",
        lambda row: row.knows.chance if row.knows else None,
        "number",
        tip="accuracy of guessing",
        wide=True,
    ),
    column(
        "Accuracy after",
        lambda row: success.with_worst_line(row.knows.accuracy_after) if row.knows else None,
        "share",
        tip="where every lost answer counts as wrong",
        wide=True,
    ),
)
RATES: Sequence[Field[Row]] = (
    column(
        "Lost (ASR)",
        lambda row: success.with_worst_line(row.success.asr) if row.success else None,
        "share",
        tip="lost under attack, of what was right",
    ),
    column(
        "Lost, valid",
        lambda row: row.validity.asr_valid if row.validity else None,
        "share",
        tip="lost where the right answer stays right",
    ),
)


def _count(heading: str, name: str) -> Field[Row]:
    return column(heading, lambda row: int(getattr(row.counts, name)), "count", key=name)


COUNTS: Sequence[Field[Row]] = tuple(
    _count(heading, name)
    for heading, name in (
        ("Items", "n_items"),
        ("Trials", "n_trials"),
        ("Already wrong", "n_already_wrong"),
        ("Not attackable", "n_not_attackable"),
        ("Unreadable", "n_unreadable_at_baseline"),
        ("Eligible", "n_eligible"),
        ("Flipped", "n_flipped"),
        ("Held", "n_held"),
        ("Measured", "n_measured"),
        ("Failed", "n_failed"),
        ("Saw no edit", "n_never_asked"),
    )
)


def _queries(name: str) -> Field[Row]:
    return column(name.capitalize(), lambda row: row.queries[name], "count", key=name)


QUERIES: Sequence[Field[Row]] = tuple(map(_queries, LEDGER))


def control_fields(rows: Sequence[Row]) -> list[Field[Row]]:
    """Return a column for each control of some rows."""
    names = dict.fromkeys(name for row in rows if row.loss for name in row.loss.control)

    def of_control(name: str) -> Field[Row]:
        return column(
            f"Harmless edits ({label(name).words})",
            lambda row: (
                success.with_worst_line(row.loss.control[name])
                if row.loss and name in row.loss.control
                else None
            ),
            "share",
            tip="lost under harmless edits, of the same questions",
            key=f"control_{name}",
        )

    return [of_control(name) for name in names]
