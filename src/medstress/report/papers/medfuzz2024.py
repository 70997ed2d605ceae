"""The layouts of Ness et al., MedFuzz: accuracy by attempt, faithfulness, significance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from medstress.analyses.attempts import ATTEMPTS, AtAttempt, AttemptsOfArm
from medstress.analyses.faithfulness import FAITHFULNESS
from medstress.analyses.run import Analysis
from medstress.analyses.shown import Field, Point, Shown, column, label, table
from medstress.analyses.significance import SIGNIFICANCE
from medstress.report.papers.layout import Entry, Layout, Missing, PaperRun, Part, renamed
from medstress.report.papers.published import rows_of

SOURCE = "a chart of GPT-3.5 and GPT-4 on MedQA by the paper's authors, read off to about .003"


def _figure_2(run: PaperRun) -> Iterator[Part]:
    attempts = run.run.of(ATTEMPTS)
    if attempts is None:
        raise Missing("needs the attack medfuzz")
    notes = [
        run.item_note(row.cell for row in attempts.rows),
        *run.notes(row.cell for row in attempts.rows),
        f"Published: {SOURCE}; of other items and without intervals.",
    ]
    (chart,) = attempts.charts()
    printed = [
        Point(x=k, y=float(row[f"acc_{k}"]), series=f"{row['model']}, published", panel=at)
        for at in dict.fromkeys(point.panel for point in chart.points)
        for row in rows_of("medfuzz_accuracy.csv")
        for k in range(5)
    ]
    yield renamed(replace(chart, points=(*chart.points, *printed)), "figure2", notes)
    rows = [(row, one) for row in attempts.rows for one in row.curve]
    yield table("figure2-accuracy", chart.title, rows, _FIELDS, n_labels=4, notes=notes)


def _figure_3(run: PaperRun) -> Iterator[Part]:
    yield from _shown(run, FAITHFULNESS, "figure3", "needs [test] with faithfulness")


def _significance(run: PaperRun) -> Iterator[Part]:
    yield from _shown(run, SIGNIFICANCE, "significance", "needs tests of successes: [test]")


def _shown(run: PaperRun, analysis: Analysis[Shown], name: str, needs: str) -> Iterator[Part]:
    result = run.run.of(analysis)
    parts: list[Part] = []
    if result is not None:
        parts += [chart for chart in result.charts() if chart.points]
        parts += [one for one in result.tables() if one.rows]
    if not parts:
        raise Missing(needs)
    for part in parts:
        own = part.name.removeprefix(f"{name}-")
        yield replace(part, name=name if own == name else f"{name}-{own}")


_Row = tuple[AttemptsOfArm, AtAttempt]
_FIELDS: tuple[Field[_Row], ...] = (
    column("Attack", lambda row: label(row[0].attack)),
    column("Model", lambda row: label(row[0].victim)),
    column("Data", lambda row: label(row[0].dataset)),
    column("Attempts", lambda row: row[1].attempt, "count"),
    column("Accuracy", lambda row: row[1].estimate, "share"),
)

MEDFUZZ2024 = Layout(
    name="medfuzz2024",
    of_questions=True,
    entries=(
        Entry("figure2", "Figure 2, accuracy after each attempt", _figure_2),
        Entry("figure3", "Figure 3, whether reasonings say what misled the model", _figure_3),
        Entry("significance", "Algorithm 2, significance of successes", _significance),
    ),
)
