"""Draw success by distance: a thin line per item, a thick one with its interval over all items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from medstress.figures import canvas
from medstress.papers.sweeps import BY_DISTANCE, BY_ORDER, Sweep, SweepPanel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 2


def plot_sweeps(panels: Sequence[SweepPanel], formats: Sequence[str]) -> dict[str, bytes]:
    """Draw the panels, two side by side.

    Args:
        panels: at least one.
        formats: file formats.
    """
    n_columns = min(COLUMNS, len(panels))
    n_rows = -(-len(panels) // COLUMNS)

    width = max(4.6, 3.6 * n_columns)

    def build(figure: Figure) -> None:
        grid = figure.subplots(n_rows, n_columns, squeeze=False)
        handles: dict[str, Any] = {}
        for i, axes in enumerate(grid.flat):
            if i >= len(panels):
                axes.set_visible(False)
                continue
            for k, sweep in enumerate(panels[i].sweeps):
                _sweep(axes, sweep, panels[i].by_distance, k)
                handles.setdefault(sweep.arm.place.entity, axes.lines[-1])
            axes.set_ylim(-3, 103)
            axes.set_xlabel(BY_DISTANCE if panels[i].by_distance else BY_ORDER)
            if i % n_columns == 0:
                axes.set_ylabel("names on which it errs (%)")
            letter = i if len(panels) > 1 else None
            canvas.title(axes, panels[i].label, width / n_columns - 0.4, letter)
            canvas.style_axes(axes)
        canvas.legend(figure, list(handles.values()), list(handles), 6)

    return canvas.draw(build, width=width, height=0.5 + 2.6 * n_rows, formats=formats)


def _sweep(axes: Axes, sweep: Sweep, by_distance: bool, k: int) -> None:
    colour = canvas.ENTITY_COLOURS.get(sweep.arm.place.entity, canvas.SERIES[2 + k % 6])
    alone = sweep.row["n_items"] == 1
    if not alone:
        alpha = min(0.6, max(0.15, 1.2 / len(sweep.listed) ** 0.5))
        for line in sweep.lines(by_distance):
            xs, ys = [x for x, _ in line], [100 * y for _, y in line]
            axes.plot(xs, ys, color=colour, linewidth=0.6, alpha=alpha)
    canvas.band(
        axes, sweep.mean(by_distance), 100.0, shade=0.0 if alone else 0.16, color=colour,
        linewidth=1.5, marker=canvas.MARKERS[k % len(canvas.MARKERS)], markersize=3,
    )  # fmt: skip
