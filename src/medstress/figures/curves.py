"""Draw estimates along an axis as lines with bands: a budget, attempts, an exponent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from medstress.figures import canvas
from medstress.figures.canvas import Point
from medstress.figures.outputs import Made, figure_made, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PANELS, MOST_CURVES = 12, 8
"""What is drawn of a run with more; its CSV file has all."""
COLUMNS = 2
_WIDTH = 3.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One line."""

    label: str
    """Its name in the legend."""
    keys: Mapping[str, Any]
    """What identifies it in the CSV file."""
    points: tuple[Point, ...]
    """(position, estimate), ascending; those without a value are not drawn."""
    dashed: bool = False
    """True for what an attack is compared with: a control, a published model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One plot."""

    label: str
    """Its title; empty if nothing tells it from others."""
    curves: tuple[Curve, ...]
    """Its lines."""


def as_figure(
    name: str,
    title: str,
    panels: Sequence[Panel],
    caption: Sequence[str],
    formats: Sequence[str],
    *,
    x: str,
    y: str,
    key: str,
) -> Made:
    """Draw panels, two side by side.

    Args:
        name: stem of the file names.
        title: title on the index page.
        panels: at least one, each with a curve.
        caption: sentences.
        formats: file formats.
        x: label of the horizontal axis; a budget is in whole numbers, long ones logarithmic.
        y: label of the vertical axis, a share.
        key: column of the positions in the CSV file.
    """
    shown = [_readable(panel) for panel in panels[:MOST_PANELS]]
    n_columns = min(COLUMNS, len(shown))
    n_rows = -(-len(shown) // n_columns)
    labels = list(dict.fromkeys(curve.label for panel in shown for curve in panel.curves))
    width = max(4.6, _WIDTH * n_columns)
    height = 0.4 + 2.5 * n_rows + 0.18 * -(-len(labels) // 3)

    def build(figure: Figure) -> None:
        grid = figure.subplots(n_rows, n_columns, squeeze=False, sharey=True)
        handles: dict[str, Any] = {}
        for i, axes in enumerate(grid.flat):
            if i >= len(shown):
                axes.set_visible(False)
                continue
            _draw(axes, shown[i], labels, handles)
            if key == "budget":
                canvas.budget_axis(axes, _largest(shown[i]))
            elif key == "attempt":
                axes.xaxis.get_major_locator().set_params(integer=True)
            axes.set_xlabel(x)
            if i % n_columns == 0:
                axes.set_ylabel(y)
            canvas.style_axes(axes)
            letter = i if len(shown) > 1 else None
            if shown[i].label or letter is not None:
                canvas.title(axes, shown[i].label, width / n_columns - 0.4, letter)
        grid[0][0].set_ylim(bottom=0)
        canvas.legend(figure, list(handles.values()), list(handles), 3)

    files = canvas.draw(build, width=width, height=height, formats=formats)
    more = [f"Drawn: the first {MOST_PANELS} of {len(panels)} panels of {name}.csv."]
    highest = [f"At most {MOST_CURVES} curves a panel are drawn, those that end highest."]
    sentences = [
        *caption,
        *(more if len(panels) > MOST_PANELS else ()),
        *(highest if any(len(panel.curves) > MOST_CURVES for panel in panels) else ()),
    ]
    rows = [
        {**curve.keys, key: _whole(position), **number(estimate)}
        for panel in panels
        for curve in panel.curves
        for position, estimate in curve.points
    ]
    return figure_made(name, title, files, sentences, rows)


def _whole(position: float) -> float:
    """Return a whole position as an int, which a CSV file shows without a point."""
    return int(position) if float(position).is_integer() else position


def _readable(panel: Panel) -> Panel:
    """Return the panel with the curves that end highest, and all dashed ones up to as many."""
    if len(panel.curves) <= MOST_CURVES:
        return panel
    dashed = [curve for curve in panel.curves if curve.dashed][: MOST_CURVES // 2]
    others = sorted((curve for curve in panel.curves if not curve.dashed), key=_end, reverse=True)
    kept = [*others[: MOST_CURVES - len(dashed)], *dashed]
    return replace(panel, curves=tuple(curve for curve in panel.curves if curve in kept))


def _end(curve: Curve) -> float:
    return curve.points[-1][1].value or 0.0


def _largest(panel: Panel) -> int:
    return max(int(curve.points[-1][0]) for curve in panel.curves)


def _draw(axes: Axes, panel: Panel, labels: Sequence[str], handles: dict[str, Any]) -> None:
    for curve in panel.curves:
        i = labels.index(curve.label)
        canvas.band(
            axes, curve.points, color=canvas.SERIES[i % len(canvas.SERIES)], linewidth=1.4,
            marker=canvas.MARKERS[i % len(canvas.MARKERS)], markersize=3,
            markevery=max(1, len(curve.points) // 10),
            linestyle=canvas.DASHES[1] if curve.dashed else "-",
        )  # fmt: skip
        handles.setdefault(curve.label, axes.lines[-1])
