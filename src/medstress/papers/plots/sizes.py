"""Draw Figure 3: bars of single-query success, generalists and specialists each by size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from medstress.figures import canvas
from medstress.papers.arms import METHODS
from medstress.papers.rates import Rates
from medstress.papers.sizes import GROUPS, SizePanel
from medstress.results.formats import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 2
_METHODS = ("random", "near", "far")
_WIDTH = 0.27


def plot_sizes(panels: Sequence[SizePanel], formats: Sequence[str]) -> dict[str, bytes]:
    """Draw the panels, two side by side.

    Args:
        panels: at least one.
        formats: file formats.
    """
    n_columns = min(COLUMNS, len(panels))
    n_rows = -(-len(panels) // COLUMNS)
    n_bars = max(len(panel.bars) for panel in panels)

    width = n_columns * max(3.2, 0.9 + 0.62 * n_bars)

    def build(figure: Figure) -> None:
        grid = figure.subplots(n_rows, n_columns, squeeze=False, sharey=True)
        handles: dict[str, Any] = {}
        for i, axes in enumerate(grid.flat):
            if i >= len(panels):
                axes.set_visible(False)
                continue
            _panel(axes, panels[i], handles)
            canvas.title(axes, panels[i].label, width / n_columns - 0.4, i)
            if i % n_columns == 0:
                axes.set_ylabel("ASR@1 (%)")
        # All panels share the y axis, so set its limits after the last bar is drawn; the margin
        # leaves room for the names of the groups.
        grid[0][0].margins(y=0.14)
        grid[0][0].set_ylim(bottom=0)
        canvas.legend(figure, list(handles.values()), list(handles), 4)

    return canvas.draw(build, width=width, height=0.5 + 2.9 * n_rows, formats=formats)


def _panel(axes: Axes, panel: SizePanel, handles: dict[str, Any]) -> None:
    places = _places(panel)
    offsets = _offsets(panel)
    for method, offset in offsets.items():
        xs = [x + offset for x in places]
        shown = [
            (x, e)
            for x, bar in zip(xs, panel.bars, strict=True)
            if (e := bar.asr.get(method)) and e.value is not None
        ]
        if not shown:
            continue  # there are only published values
        values = [100 * (e.value or 0.0) for _, e in shown]
        errors = [
            [100 * ((e.value or 0.0) - (e.low or 0.0)) for _, e in shown],
            [100 * ((e.high or 0.0) - (e.value or 0.0)) for _, e in shown],
        ]
        bars = axes.bar(
            [x for x, _ in shown], values, _WIDTH * 0.9, yerr=errors,
            color=canvas.METHOD_COLOURS[method], alpha=0.85,
            error_kw={"elinewidth": 0.8, "capsize": 1.8, "ecolor": canvas.INK},
        )  # fmt: skip
        handles.setdefault(METHODS[method], bars)
    _published_marks(axes, panel, places, offsets, handles)
    labels = [
        f"{shorten(bar.place.victim.label, 18)}{_mark(bar)}\n{_size(bar)}" for bar in panel.bars
    ]
    axes.set_xticks(places, labels, parse_math=False, rotation=30, ha="right")
    _groups(axes, panel, places)
    axes.set_xlim(places[0] - 0.7, places[-1] + 0.7)
    canvas.style_axes(axes)


def _offsets(panel: SizePanel) -> dict[str, float]:
    """Return by method how far its bar is from the middle of the victim's group of bars."""
    printed = any(line is not None for line in panel.published)
    methods = [
        method
        for method in _METHODS
        if printed or any(e.value is not None for bar in panel.bars if (e := bar.asr.get(method)))
    ]
    return {m: (k - (len(methods) - 1) / 2) * _WIDTH for k, m in enumerate(methods)}


def _published_marks(
    axes: Axes,
    panel: SizePanel,
    places: Sequence[float],
    offsets: Mapping[str, float],
    handles: dict[str, Any],
) -> None:
    """Draw published values as open diamonds on the bars; they have no intervals."""
    points = [
        (x + offset, 100 * line.asr[method])
        for x, line in zip(places, panel.published, strict=True)
        if line is not None
        for method, offset in offsets.items()
    ]
    if points:
        xs, ys = zip(*points, strict=True)
        (mark,) = axes.plot(
            xs, ys, "D", markersize=4, markerfacecolor="white", markeredgecolor=canvas.INK,
            markeredgewidth=0.9, zorder=5,
        )  # fmt: skip
        handles.setdefault("published", mark)


def _places(panel: SizePanel) -> list[float]:
    """Return the positions of the victims; a gap separates generalists from specialists."""
    generalists = sum(bar.place.victim.group == GROUPS[0] for bar in panel.bars)
    gap = 0.6 if 0 < generalists < len(panel.bars) else 0.0
    return [i + (gap if i >= generalists else 0.0) for i in range(len(panel.bars))]


def _groups(axes: Axes, panel: SizePanel, places: Sequence[float]) -> None:
    for group in GROUPS:
        xs = [
            x for x, bar in zip(places, panel.bars, strict=True) if bar.place.victim.group == group
        ]
        if xs:
            axes.text(
                sum(xs) / len(xs), 0.99, f"{group}s", ha="center", va="top", fontsize=canvas.SMALL,
                color=canvas.INK, transform=axes.get_xaxis_transform(),
            )  # fmt: skip
    if len({bar.place.victim.group for bar in panel.bars}) > 1:
        first = next(i for i, bar in enumerate(panel.bars) if bar.place.victim.group == GROUPS[1])
        axes.axvline(
            (places[first - 1] + places[first]) / 2, color=canvas.FAINT, linewidth=1.0, zorder=0
        )


def _mark(bar: Rates) -> str:
    return " †" if bar.baseline.guesses else ""


def _size(bar: Rates) -> str:
    parameters = bar.place.victim.parameters or 0.0
    return f"{parameters / 1e9:g}B" if parameters >= 1e9 else f"{parameters / 1e6:g}M"
