"""Draw scaling curves: success within a budget, colour by method, dashes by embedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from medstress.figures import canvas
from medstress.papers.curves import CurvePanel, PlottedCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 2
WIDTH = 4.3
"""Width of a panel in inches."""
_IN_HALF = 28
"""How many characters of a label fit into half a panel."""
_OTHERS = tuple(canvas.SERIES[i] for i in (1, 3, 7, 2, 4))


def plot_curves(bands: Sequence[Sequence[CurvePanel]], formats: Sequence[str]) -> dict[str, bytes]:
    """Draw panels; each band begins a new line.

    Args:
        bands: panels that belong together; at least one panel in total.
        formats: file formats.
    """
    if all(len(band) == 1 for band in bands):
        bands = [[band[0] for band in bands]]
    rows = [band[i : i + COLUMNS] for band in bands for i in range(0, len(band), COLUMNS)]
    panels = [panel for row in rows for panel in row]
    n_columns = max(len(row) for row in rows)
    embeddings = list(dict.fromkeys(c.embedding for panel in panels for c in panel.curves))
    longest = max(len(panel.curves) for panel in panels)

    def build(figure: Figure) -> None:
        grid = figure.subplots(len(rows), n_columns, squeeze=False)
        letter = 0
        for i, row in enumerate(rows):
            for j, axes in enumerate(grid[i]):
                if j >= len(row):
                    axes.set_visible(False)
                    continue
                _panel(axes, row[j], embeddings)
                canvas.title(axes, row[j].label, WIDTH - 0.4, letter)
                letter += 1
                if j == 0:
                    axes.set_ylabel("ASR (%)")

    return canvas.draw(
        build, width=WIDTH * n_columns, height=len(rows) * (2.5 + 0.14 * longest),
        formats=formats,
    )  # fmt: skip


def _panel(axes: Axes, panel: CurvePanel, embeddings: Sequence[str]) -> None:
    for curve in panel.curves:
        budgets = len(curve.points)
        canvas.band(
            axes, curve.points, 100.0, color=_colour(curve, panel), linewidth=1.4,
            linestyle=_dash(curve, embeddings), marker=_marker(curve), markersize=3.2,
            markevery=max(1, budgets // 8), label=curve.label,
            shade=0.14 if len(panel.curves) < 4 else 0.06,
        )  # fmt: skip
        _inflection(axes, curve)
    canvas.budget_axis(axes, panel.largest)
    axes.set_xlabel("budget (perturbed queries per item)")
    axes.set_ylim(bottom=0)
    canvas.style_axes(axes)
    n_columns = 1 if max(len(curve.label) for curve in panel.curves) > _IN_HALF else 2
    legend = axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=n_columns, frameon=False,
        fontsize=canvas.SMALL, handlelength=3.0, labelspacing=0.3, columnspacing=1.2,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_parse_math(False)
        text.set_color(canvas.INK)


def _inflection(axes: Axes, curve: PlottedCurve) -> None:
    """Draw an open circle where a plateau begins, if the run's analyses found one."""
    if curve.inflection is None:
        return
    budget = min(max(1, round(curve.inflection)), len(curve.points))
    value = curve.points[budget - 1][1].value
    if value is not None:
        axes.plot(
            [curve.inflection], [100 * value], "o", markersize=8, markerfacecolor="none",
            markeredgecolor=axes.lines[-1].get_color(), markeredgewidth=1.1,
        )  # fmt: skip


def _colour(curve: PlottedCurve, panel: CurvePanel) -> str:
    """Return the method's colour, or one of the other colours if attacks share the method."""
    same = [c for c in panel.curves if c.method == curve.method and c.embedding == curve.embedding]
    if len(same) == 1 and curve.method in canvas.METHOD_COLOURS:
        return canvas.METHOD_COLOURS[curve.method]
    return _OTHERS[same.index(curve) % len(_OTHERS)]


def _dash(curve: PlottedCurve, embeddings: Sequence[str]) -> Any:
    return canvas.DASHES[embeddings.index(curve.embedding) % len(canvas.DASHES)]


def _marker(curve: PlottedCurve) -> str:
    methods = list(canvas.METHOD_COLOURS)
    place = methods.index(curve.method) if curve.method in methods else len(methods)
    return canvas.MARKERS[place % len(canvas.MARKERS)]
