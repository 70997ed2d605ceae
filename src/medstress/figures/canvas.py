"""One style for all figures, and saving them as files.

No pyplot, no dates and no random identifiers: the same run gives the same bytes.
"""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from medstress.metrics.old_stats.estimates import Estimate
from medstress.results.formats import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("pdf", "svg", "png")

INK, FAINT = "#1c2126", "#d5dadd"
SERIES = (
    "#0072b2", "#c84c00", "#007a5a", "#a8487f", "#8f6200", "#5b3fa8", "#5a6268", "#2b8fb8",
)  # fmt: skip
ENTITY_COLOURS = {"drugs": SERIES[0], "diseases": SERIES[1]}
METHOD_COLOURS = {
    "random": SERIES[5],
    "near": SERIES[0],
    "far": SERIES[6],
    "zero": SERIES[7],
    "nearest": SERIES[2],
    "farthest": SERIES[4],
    "discrete_zoo": SERIES[1],
}
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.4)), (0, (6, 2, 1, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

SMALL, NORMAL = 7.5, 8.5
_DPI = 200
_TITLE_CHARACTERS_PER_INCH = 15
_TITLE_LINES = 3

Point: TypeAlias = tuple[float, Estimate]
"""A position on the horizontal axis and the estimate there."""


def draw(
    build: Callable[[Figure], None], *, width: float, height: float, formats: Sequence[str]
) -> dict[str, bytes]:
    """Draw one figure; its caption stands beside it, as text.

    Args:
        build: adds axes to the figure; the layout makes room for titles and legends.
        width: inches.
        height: inches.
        formats: a selection of `FORMATS`.

    Returns:
        The files by format.
    """
    with _fixed_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, height), facecolor="white", layout="constrained")
        build(figure)
        if doubts := _DOUBTS.get():
            wrapped = textwrap.wrap(" ".join(doubts), int(width * _TITLE_CHARACTERS_PER_INCH))
            figure.supxlabel("\n".join(wrapped), fontsize=SMALL, color=INK, parse_math=False)
        return {name: _save(figure, name) for name in formats}


def spans(estimates: Iterable[Estimate]) -> tuple[list[float], list[float], list[float]]:
    """Return values, lower and upper ends of estimates with a value; a point has no interval."""
    known = [(each.value, each) for each in estimates if each.value is not None]
    lows = [value if each.low is None else each.low for value, each in known]
    highs = [value if each.high is None else each.high for value, each in known]
    return [value for value, _ in known], lows, highs


def band(
    axes: Axes, points: Sequence[Point], scale: float = 1.0, shade: float = 0.14, **line: Any
) -> None:
    """Draw estimates as a line and their intervals as a band; skip points without a value.

    Args:
        axes: axes to draw on.
        points: by ascending position.
        scale: 100 draws shares in per cent.
        shade: opacity of the band.
        line: style of the line; `color` is required.
    """
    xs = [x for x, estimate in points if estimate.value is not None]
    values, lows, highs = ([scale * end for end in ends] for ends in spans(e for _, e in points))
    # Markers at the edge, as at 0, are drawn whole; they need no room in the layout.
    for drawn in axes.plot(xs, values, clip_on=False, **line):
        drawn.set_in_layout(False)
    axes.fill_between(xs, lows, highs, color=line["color"], alpha=shade, linewidth=0)


