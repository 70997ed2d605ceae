"""What a paper's layout is: an ordered list of tables and figures, each made from a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from medstress.core.rows import TrialRow
from medstress.figures.outputs import Made, Skipped
from medstress.kinds import kind_of_all
from medstress.papers import cases
from medstress.papers.arms import Arm, arms_of
from medstress.papers.outputs import CSV_FIELDS, Printed
from medstress.results.csv import as_csv
from medstress.results.latex import latex_table

_NEEDS = {True: "questions", False: "tagged texts or sentence pairs"}


class MissingData(Exception):
    """Raised if the run lacks what a figure needs; the message says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperRun:
    """The data that every maker of a table or figure reads."""

    summary: Mapping[str, Any]
    """As `medstress summary --json`."""
    arms: Sequence[Arm]
    """The arms of the run."""
    items: cases.Items
    """Items by data set and id."""
    formats: Sequence[str]
    """File formats of the figures."""

    def analysis(self, key: str) -> Sequence[Mapping[str, Any]]:
        """Return rows of the summary's `analysis`; empty if the run has none."""
        return (self.summary.get("analysis") or {}).get(key) or ()


class Entry(NamedTuple):
    """A table or figure of a paper."""

    name: str
    """Stem of its file names."""
    title: str
    """Title on the index page."""
    make: Callable[[PaperRun, str, str], Iterator[Made]]
    """Makes it, from the run, the name and the title."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What a paper shows."""

    name: str
    """As in `--paper`."""
    of_questions: bool
    """Whether it is about questions, whose options hold names; else about sentences."""
    entries: tuple[Entry, ...]
    """Its tables and figures, in order."""


def make_layout(
    layout: Layout,
    summary: Mapping[str, Any],
    trials: Sequence[TrialRow],
    manifest: Mapping[str, Any],
    items: cases.Items,
    formats: Sequence[str],
) -> Iterator[Made | Skipped]:
    """Make every table and figure of a paper that the run can fill.

    The same arguments give the same bytes.

    Args:
        layout: of the paper.
        summary: as `medstress summary --json`.
        trials: the rows of the run.
        manifest: manifest of the run.
        items: items by data set and id; their kind decides whether a layout can be filled.
        formats: file formats of the figures: `pdf`, `svg`, `png`.
    """
    run = PaperRun(
        summary=summary, arms=arms_of(summary, trials, manifest), items=items, formats=formats
    )
    # Layouts of questions need chance and distractors, which other kinds lack.
    is_questions = kind_of_all(items.values()).draws_names
    for name, title, maker in layout.entries:
        try:
            if not run.arms:
                raise MissingData("the run has no finished trial of an attack")
            if is_questions != layout.of_questions:
                raise MissingData(f"needs {_NEEDS[layout.of_questions]}")
            made = list(maker(run, name, title))
        except MissingData as missing:
            yield Skipped(name=name, title=title, reason=str(missing))
        else:
            yield from made


def made_table(printed: Printed, title: str, fields: Sequence[str] = CSV_FIELDS) -> Made:
    """Return a table as LaTeX and its numbers as CSV."""
    table, data = printed
    return Made(
        name=table.name,
        title=title,
        files={
            f"{table.name}.tex": latex_table(table).encode(),
            f"{table.name}.csv": as_csv(data, fields).encode(),
        },
        notes=table.notes,
    )


def made_figure(
    name: str, title: str, files: Mapping[str, bytes], caption: Sequence[str], data: str
) -> Made:
    """Return a figure in its formats, and its numbers as CSV."""
    contents = {f"{name}.{form}": content for form, content in files.items()}
    contents[f"{name}.csv"] = data.encode()
    return Made(name=name, title=title, files=contents, notes=tuple(caption))
