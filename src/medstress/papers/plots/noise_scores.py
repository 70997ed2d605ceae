"""Draw Figure 1 of Araujo et al.: groups of bars by test set, published values as open marks."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from medstress.figures import canvas
from medstress.papers.noise_scores import MEASURES, Bars, ScorePanel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GROUP = 0.8
"""Share of the distance between two test sets that the bars fill."""
_LABEL = 12
"""Characters per line of a test set's name; a name has three lines at most."""


def plot_noise_scores(panels: Sequence[ScorePanel], formats: Sequence[str]) -> dict[str, bytes]:
    """Draw the panels, one below the other.

    Args:
        panels: at least one.
        formats: of the files.
    """
    most = max(len(panel.tests) * len(panel.bars) for panel in panels)
    width = max(4.6, 1.2 + 0.26 * most)

    def build(figure: Figure) -> None:
        grid = figure.subplots(len(panels), 1, squeeze=False)
        handles: dict[str, Any] = {}
        for i, panel in enumerate(panels):
            axes = grid[i][0]
            _panel(axes, panel, handles)
            canvas.title(axes, panel.label, width - 0.6, i)
        canvas.legend(figure, list(handles.values()), list(handles), 3)

    return canvas.draw(build, width=width, height=0.6 + 2.5 * len(panels), formats=formats)


def _panel(axes: Axes, panel: ScorePanel, handles: dict[str, Any]) -> None:
    places = {test: float(i) for i, test in enumerate(panel.tests)}
    step = _GROUP / len(panel.bars)
    for k, bars in enumerate(panel.bars):
        offset = (k - (len(panel.bars) - 1) / 2) * step
        known = {test: e for test, e in bars.scores.items() if e.value is not None}
        xs = [places[test] + offset for test in known]
        values = [score.value or 0.0 for score in known.values()]
        colour = canvas.SERIES[k % len(canvas.SERIES)]
        if bars.published:
            (mark,) = axes.plot(
                xs, values, canvas.MARKERS[3 - k % 2], linestyle="none", markersize=5,
                markerfacecolor="white", markeredgecolor=colour, markeredgewidth=1.2,
            )  # fmt: skip
            handles.setdefault(bars.victim, mark)
            continue
        drawn = axes.bar(
            xs, values, step * 0.9, yerr=_errors(bars, list(known)), color=colour, alpha=0.85,
            error_kw={"elinewidth": 0.8, "capsize": 1.8, "ecolor": canvas.INK},
        )  # fmt: skip
        handles.setdefault(bars.victim, drawn)
    labels = [
        "\n".join(textwrap.wrap(test.replace("_", " "), _LABEL, max_lines=3, placeholder="…"))
        for test in panel.tests
    ]
    axes.set_xticks(list(places.values()), labels, parse_math=False)
    axes.set_ylabel(MEASURES[panel.measure])
    canvas.style_axes(axes)


def _errors(bars: Bars, tests: Sequence[str]) -> list[list[float]]:
    """Return how far each interval reaches below and above its bar, shape (2, n_tests)."""
    ends: list[list[float]] = [[], []]
    for test in tests:
        score = bars.scores[test]
        value = score.value or 0.0
        ends[0].append(max(0.0, value - (value if score.low is None else score.low)))
        ends[1].append(max(0.0, (value if score.high is None else score.high) - value))
    return ends
