"""Draw estimates as points with their intervals: one line a row, one colour a series."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from medstress.figures import canvas
from medstress.figures.outputs import Made, figure_made, number
from medstress.metrics.old_stats.estimates import Estimate
from medstress.results.formats import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PANELS, MOST_LINES, MOST_SERIES = 12, 30, 6
"""What is drawn of a run with more; its CSV file has all."""
_LABEL_CHARACTERS = 34
_WIDTH = 6.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One estimate."""

    line: str
    """Label of its row."""
    series: str
    """Label of its colour."""
    estimate: Estimate
    """The number; one without a value is in the CSV file and not drawn."""
    keys: Mapping[str, Any]
    """What identifies it in the CSV file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One plot."""

    label: str
    """Its title; empty if nothing tells it from others."""
    points: tuple[Point, ...]
    """Its points; rows and series in the order of their first point."""
    most: int = MOST_LINES
    """Rows that are drawn, the first ones."""


def as_figure(
    name: str,
    title: str,
    panels: Sequence[Panel],
    caption: Sequence[str],
    formats: Sequence[str],
    *,
    x: str,
    limits: tuple[float, float] = (0.0, 1.0),
) -> Made:
    """Draw panels below each other.

    Args:
        name: stem of the file names.
        title: title on the index page.
        panels: at least one, each with a point.
        caption: sentences.
        formats: file formats.
        x: label of the horizontal axis.
        limits: of the horizontal axis, at least.
    """
    drawn = [part for panel in panels for part in _parts(panel)]
    shown = drawn[:MOST_PANELS]
    rows = [{**p.keys, **number(p.estimate)} for panel in panels for p in panel.points]
    left_out = len(drawn) > MOST_PANELS or any(len(_lines(p)) > p.most for p in drawn)
    series = list(dict.fromkeys(p.series for panel in shown for p in panel.points))
    heights = [0.62 + _line_inches(panel) * len(_drawn_lines(panel)) for panel in shown]

    def build(figure: Figure) -> None:
        grid = figure.subplots(len(shown), 1, squeeze=False, height_ratios=heights, sharex=True)
        for i, panel in enumerate(shown):
            axes = grid[i][0]
            _draw(axes, panel, series)
            axes.tick_params(labelbottom=True)
            letter = i if len(shown) > 1 else None
            if panel.label or letter is not None:
                canvas.title(axes, panel.label, _WIDTH - 2.0, letter)
        low, high = _ends(shown, limits)
        grid[0][0].set_xlim(low - 0.02 * (high - low), high + 0.02 * (high - low))
        grid[-1][0].set_xlabel(x)
        if len(series) > 1:
            handles = [_handle(i) for i in range(len(series))]
            canvas.legend(figure, handles, series, 3)

    height = 0.35 + sum(heights) + (0.18 * -(-len(series) // 3) if len(series) > 1 else 0.0)
    files = canvas.draw(build, width=_WIDTH, height=height, formats=formats)
    more = [f"Drawn: the first of what {name}.csv has."] * left_out
    only = [f"Shown: {series[0]}."] * (len(series) == 1)
    return figure_made(name, title, files, [*only, *caption, *more], rows)


def _parts(panel: Panel) -> Iterator[Panel]:
    """Yield panels of at most `MOST_SERIES` series, which still can be told apart."""
    series = list(dict.fromkeys(p.series for p in panel.points))
    for i in range(0, len(series), MOST_SERIES):
        kept = set(series[i : i + MOST_SERIES])
        points = tuple(p for p in panel.points if p.series in kept)
        yield replace(panel, points=points)


def _lines(panel: Panel) -> list[str]:
    return list(dict.fromkeys(p.line for p in panel.points))


def _drawn_lines(panel: Panel) -> list[str]:
    return _lines(panel)[: panel.most]


def _line_inches(panel: Panel) -> float:
    n_series = len({p.series for p in panel.points})
    wrapped = max(len(_wrapped(line).splitlines()) for line in _drawn_lines(panel))
    return max(0.13 + 0.06 * n_series, 0.14 * wrapped)


def _wrapped(label: str) -> str:
    text = shorten(label, 4 * _LABEL_CHARACTERS)
    return "\n".join(textwrap.wrap(text, _LABEL_CHARACTERS, break_on_hyphens=False))


def _draw(axes: Axes, panel: Panel, series: Sequence[str]) -> None:
    lines = _drawn_lines(panel)
    here = [s for s in series if any(p.series == s for p in panel.points)]
    step = 0.72 / max(len(here), 2)
    for point in panel.points:
        estimate = point.estimate
        if estimate.value is None or point.line not in lines:
            continue
        y = lines.index(point.line) + step * (here.index(point.series) - (len(here) - 1) / 2)
        style = _style(series.index(point.series))
        if estimate.low is not None and estimate.high is not None:
            axes.hlines(y, estimate.low, estimate.high, color=style["color"], linewidth=1.3)
        axes.plot([estimate.value], [y], linestyle="none", markersize=4.2, **style)
    axes.set_yticks(range(len(lines)), [_wrapped(line) for line in lines], parse_math=False)
    axes.set_ylim(len(lines) - 0.5, -0.5)
    canvas.style_axes(axes, grid="x")
    axes.tick_params(axis="y", length=0)


def _style(i: int) -> dict[str, Any]:
    return {
        "color": canvas.SERIES[i % len(canvas.SERIES)],
        "marker": canvas.MARKERS[i % len(canvas.MARKERS)],
    }


def _handle(i: int) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="none", markersize=4.2, **_style(i))


def _ends(panels: Sequence[Panel], limits: tuple[float, float]) -> tuple[float, float]:
    """Return the limits, wider where an estimate or its interval lies outside."""
    ends = [
        end
        for panel in panels
        for p in panel.points
        for end in (p.estimate.value, p.estimate.low, p.estimate.high)
        if end is not None
    ]
    return min([limits[0], *ends]), max([limits[1], *ends])
