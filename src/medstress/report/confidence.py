"""Confidence before and after attacks: the table, and risk against coverage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medstress.report.charts import Plot, plot
from medstress.report.labels import LABELS, Row, labels
from medstress.report.plots import layers
from medstress.report.plots.axes import Axis
from medstress.report.plots.layers import Series
from medstress.report.plots.words import (
    MOST_LINES,
    first_panels,
    harm,
    in_legend,
    labelled,
    mark,
    most_important,
    place_words,
)
from medstress.results.confidence_measures import CONFIDENCE
from medstress.results.formats import decimal, percent, shorten
from medstress.results.measures import measure
from medstress.results.names import Names
from medstress.results.table import Cell, Format, Table, as_row, columns
from medstress.stats.estimates import Estimate, read_share

_PANEL = ("victim", "dataset", "group")
_NOBODY = Names()
_MOST_SPOKEN = 6
"""Curves in the accessible name of a figure; its table has all."""
_SHOWN = tuple(each for each in CONFIDENCE if not each.name.startswith("brier"))


def confidence_table(rows: Sequence[Row]) -> Table | None:
    """Return the measures of confidence of all rows with scores; None if no victim gives any."""
    scored = [row for row in rows if _has_scores(row)]
    if not scored:
        return None
    return Table(
        name="confidence",
        caption="Confidence before and after attacks",
        columns=(*LABELS, *(each.column for each in _SHOWN)),
        rows=tuple(as_row(*labels(row), *_cells(row)) for row in scored),
        notes=(
            "After: the answer at the first success where there is one, else the last one to an "
            "edit, else the clean answer. Calibration error: 10 bins of equal "
            "width, with a conservative interval; below it how far chance alone moves it, which is "
            "about what a calibrated victim shows.",
        ),
        n_labels=len(LABELS),
    )


def _has_scores(row: Row) -> bool:
    return (row.get("calibration_before") or {}).get("value") is not None


def _cells(row: Row) -> Iterator[Cell]:
    for each in _SHOWN:
        found = row.get(each.name)
        chance = found.get("by_chance") if isinstance(found, Mapping) else None
        lines = () if chance is None else (f"by chance {decimal(chance)}",)
        yield Cell(value=each.read(row), lines=lines)


def risk_coverage_plots(rows: Sequence[Row], names: Names = _NOBODY) -> Iterator[Plot]:
    """Yield one chart for each data set, group and victim with scores.

    It has the error against coverage of clean answers, and of those after each attack.
    """
    panels: dict[tuple[Any, ...], list[Row]] = {}
    for row in filter(_has_scores, rows):
        panels.setdefault(tuple(row.get(name) for name in _PANEL), []).append(row)
    # With one confidence for all answers there is nothing to select by.
    told = {key: members for key, members in panels.items() if _most_points(members) > 1}
    drawn, left_out = first_panels(told, lambda members: max(harm(r.get("asr")) for r in members))
    for i, members in enumerate(drawn.values()):
        yield _panel(members, names, f"risk-{i}-data", () if i else left_out)


def _most_points(rows: Sequence[Row]) -> int:
    return max(len(_points(row, when)) for row in rows for when in ("before", "after"))


def _panel(rows: Sequence[Row], names: Names, name: str, notes: tuple[str, ...]) -> Plot:
    title = place_words(rows[0], names, *_PANEL)
    clean = {key: value for key, value in rows[0].items() if key != "attack"}
    lines: list[tuple[str, Row, list[tuple[float, Estimate]]]]
    lines = [("before", clean, _points(rows[0], "before"))]
    after = list(zip(labelled(rows, names, ("attack",)), rows, strict=True))
    drawn, more = most_important(
        after, MOST_LINES - 1, lambda each: harm(each[1].get("asr")), "attacks"
    )
    lines += [(f"after {label}", row, _points(row, "after")) for label, row in drawn]
    labels = in_legend(label for label, _, _ in lines)
    data = [
        mark(error, row, series=label, x=coverage, coverage=f"{percent(coverage)} %")
        for label, (_, row, points) in zip(labels, lines, strict=True)
        for coverage, error in points
        if error.value is not None
    ]
    chart = layers.curves(
        data,
        [Series(label=label, look=i) for i, label in enumerate(labels)],
        Axis(title="coverage (answers kept, most confident first)", is_share=True, span=(0, 1)),
        Axis(title="error among them", is_share=True),
        title=title,
        notes=(*more, *notes),
        tips={"series": "Answers", "coverage": "Coverage"},
    )
    spoken = "; ".join(
        f"{shorten(when, 60)} {decimal(points[0][1].value)} at coverage {decimal(points[0][0])} "
        f"and {decimal(points[-1][1].value)} at 1"
        for when, _, points in lines[:_MOST_SPOKEN]
        if points
    )
    said = f"Error among the most confident answers, {shorten(title, 120)}: {spoken}."
    whole = {"before": lines[0][2]}
    whole |= {f"after {label}": _points(row, "after") for label, row in after}
    return plot(chart, label=said, data=_numbers(name, title, whole))


def _points(row: Row, when: str) -> list[tuple[float, Estimate]]:
    found: Mapping[str, Any] = (row.get("risk_coverage") or {}).get(when) or {}
    return [(each["coverage"], read_share(each)) for each in found.get("points") or ()]


def _numbers(
    name: str, title: str, curves: Mapping[str, Sequence[tuple[float, Estimate]]]
) -> Table:
    return Table(
        name=name,
        caption=f"Error among the most confident answers, as plotted: {title}",
        columns=(
            *columns(Format.TEXT, "Answers"),
            *columns(Format.SCORE, "Coverage"),
            *columns(Format.SHARE, "Error"),
        ),
        rows=tuple(
            as_row(when, coverage, error)
            for when, points in curves.items()
            for coverage, error in points
        ),
        notes=(f"Area: {measure('risk_coverage.before.area').meaning}.",),
    )
