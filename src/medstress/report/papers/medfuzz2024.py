"""The layouts of Ness et al., MedFuzz: accuracy by attempt, faithfulness, significance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from medstress.analyses.attempts import ATTEMPTS, FAITHFULNESS, AtAttempt, AttemptsOfArm
from medstress.analyses.shown import Point, column, named, table
from medstress.analyses.significance import SIGNIFICANCE
from medstress.report.papers.layout import Figure, Layout, Missing, PaperRun, Part, renamed, rows_of
from medstress.tasks.scores import OF_ATTACKABLE

DIGITISED = (
    "Published points are of GPT-3.5 and GPT-4 on MedQA: we digitised them from the published "
    "chart, to about .003; they are of other items and without intervals."
)


def _figure_2(run: PaperRun) -> Iterator[Part]:
    attempts = run.run.of(ATTEMPTS)
    if attempts is None:
        raise Missing("needs the attack medfuzz")
    cells = [row.cell for row in attempts.rows]
    notes = [run.item_note(cells), OF_ATTACKABLE, *run.notes(cells)]
    (chart,) = attempts.charts()
    digitised = [
        Point(x=k, y=float(row[f"acc_{k}"]), series=f"{row['model']}, digitised", panel=at)
        for at in dict.fromkeys(point.panel for point in chart.points)
        for row in rows_of("medfuzz_accuracy.csv")
        for k in range(5)
    ]
    drawn = replace(chart, points=(*chart.points, *digitised))
    yield renamed(drawn, "figure2", [*notes, DIGITISED])
    rows = [(row, one) for row in attempts.rows for one in row.curve]
    yield table("figure2-accuracy", chart.title, rows, _FIELDS, notes=notes)


def _figure_3(run: PaperRun) -> Iterator[Part]:
    result = run.run.of(FAITHFULNESS)
    if result is None:
        raise Missing("needs reasonings about edits: the attack medfuzz")
    cells = [row.cell for row in result.rows]
    notes = [run.item_note(cells), *run.notes(cells)]
    charts, (rates,) = result.charts(), result.tables()
    if not charts:
        raise Missing("needs votes of a judge that can be read")
    yield renamed(charts[0], "figure3", notes)
    yield renamed(rates, "figure3-rates", notes)


def _significance(run: PaperRun) -> Iterator[Part]:
    result = run.run.of(SIGNIFICANCE)
    if result is None:
        raise Missing("needs tests of successes: [test]")
    for part in result.tables():
        name = part.name
        yield renamed(part, name if name == "significance" else f"significance-{name}")


_Row = tuple[AttemptsOfArm, AtAttempt]
_FIELDS = (
    named("Attack", "0.attack"),
    column("Model", "0.victim"),
    named("Data", "0.dataset"),
    column("Attempts", lambda row: str(row[1].attempt)),
    column("Accuracy", "1.estimate", "share", key="accuracy"),
)

MEDFUZZ2024 = Layout(
    name="medfuzz2024",
    of_questions=True,
    entries=(
        Figure("figure2", "Figure 2, accuracy after each attempt", _figure_2),
        Figure("figure3", "Figure 3, whether reasonings admit what misled the model", _figure_3),
        Figure("significance", "Algorithm 2, significance of successes", _significance),
    ),
)
