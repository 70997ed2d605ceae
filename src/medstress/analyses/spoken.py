"""What a result shows, with the names that the first lines give attacks and models.

Results hold labels, which files and commands use. People read one name for each thing on a screen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from medstress.analyses.names import attack_names, control_words, model_names
from medstress.analyses.run import Run
from medstress.analyses.shown import (
    Chart,
    Decision,
    Entry,
    Label,
    Point,
    Remark,
    Shown,
    Table,
    spaced,
)
from medstress.analyses.summary import results_of


class Spoken(Shown):
    """A result as people read it."""

    def __init__(self, result: Shown, names: Mapping[str, str]) -> None:
        """Take a result, and label -> name."""
        self.result, self.title, self.is_brief = result, result.title, result.is_brief
        self._names = names

    def tables(self) -> Sequence[Table]:
        """The tables of the result."""
        return [
            replace(table, rows=tuple(tuple(map(self._entry, row)) for row in table.rows))
            for table in self.result.tables()
        ]

    def charts(self) -> Sequence[Chart]:
        """Its pictures."""
        return [self.chart(chart) for chart in self.result.charts()]

    def chart(self, chart: Chart) -> Chart:
        """Return a picture."""
        return replace(chart, points=tuple(map(self._point, chart.points)))

    def remarks(self) -> Sequence[Remark]:
        """Its sentences."""
        return [remark_with(remark, self._names) for remark in self.result.remarks()]

    def decisions(self) -> Sequence[Decision]:
        """Its decisions, as files hold them."""
        return self.result.decisions()

    def _entry(self, entry: Entry) -> Entry:
        value = entry.value
        if not isinstance(value, Label) or value.key not in self._names:
            return entry
        return replace(entry, value=Label(words=self._names[value.key], key=value.key))

    def _point(self, point: Point) -> Point:
        x = self._names.get(point.x, point.x) if isinstance(point.x, str) else point.x
        series = self._names.get(point.series, point.series)
        return replace(point, x=x, series=series, panel=self._heading(point.panel))

    def _heading(self, heading: str) -> str:
        """Return the heading of a picture, which begins with a model."""
        for label, name in self._names.items():
            model = spaced(label)
            if heading == model or heading.startswith(f"{model}, "):
                return name + heading[len(model) :]
        return heading


def names_in(run: Run) -> dict[str, str]:
    """Return label -> name of the attacks, their controls and the models of a run."""
    names = attack_names(cell.attack for cell in run.attacks)
    of_controls = {
        cell.attack.label: f"{names[cell.arm.control_of]}, {control_words(cell.attack.name)}"
        for cell in run.cells
        if cell.arm.control_of in names
    }
    return {**model_names(run.manifest["victims"]), **names, **of_controls}


def remark_with(remark: Remark, names: Mapping[str, str]) -> Remark:
    """Return a sentence that calls what it speaks of by its name."""
    labels = [label for label in remark.where[2:] if names.get(label, label) != label]
    sentence = remark.sentence
    for label in labels:
        sentence = re.sub(rf"(?<![\w/]){re.escape(label)}(?![\w/])", names[label], sentence)
    return replace(
        remark,
        sentence=sentence,
        where=(*remark.where[:2], *(names.get(label, label) for label in remark.where[2:])),
    )


def spoken_of(run: Run, *, page: bool = False) -> Iterator[tuple[str, Spoken]]:
    """Yield name and result of every analysis that applies, as people read it."""
    names = names_in(run)
    for name, result in results_of(run, page=page):
        yield name, Spoken(result, names)
