"""Draw Figure 2, one column per panel: success on top, then diversity, then prompt similarity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from medstress.figures import canvas
from medstress.papers.regimes import Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 4
"""Panels side by side; the others are drawn below."""

_ROWS = (
    ("asr", "ASR@1 (%)", 100.0),
    ("diversity_unbiased", "diversity η", 1.0),
    ("similarity", "mean PSS", 1.0),
)


def plot_regimes(panels: Sequence[Panel], formats: Sequence[str]) -> dict[str, bytes]:
    """Draw the panels.

    Args:
        panels: at least one.
        formats: file formats.
    """
    rows = [row for row in _ROWS if any(getattr(s, row[0]) for p in panels for s in p.series)]
    n_columns = min(COLUMNS, len(panels))
    n_bands = -(-len(panels) // COLUMNS)

    width = max(4.2, 2.5 * n_columns)

    def build(figure: Figure) -> None:
        grid = figure.subplots(n_bands * len(rows), n_columns, squeeze=False, sharex="col")
        handles: dict[str, Any] = {}
        for i, panel in enumerate(panels):
            top, column = len(rows) * (i // COLUMNS), i % COLUMNS
            for j, (field, label, scale) in enumerate(rows):
                axes = grid[top + j][column]
                _panel(axes, panel, field, scale, handles)
                if column == 0:
                    axes.set_ylabel(label)
                if j == 0:
                    canvas.title(axes, panel.label, width / n_columns - 0.4, i)
                if j == len(rows) - 1:
                    axes.set_xlabel("n")
                    axes.tick_params(labelbottom=True)
                else:
                    axes.tick_params(labelbottom=False)
        for axes in _unused(grid, panels, rows):
            axes.set_visible(False)
        canvas.legend(figure, list(handles.values()), list(handles), 6)

    return canvas.draw(
        build, width=width, height=n_bands * (0.5 + 1.45 * len(rows)),
        formats=formats,
    )  # fmt: skip


def _panel(axes: Axes, panel: Panel, field: str, scale: float, handles: dict[str, Any]) -> None:
    for k, series in enumerate(panel.series):
        points = getattr(series, field)
        if not points:
            continue
        colour = canvas.ENTITY_COLOURS.get(series.entity, canvas.SERIES[2 + k % 6])
        canvas.band(
            axes, points, scale, color=colour, linewidth=1.4,
            marker=canvas.MARKERS[k % len(canvas.MARKERS)], markersize=3,
        )  # fmt: skip
        handles.setdefault(series.entity, axes.lines[-1])
    axes.axvline(0, color=canvas.INK, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    if field == "asr":
        axes.set_ylim(bottom=0)
    canvas.style_axes(axes)


def _unused(grid: Any, panels: Sequence[Panel], rows: Sequence[Any]) -> list[Any]:
    """Return the axes that no panel fills."""
    used = {
        (len(rows) * (i // COLUMNS) + j, i % COLUMNS)
        for i in range(len(panels))
        for j in range(len(rows))
    }
    return [
        grid[i][j] for i in range(grid.shape[0]) for j in range(grid.shape[1]) if (i, j) not in used
    ]
