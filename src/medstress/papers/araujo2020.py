"""The layouts of Araujo et al., 2020: scores of tagged texts and pairs under synonyms and noise."""

from __future__ import annotations

from collections.abc import Iterator

from medstress.figures.outputs import Made
from medstress.papers import noise_scores, notes
from medstress.papers.layout import Entry, Layout, MissingData, PaperRun, made_figure, made_table
from medstress.papers.outputs import Printed
from medstress.papers.plots.noise_scores import plot_noise_scores
from medstress.papers.tables import scores as score_tables
from medstress.results.csv import as_csv


def _noise_scores(run: PaperRun, name: str, title: str) -> Iterator[Made]:
    found = noise_scores.panels_of(run.arms, run.summary.get("training"))
    if not found:
        raise MissingData("needs tagged texts or sentence pairs with a perturbed copy of the data")
    panels = [panel for panel, _ in found]
    seeds = {seed for _, arms in found for arm in arms for seed in arm.row["seeds"] or ()}
    caption = [
        notes.seeds_note({seed for seed in seeds if seed is not None}),
        score_tables.INTERVALS,
        *notes.state_notes(run.summary),
    ]
    if any(bars.published for panel in panels for bars in panel.bars):
        caption.append(notes.PUBLISHED.format(source=noise_scores.SOURCE))
    files = plot_noise_scores(panels, run.formats)
    data = as_csv(list(noise_scores.csv_rows(panels)), noise_scores.CSV_FIELDS)
    yield made_figure(name, title, files, caption, data)


def _scores(run: PaperRun, name: str, title: str) -> Iterator[Made]:
    yield _scored(score_tables.scores(run.arms, run.summary, name), title)


def _scores_by_type(run: PaperRun, name: str, title: str) -> Iterator[Made]:
    table = score_tables.by_type(run.arms, run.summary, name)
    if table is None:
        raise MissingData("needs tagged texts with several types of entities")
    yield _scored(table, title)


def _success(run: PaperRun, name: str, title: str) -> Iterator[Made]:
    table = score_tables.success(run.arms, run.summary, name)
    if table is None:
        raise MissingData("needs tagged texts, or pairs attacked with `max_change`")
    yield _scored(table, title)


def _scored(printed: Printed, title: str) -> Made:
    return made_table(printed, title, score_tables.CSV_FIELDS)


LAYOUT = Layout(
    name="araujo2020",
    of_questions=False,
    entries=(
        Entry("scores", "Scores of clean and perturbed data", _scores),
        Entry("scores-by-type", "The same by type of entity", _scores_by_type),
        Entry("success", "Success within the budget", _success),
        Entry(
            "noise-scores",
            "Figure 1 of Araujo et al., scores under synonyms and noise",
            _noise_scores,
        ),
    ),
)
