"""Confidence before and after attacks: the table, and risk against coverage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from medstress.report import figures
from medstress.report.figures import Plot
from medstress.report.labels import LABELS, Row, label_text, labels, short_labels
from medstress.results.confidence_measures import CONFIDENCE
from medstress.results.formats import decimal, shorten
from medstress.results.measures import measure
from medstress.results.table import Cell, Format, Table, as_row, columns
from medstress.stats.estimates import Estimate, read_share

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PANEL = ("victim", "dataset", "group")
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


def risk_coverage_plots(rows: Sequence[Row]) -> Iterator[Plot]:
    """Yield one small figure for each data set, group and victim with scores.

    It has the error against coverage of clean answers, and of those after each attack.
    """
    panels: dict[tuple[Any, ...], list[Row]] = {}
    for row in filter(_has_scores, rows):
        panels.setdefault(tuple(row.get(name) for name in _PANEL), []).append(row)
    for i, (key, members) in enumerate(panels.items()):
        curves = {"before": _points(members[0], "before")}
        for label, row in zip(short_labels(members), members, strict=True):
            curves[f"after {label}"] = _points(row, "after")
        # With one confidence for all answers there is nothing to select by.
        if max(map(len, curves.values())) < 2:
            continue
        title, name = label_text(key), f"risk-{i}"
        svg = Markup(_drawn(curves, title, name))
        yield Plot(svg=svg, data=_numbers(f"{name}-data", title, curves))


def _points(row: Row, when: str) -> list[tuple[float, Estimate]]:
    found: Mapping[str, Any] = (row.get("risk_coverage") or {}).get(when) or {}
    return [(each["coverage"], read_share(each)) for each in found.get("points") or ()]


def _drawn(curves: Mapping[str, Sequence[tuple[float, Estimate]]], title: str, name: str) -> str:
    height = 2.75 + 0.21 * len(curves)

    def draw(figure: Figure) -> None:
        below = 0.62 + 0.21 * len(curves)
        axes = figure.add_axes((0.12, below / height, 0.85, 1 - (below + 0.3) / height))
        for j, points in enumerate(curves.values()):
            xs, (values, lows, highs) = [x for x, _ in points], figures.spans(e for _, e in points)
            colour = figures.SERIES[j % len(figures.SERIES)]
            axes.plot(
                xs, values, color=colour, linestyle=figures.DASHES[j % len(figures.DASHES)],
                marker=figures.MARKERS[j % len(figures.MARKERS)], linewidth=1.7, markersize=4,
            )  # fmt: skip
            axes.fill_between(xs, lows, highs, color=colour, alpha=0.13, linewidth=0)
        axes.set_title(
            shorten(title, 48), parse_math=False, fontsize=10, loc="left", color=figures.INK
        )
        axes.set_xlim(-0.02, 1.02)
        axes.set_ylim(-0.02, 1.02)
        axes.set_xlabel("coverage (share of answers kept, the most confident first)")
        axes.set_ylabel("error among them")
        figures.rate_axis(axes.xaxis)
        figures.rate_axis(axes.yaxis)
        figures.calm_axes(axes, grid="y")
        figures.add_legend(figure, axes, list(curves), height)

    spoken = "; ".join(
        f"{shorten(when, 60)} {decimal(points[0][1].value)} at coverage {decimal(points[0][0])} "
        f"and {decimal(points[-1][1].value)} at 1"
        for when, points in list(curves.items())[:_MOST_SPOKEN]
        if points
    )
    label = f"Error among the most confident answers, {shorten(title, 120)}: {spoken}."
    return figures.as_svg(draw, width=4.2, height=height, name=name, label=label)


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
