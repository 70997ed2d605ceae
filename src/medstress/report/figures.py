"""The plots of the report, as SVG elements with colours from the page's style sheet.

matplotlib is imported when the first figure is drawn; a page without results does not need it.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from markupsafe import Markup

from medstress.report.svg import inline
from medstress.results.formats import decimal, plural, shorten
from medstress.results.table import Table
from medstress.stats.estimates import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOG_FROM = 20
"""If the largest budget is at least this, the axis of budgets is logarithmic."""

INK, _FAINT = "#010101", "#020202"
_N_COLOURS = 8
SERIES = tuple(f"#0000{16 + i:02x}" for i in range(_N_COLOURS))
_COLOURS = {
    INK: "currentColor",
    _FAINT: "var(--rule)",
    **{name: f"var(--series-{i + 1})" for i, name in enumerate(SERIES)},
}
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.4)), (0, (6, 2, 1, 2)), (0, (3, 1.5)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_MOST_SPOKEN = 12
"""Largest number of values in the accessible name of a plot; the table below it has all."""
_LABEL = 44
"""Longest label inside a plot; the table below it has the full text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A figure with the table of its numbers."""

    svg: Markup
    """An SVG element."""
    data: Table
    """The numbers of the figure."""


def spans(estimates: Iterable[Estimate]) -> tuple[list[float], list[float], list[float]]:
    """Return values, lower and upper ends of estimates with a value; a point has no interval."""
    known = [(each.value, each) for each in estimates if each.value is not None]
    lows = [value if each.low is None else each.low for value, each in known]
    highs = [value if each.high is None else each.high for value, each in known]
    return [value for value, _ in known], lows, highs


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetCurve:
    """ASR against the budget for one attack."""

    label: str
    points: tuple[tuple[int, Estimate], ...]
    """(budget, estimate), by ascending budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One attack with each measure for all and for unrefuted successes; None is not drawn."""

    label: str
    rates: tuple[Estimate | None, Estimate | None]
    """ASR of all successes, and of unrefuted ones."""
    advantages: tuple[Estimate | None, Estimate | None]
    """The same rates minus those of random draws."""


def forest_plot(lines: Sequence[tuple[str, Estimate]], name: str) -> str:
    """Draw attack success rates with their intervals, one below the other.

    Args:
        lines: labels and rates, first on top.
        name: prefix of the identifiers in the SVG, unique on the page.
    """

    def draw(figure: Figure) -> None:
        axes = figure.add_axes((left, 0.62 / height, 0.8 - left, 1 - 0.78 / height))
        for i, (_, rate) in enumerate(lines):
            whisker(axes, i, rate, 0, "o")
            axes.text(
                1.03, i, values[i], va="center", fontsize=9, color=INK,
                transform=axes.get_yaxis_transform(),
            )  # fmt: skip
        axes.set_yticks(range(len(lines)), labels, parse_math=False)
        axes.set_ylim(len(lines) - 0.4, -0.6)
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel("attack success rate, 95 % interval")
        rate_axis(axes.xaxis)
        calm_axes(axes, grid="x")
        axes.tick_params(axis="y", length=0)

    height = 0.9 + 0.3 * len(lines)
    labels = [shorten(label, _LABEL) for label, _ in lines]
    values = [f"{decimal(rate.value)} ({rate.hits}/{rate.n})" for _, rate in lines]
    left = 0.04 + 0.0107 * max(map(len, labels))
    spoken = "; ".join(map(" ".join, list(zip(labels, values, strict=True))[:_MOST_SPOKEN]))
    label = f"Forest plot of the attack success rate with 95 % intervals: {spoken}."
    return as_svg(draw, width=6.2, height=height, name=name, label=label)


def paired_plot(pairs: Sequence[Pair], title: str, name: str) -> str:
    """Draw each attack's ASR for all and for unrefuted successes, and both advantages over random
    draws beside them.

    Args:
        pairs: the attacks, first on top.
        title: title of the panel.
        name: prefix of the identifiers in the SVG, unique on the page.
    """

    def draw(figure: Figure) -> None:
        below, tall = 0.85 / height, 1 - 1.25 / height
        middle = left + (0.97 - left) * 0.55
        rates = figure.add_axes((left, below, middle - left - 0.02, tall))
        gaps = figure.add_axes((middle + 0.02, below, 0.95 - middle, tall))
        for i, pair in enumerate(pairs):
            for j in range(2):
                _pair_line(rates, i, j, pair.rates[j])
                _pair_line(gaps, i, j, pair.advantages[j])
        gaps.axvline(0, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        for axes, xlabel in ((rates, "ASR"), (gaps, "ASR minus that of random draws")):
            axes.set_ylim(len(pairs) - 0.5, -0.5)
            axes.set_yticks(range(len(pairs)), labels if axes is rates else [], parse_math=False)
            axes.set_xlabel(xlabel)
            calm_axes(axes, grid="x")
            axes.tick_params(axis="y", length=0)
        rates.set_xlim(left=-0.02)
        rates.set_title(shorten(title, 60), parse_math=False, fontsize=10, loc="left", color=INK)
        names = ("all successes", "not refuted")
        handles = [
            rates.plot([], [], style, color=SERIES[j], label=names[j], markersize=5.5)[0]
            for j, style in enumerate(("o-", "s-"))
        ]
        add_legend(figure, rates, names, height, handles, ncols=2)

    height = 1.45 + 0.42 * len(pairs)
    labels = [shorten(pair.label, _LABEL) for pair in pairs]
    left = 0.03 + 0.0086 * max(map(len, labels))
    spoken = "; ".join(
        f"{label} {_value_text(pair.rates[0])}, not refuted {_value_text(pair.rates[1])}"
        for label, pair in list(zip(labels, pairs, strict=True))[:_MOST_SPOKEN]
    )
    label = f"ASR with all successes and with unrefuted ones, {shorten(title, 120)}: {spoken}."
    return as_svg(draw, width=7.6, height=height, name=name, label=label)


def _pair_line(axes: Axes, i: int, j: int, estimate: Estimate | None) -> None:
    if estimate is not None:
        whisker(axes, i + (0.15 if j else -0.15), estimate, j, "s" if j else "o")


def whisker(axes: Axes, y: float, estimate: Estimate, series: int, marker: str) -> None:
    """Draw an estimate with its interval at a height."""
    for value, low, high in zip(*spans([estimate]), strict=True):
        axes.plot([low, high], [y, y], color=SERIES[series], linewidth=1.8)
        axes.plot([value], [y], marker, color=SERIES[series], markersize=5.5)


def _value_text(estimate: Estimate | None) -> str:
    return "unknown" if estimate is None or estimate.value is None else decimal(estimate.value)


def budget_curves(curves: Sequence[BudgetCurve], title: str, name: str) -> str:
    """Draw ASR within a budget against the budget, one line per attack, intervals as bands.

    Args:
        curves: at least one, each with at least one point.
        title: title of the panel.
        name: prefix of the identifiers in the SVG, unique on the page.
    """
    largest = max(budget for curve in curves for budget, _ in curve.points)
    height = 2.75 + 0.21 * len(curves)

    def draw(figure: Figure) -> None:
        below = 0.62 + 0.21 * len(curves)
        axes = figure.add_axes((0.12, below / height, 0.85, 1 - (below + 0.3) / height))
        for i, curve in enumerate(curves):
            _curve(axes, curve, i)
        axes.set_title(shorten(title, 48), parse_math=False, fontsize=10, loc="left", color=INK)
        axes.set_ylim(-0.02, 1.02)
        axes.set_xlabel("budget (perturbed queries per item)")
        axes.set_ylabel("ASR")
        rate_axis(axes.yaxis)
        _budget_axis(axes, largest)
        calm_axes(axes, grid="y")
        add_legend(figure, axes, [curve.label for curve in curves], height)

    spoken = "; ".join(
        f"{shorten(curve.label, _LABEL)} {decimal(curve.points[-1][1].value)}"
        for curve in curves[:_MOST_SPOKEN]
    )
    label = (
        f"Attack success rate against the budget, {shorten(title, 120)}. "
        f"At {plural(largest, 'query', 'queries')}: {spoken}."
    )
    return as_svg(draw, width=4.2, height=height, name=name, label=label)


def attempt_curves(
    curves: Sequence[BudgetCurve], published: Sequence[BudgetCurve], title: str, name: str
) -> str:
    """Draw accuracy after k attempts against k, intervals as bands.

    Args:
        curves: at least one, each with at least one point.
        published: printed values of other models, without intervals; drawn after ours.
        title: title of the panel.
        name: prefix of the identifiers in the SVG, unique on the page.
    """
    drawn = [*curves, *published]
    height = 2.75 + 0.21 * len(drawn)

    def draw(figure: Figure) -> None:
        below = 0.62 + 0.21 * len(drawn)
        axes = figure.add_axes((0.12, below / height, 0.85, 1 - (below + 0.3) / height))
        for i, curve in enumerate(drawn):
            _curve(axes, curve, i)
        axes.set_title(shorten(title, 48), parse_math=False, fontsize=10, loc="left", color=INK)
        axes.set_ylim(-0.02, 1.02)
        axes.set_xlabel("attempts")
        axes.set_ylabel("accuracy")
        rate_axis(axes.yaxis)
        _budget_axis(axes, max(k for curve in drawn for k, _ in curve.points))
        axes.set_xlim(left=-0.3)
        calm_axes(axes, grid="y")
        add_legend(figure, axes, [curve.label for curve in drawn], height)

    spoken = "; ".join(
        f"{shorten(curve.label, _LABEL)} {decimal(curve.points[0][1].value)} to "
        f"{decimal(curve.points[-1][1].value)}"
        for curve in drawn[:_MOST_SPOKEN]
    )
    label = f"Accuracy after k attempts, {shorten(title, 120)}: {spoken}."
    return as_svg(draw, width=4.2, height=height, name=name, label=label)


def distance_plot(
    points: Sequence[tuple[float, Estimate]], title: str, name: str, by_distance: bool
) -> str:
    """Draw the share of names on which the victim errs against their distance to the key.

    Args:
        points: (middle of a class of names, share), nearest first; at least one.
        title: title of the panel.
        name: prefix of the identifiers in the SVG, unique on the page.
        by_distance: whether the middles are distances; otherwise they are shares of the order.
    """
    place = "distance to the key" if by_distance else "names, nearest first (share)"

    def draw(figure: Figure) -> None:
        axes = figure.add_axes((0.12, 0.62 / 2.75, 0.85, 1 - 0.92 / 2.75))
        xs, (values, lows, highs) = [x for x, _ in points], spans(share for _, share in points)
        axes.plot(xs, values, "o-", color=SERIES[0], linewidth=1.7, markersize=4.5)
        axes.fill_between(xs, lows, highs, color=SERIES[0], alpha=0.13, linewidth=0)
        axes.set_title(shorten(title, 48), parse_math=False, fontsize=10, loc="left", color=INK)
        axes.set_ylim(-0.03, 1.03)
        axes.set_xlabel(place)
        axes.set_ylabel("share of names")
        rate_axis(axes.yaxis)
        calm_axes(axes, grid="y")

    first, last = (decimal(points[i][1].value) for i in (0, -1))
    label = (
        f"Share of names on which the victim errs, by {place}, {shorten(title, 120)}: "
        f"nearest class {first}, farthest {last}."
    )
    return as_svg(draw, width=4.2, height=2.75, name=name, label=label)


def _curve(axes: Axes, curve: BudgetCurve, i: int) -> None:
    budgets = [budget for budget, _ in curve.points]
    values, lows, highs = spans(estimate for _, estimate in curve.points)
    colour = SERIES[i % _N_COLOURS]
    axes.plot(
        budgets, values, label=f"series {i}", color=colour,
        linestyle=DASHES[i % len(DASHES)], linewidth=1.7,
        marker=MARKERS[i % len(MARKERS)], markersize=4.5, markevery=_marked(budgets),
    )  # fmt: skip
    axes.fill_between(budgets, lows, highs, color=colour, alpha=0.13, linewidth=0)


def _marked(budgets: Sequence[int]) -> list[int]:
    """Return the indices of about ten points that are evenly spaced on the axis of budgets.

    >>> _marked(list(range(1, 101)))
    [0, 1, 4, 9, 19, 49, 99]
    """
    if budgets[-1] < LOG_FROM:
        return list(range(0, len(budgets), max(1, len(budgets) // 10)))
    steps = set(_log_steps(budgets[-1]))
    return [i for i, budget in enumerate(budgets) if budget in steps]


def _log_steps(largest: int) -> list[int]:
    steps = (step * 10**power for power in range(7) for step in (1, 2, 5))
    return [step for step in steps if step <= largest]


def add_legend(
    figure: Figure,
    axes: Axes,
    labels: Sequence[str],
    height: float,
    handles: Sequence[Any] | None = None,
    ncols: int = 1,
) -> None:
    """Add a legend below the axes."""
    legend = figure.legend(
        handles=handles or axes.lines, loc="lower left", bbox_to_anchor=(0.08, 0.02 / height),
        ncols=ncols,
        frameon=False, fontsize=9, handlelength=3.2, labelspacing=0.35, borderaxespad=0.2,
    )  # fmt: skip
    for text, label in zip(legend.get_texts(), labels, strict=True):
        text.set_parse_math(False)
        text.set_text(shorten(label, _LABEL))
        text.set_color(INK)


def _budget_axis(axes: Axes, largest: int) -> None:
    from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, StrMethodFormatter

    if largest >= LOG_FROM:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(_log_steps(largest)))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.set_xlim(0.7, max(largest, 2) + 0.3)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))


def rate_axis(axis: Any) -> None:
    """Give an axis the ticks of rates."""
    from matplotlib.ticker import FixedLocator, FuncFormatter

    axis.set_major_locator(FixedLocator([0, 0.2, 0.4, 0.6, 0.8, 1]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: decimal(value, 1) if value else "0"))


def calm_axes(axes: Axes, grid: Literal["x", "y"]) -> None:
    """Remove decoration that a plot does not need."""
    axes.set_facecolor("none")
    for side, spine in axes.spines.items():
        spine.set_visible(side == ("bottom" if grid == "y" else "none"))
        spine.set_color(_FAINT)
    axes.grid(axis=grid, color=_FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(color=_FAINT, labelcolor=INK, labelsize=9)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set_color(INK)
        axis.label.set_fontsize(9)


def as_svg(
    draw: Callable[[Figure], None], *, width: float, height: float, name: str, label: str
) -> str:
    """Draw a figure as an SVG element with an accessible name."""
    with _fixed_style():
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, height), facecolor="none")
        FigureCanvasSVG(figure)
        draw(figure)
        target = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(target, format="svg", metadata=nothing)
    return inline(target.getvalue(), prefix=name, label=label, colours=_COLOURS)


@contextmanager
def _fixed_style() -> Iterator[None]:
    """Ignore the user's matplotlibrc, so that figures are always the same.

    Text stays text and the reader's browser has the fonts, so matplotlib's warnings about glyphs
    missing in its own font do not matter.
    """
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "medstress"})
        yield
