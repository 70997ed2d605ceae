"""Marks, tooltips and legends that the charts of the report share.

Every chart is one view of layers: only these can be as wide as their place on the page. Colour is
never the only sign: series differ in their marks as well, and controls in dashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias

from medstress.report.charts import PAPER, RULE, SERIES, SOFT
from medstress.report.labels import FACTORS
from medstress.report.plots.axes import Axis, height_of, names_down
from medstress.report.plots.words import TITLE_LINE, wrapped

if TYPE_CHECKING:
    import altair

SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right")
DASHES = ([1, 0], [5, 3], [2, 2], [8, 3, 2, 3])
HEIGHT = 230
"""Height of the plot of a chart of curves, in CSS pixels."""
_TITLES = {"attack": "Attack", "victim": "Victim", "dataset": "Data set", "group": "Group"}
_SHOWN = {
    "said": "Value",
    "numerator": "Numerator",
    "denominator": "Denominator",
    "interval": "95 % interval",
    "method": "Method",
}
_SIZE = 50
_NOTE_LINE = 56

Datum = Mapping[str, Any]
Drawn: TypeAlias = "altair.LayerChart | altair.FacetChart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """How the marks of one series look."""

    label: str
    """In the legend; unique in its chart."""
    look: int | None
    """Number of its colour and mark; None is the colour of text, for what belongs to all others."""
    dash: int = 0
    """Number of its dash; 0 is a solid line and filled marks, all others have hollow marks."""

    @property
    def colour(self) -> str:
        """Its colour."""
        return SOFT if self.look is None else SERIES[self.look % len(SERIES)]

    @property
    def shape(self) -> str:
        """Its mark."""
        return SHAPES[(self.dash if self.look is None else self.look) % len(SHAPES)]


P = ParamSpec("P")


def unchecked(draw: Callable[P, Drawn]) -> Callable[P, Drawn]:
    """Draw without checking every part of a chart against the schema of Vega-Lite.

    That takes longer than all the rest; a test checks one chart of each kind.
    """

    @wraps(draw)
    def quickly(*args: P.args, **kwargs: P.kwargs) -> Drawn:
        from altair.utils.schemapi import debug_mode

        with debug_mode(False):
            return draw(*args, **kwargs)

    return quickly


def over(rows: Sequence[Datum]) -> altair.Chart:
    """Return a chart of rows without marks."""
    import altair as alt

    return alt.Chart(alt.InlineData(values=list(rows)))


def with_title(chart: Drawn, title: str, notes: Iterable[str] = ()) -> Drawn:
    """Give a chart a title that breaks between words, and notes below; none if both are empty."""
    import altair as alt

    lines = [line for note in notes for line in wrapped(note, _NOTE_LINE, 400).split("\n")]
    if not title and not lines:
        return chart
    return chart.properties(
        title=alt.TitleParams(
            wrapped(title, TITLE_LINE, 2 * TITLE_LINE).split("\n") if title else [],
            subtitle=lines,
            subtitleColor=SOFT,
            subtitleFontSize=12,
            subtitlePadding=4,
            offset=10,
        )
    )


def tooltips(rows: Sequence[Datum], first: Mapping[str, str]) -> list[altair.Tooltip]:
    """Return the tooltip: given fields, the estimate, and the keys of the arm.

    Args:
        rows: data of the marks; what one of them lacks is left out.
        first: field -> title of what comes first.
    """
    import altair as alt

    fields = {**first, **_SHOWN, **{name: _TITLES[name] for name in FACTORS}}
    return [
        alt.Tooltip(f"{name}:N", title=title)
        for name, title in fields.items()
        if all(name in row for row in rows)
    ]


def of_series(series: Sequence[Series]) -> dict[str, Any]:
    """Return the encodings of marks by series: stroke, fill and shape, with one legend."""
    import altair as alt

    domain = [each.label for each in series]
    shown = _legend(series)

    def scale(values: Iterable[Any]) -> altair.Scale:
        return alt.Scale(domain=domain, range=list(values))

    return {
        "stroke": alt.Stroke("series:N", scale=scale(s.colour for s in series), legend=shown),
        "fill": alt.Fill(
            "series:N",
            scale=scale(PAPER if s.dash else s.colour for s in series),
            legend=shown,
        ),
        "shape": alt.Shape("series:N", scale=scale(s.shape for s in series), legend=shown),
    }


def _legend(series: Sequence[Series]) -> altair.Legend | None:
    import altair as alt

    if len(series) < 2:
        return None
    return alt.Legend(title=None, symbolOpacity=1, symbolStrokeWidth=1.6, symbolSize=60)


def dashes(series: Sequence[Series]) -> altair.StrokeDash:
    """Return the dashes of lines by series."""
    import altair as alt

    return alt.StrokeDash(
        "series:N",
        scale=alt.Scale(
            domain=[each.label for each in series],
            range=[list(DASHES[each.dash % len(DASHES)]) for each in series],
        ),
        legend=_legend(series),
    )


@unchecked
def curves(
    rows: Sequence[Datum],
    series: Sequence[Series],
    x: Axis,
    y: Axis,
    *,
    title: str,
    notes: Iterable[str] = (),
    tips: Mapping[str, str],
    with_line: Sequence[str] | None = None,
) -> Drawn:
    """Draw a line with its interval as a band for each series.

    Args:
        rows: data of `mark`, with `series` and the number `x`.
        series: in the order of the legend.
        x: the axis of `x`.
        y: the axis of values.
        title: of the chart.
        notes: sentences below the title.
        tips: field -> title of what the tooltip says first.
        with_line: labels of the series that are lines; the others are marks with intervals.
            Default: all.
    """
    import altair as alt

    base = over(rows)
    joined = [each for each in series if with_line is None or each.label in with_line]
    across = alt.X("x:Q", scale=alt.Scale(**x.scale()), axis=x.drawn(grid=False))
    up = alt.Y("value:Q", scale=alt.Scale(**y.scale()), axis=y.drawn(grid=True))
    up_from_low = alt.Y("low:Q", scale=alt.Scale(**y.scale()), axis=y.drawn(grid=True))
    looks = of_series(series)
    ends = [datum for each in joined for datum in _ends(rows, each)]
    # One layer for all bands: their colour is no scale, which hollow marks need for themselves.
    band = (
        over(ends)
        .mark_area(fillOpacity=0.12, opacity=1)
        .encode(
            x=across,
            y=up_from_low,
            y2="high:Q",
            fill=alt.Fill("colour:N", scale=None),
            detail="series:N",
        )
    )
    names = {each.label for each in joined}
    line = (
        over([row for row in rows if row["series"] in names])
        .mark_line(strokeWidth=1.8)
        .encode(x=across, y=up, stroke=looks["stroke"], strokeDash=dashes(series))
    )
    point = base.mark_point(size=_SIZE, strokeWidth=1.6, opacity=1).encode(
        x=across, y=up, tooltip=tooltips(rows, tips), **looks
    )
    alone = [row for row in rows if row["series"] not in names]
    span = (
        over(alone)
        .mark_rule(strokeWidth=1.8)
        .encode(
            x=across, y=up_from_low, y2="high:Q", stroke=looks["stroke"], strokeDash=dashes(series)
        )
    )
    chart = alt.layer(*([band] if ends else []), line, *([span] if alone else []), point)
    chart = chart.properties(height=HEIGHT)
    return with_title(chart, title, notes)


def _ends(rows: Sequence[Datum], series: Series) -> list[dict[str, Any]]:
    """Return the band of a series; without an interval at any point it has none."""
    own = [row for row in rows if row["series"] == series.label]
    if all(row["low"] == row["high"] for row in own):
        return []
    look = {"series": series.label, "colour": series.colour}
    return [{**{name: row[name] for name in ("x", "low", "high")}, **look} for row in own]


@unchecked
def dots(
    rows: Sequence[Datum],
    places: Sequence[str],
    series: Sequence[Series],
    x: Axis,
    *,
    title: str,
    notes: Iterable[str] = (),
    tips: Mapping[str, str],
    is_beside: bool = True,
) -> Drawn:
    """Draw a dot with its interval for each place and series, one place below the other.

    Args:
        rows: data of `mark`, with `place` and `series`.
        places: labels of the places, wrapped and unique, first on top.
        series: in the order of the legend, and of the dots of a place.
        x: the axis of values.
        title: of the chart.
        notes: sentences below the title.
        tips: field -> title of what the tooltip says first.
        is_beside: whether a place has a dot of each series, one below the other.
    """
    import altair as alt

    base = over(rows)
    looks = of_series(series)
    down: dict[str, Any] = {"y": names_down(places)}
    if len(series) > 1 and is_beside:
        down["yOffset"] = alt.YOffset(
            "series:N", scale=alt.Scale(domain=[each.label for each in series], paddingOuter=0.35)
        )
    across = alt.X("value:Q", scale=alt.Scale(**x.scale()), axis=x.drawn(grid=True))
    tip = tooltips(rows, tips)
    span = base.mark_rule(strokeWidth=1.8).encode(
        x=alt.X("low:Q", scale=alt.Scale(**x.scale()), axis=x.drawn(grid=True)),
        x2="high:Q",
        stroke=looks["stroke"],
        strokeDash=dashes(series),
        tooltip=tip,
        **down,
    )
    point = base.mark_point(size=_SIZE, strokeWidth=1.6, opacity=1).encode(
        x=across, tooltip=tip, **looks, **down
    )
    chart = alt.layer(span, point)
    return with_title(
        chart.properties(height=height_of(places, len(series) if is_beside else 1)), title, notes
    )


@unchecked
def bars(
    rows: Sequence[Datum],
    places: Sequence[str],
    series: Sequence[Series],
    title: str,
    x: str,
    *,
    notes: Iterable[str] = (),
    tips: Mapping[str, str],
    with_legend: bool = True,
) -> Drawn:
    """Draw a bar of a count for each place, one below the other.

    Args:
        rows: data with `place`, `series` and the count `value`.
        places: labels of the places, wrapped and unique, first on top.
        series: in the order of the legend.
        title: of the chart.
        x: title of the axis of counts.
        notes: sentences below the title.
        tips: field -> title of what the tooltip says.
        with_legend: False where the places say the series already.
    """
    import altair as alt

    colour = alt.Color(
        "series:N",
        scale=alt.Scale(
            domain=[each.label for each in series], range=[each.colour for each in series]
        ),
        legend=alt.Legend(title=None) if with_legend and len(series) > 1 else None,
    )
    most = max((row["value"] for row in rows), default=1)
    axis = Axis(title=x, is_whole=True, span=(0, most)).drawn(grid=True)
    bar = (
        over(rows)
        .mark_bar(height=10, stroke=RULE, strokeWidth=0)
        .encode(
            x=alt.X("value:Q", scale=alt.Scale(domainMin=0), axis=axis),
            y=names_down(places),
            color=colour,
            tooltip=[alt.Tooltip(f"{name}:N", title=title) for name, title in tips.items()],
        )
    )
    return with_title(alt.layer(bar).properties(height=height_of(places)), title, notes)