def style_axes(axes: Axes, grid: Literal["x", "y"] = "y") -> None:
    """Give axes a faint grid and no box."""
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("bottom", "left"))
        spine.set_color(FAINT)
    axes.grid(axis=grid, color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(color=FAINT, labelcolor=INK, labelsize=SMALL)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set_color(INK)
        axis.label.set_fontsize(NORMAL)


def title(axes: Axes, text: str, inches: float, letter: int | None = None) -> None:
    """Set a panel's title, with its letter, on as many lines as it needs.

    Args:
        axes: axes of the panel.
        text: parts separated by " · "; lines break between parts if possible.
        inches: width of the axes.
        letter: the panel's number, from 0.
    """
    head = "" if letter is None else f"({chr(ord('a') + letter % 26)}) "
    # A dot stays on the line of the part before it, and `key = value` on one line.
    glued = (head + shorten(text, 200)).replace(" ·", "\xa0·").replace(" = ", "\xa0=\xa0")
    lines = textwrap.wrap(
        glued, int(inches * _TITLE_CHARACTERS_PER_INCH), break_on_hyphens=False,
        max_lines=_TITLE_LINES, placeholder="…",
    )  # fmt: skip
    axes.set_title(
        "\n".join(lines).replace("\xa0", " "),
        fontsize=NORMAL, loc="left", color=INK, parse_math=False,
    )  # fmt: skip


def legend(figure: Figure, handles: Sequence[Any], labels: Sequence[str], n_columns: int) -> None:
    """Draw one legend above all panels."""
    if not handles:
        return
    drawn = figure.legend(
        handles, [shorten(label, 60) for label in labels], loc="outside upper center",
        ncols=min(n_columns, len(handles)), frameon=False, fontsize=SMALL, handlelength=2.6,
    )  # fmt: skip
    for text in drawn.get_texts():
        text.set_parse_math(False)
        text.set_color(INK)


def budget_axis(axes: Axes, largest: int) -> None:
    """Label the budget in whole numbers, on a logarithmic axis from 20 on to show the rise."""
    from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, StrMethodFormatter

    if largest >= 20:
        axes.set_xscale("log")
        steps = [step * 10**power for power in range(7) for step in (1, 2, 5)]
        axes.xaxis.set_major_locator(FixedLocator([step for step in steps if step <= largest]))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.set_xlim(0.7, max(largest, 2) + 0.3)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))


def _save(figure: Figure, form: str) -> bytes:
    no_metadata: dict[str, dict[str, Any]] = {
        "pdf": dict.fromkeys(("Creator", "Producer", "CreationDate", "ModDate")),
        "svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
        "png": {"Software": None},
    }
    target = io.BytesIO()
    figure.savefig(target, format=form, dpi=_DPI, metadata=no_metadata[form])
    return target.getvalue()


_MISSING: ContextVar[set[str] | None] = ContextVar("characters that fonts lack", default=None)
_DOUBTS: ContextVar[Sequence[str]] = ContextVar("what is in doubt", default=())
_GLYPH = re.compile(r"Glyph (\d+) ")


@contextmanager
def missing_characters() -> Iterator[set[str]]:
    """Yield a set that gathers the characters for which figures drawn inside have no glyph."""
    found: set[str] = set()
    token = _MISSING.set(found)
    try:
        yield found
    finally:
        _MISSING.reset(token)


@contextmanager
def doubted(doubts: Sequence[str]) -> Iterator[None]:
    """Write sentences below every figure that is drawn inside."""
    token = _DOUBTS.set(doubts)
    try:
        yield
    finally:
        _DOUBTS.reset(token)


def _note_missing(seen: Iterable[warnings.WarningMessage]) -> None:
    """Keep what the drawing said of missing glyphs; pass other warnings on."""
    found = _MISSING.get()
    for each in seen:
        text = str(each.message)
        if glyph := _GLYPH.match(text):
            if found is not None:
                found.add(chr(int(glyph[1])))
        elif not text.startswith("Matplotlib currently does not support"):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


@contextmanager
def _fixed_style() -> Iterator[None]:
    """Ignore the user's matplotlibrc, so that figures look the same everywhere."""
    import matplotlib

    seen: list[warnings.WarningMessage]
    with matplotlib.rc_context(), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                "svg.fonttype": "none",  # text stays text, and can be searched and edited
                "svg.hashsalt": "medstress",
                "pdf.fonttype": 42,  # TrueType, as journals ask
                "font.size": NORMAL,
            }
        )
        yield
    _note_missing(seen)
