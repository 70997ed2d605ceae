"""The layouts of Ness et al., MedFuzz: accuracy by attempt, faithfulness, significance."""

from __future__ import annotations

from collections.abc import Iterator

from medstress.figures.curves import as_figure
from medstress.figures.outputs import Made, table_made
from medstress.papers import attempts, notes
from medstress.papers.layout import Entry, Layout, MissingData, PaperRun
from medstress.report.significance import significance_tables


def _figure_2(run: PaperRun, name: str, title: str) -> Iterator[Made]:
    panels = attempts.panels_of(run.summary)
    if not panels:
        raise MissingData("needs the attack medfuzz")
    used = [arm for arm in run.arms if arm.row.get("accuracy_at")]
    caption = [*notes.arm_notes(used, run.summary), attempts.PUBLISHED]
    yield as_figure(
        name, title, panels, caption, run.formats, x="attempts", y="accuracy", key="attempt"
    )


def _figure_3(run: PaperRun, name: str, title: str) -> Iterator[Made]:
    yield from _tables(run, title, of_reasonings=True, needs="needs [test] with faithfulness")


def _significance(run: PaperRun, name: str, title: str) -> Iterator[Made]:
    yield from _tables(run, title, of_reasonings=False, needs="needs tests of successes: [test]")


def _tables(run: PaperRun, title: str, *, of_reasonings: bool, needs: str) -> Iterator[Made]:
    found = [
        table
        for table in significance_tables(run.summary)
        if (table.name == "faithfulness") == of_reasonings
    ]
    if not found:
        raise MissingData(needs)
    for table in found:
        yield table_made(table, f"{title}: {table.caption}")


LAYOUT = Layout(
    name="medfuzz2024",
    of_questions=True,
    entries=(
        Entry("figure2", "Figure 2, accuracy after each attempt", _figure_2),
        Entry("figure3", "Figure 3, whether reasonings admit what misled", _figure_3),
        Entry("significance", "Algorithm 2, significance of successes", _significance),
    ),
)
