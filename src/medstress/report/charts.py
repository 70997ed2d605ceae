"""Pictures of charts: the only module that knows Altair and Vega's converter.

A page holds pictures that were drawn when it was made, one for each panel, as narrow as a phone:
wide windows put several next to each other. Nothing has to load, run or be drawn again, so a page
looks the same offline, in print and without scripts, and is a megabyte smaller than one that
carries Vega. Colours are variables of the style sheet, for light and dark need one picture.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal
from xml.etree import ElementTree

from markupsafe import Markup, escape

from medstress.analyses.shown import Chart, Point, as_entry, model_names, spaced
from medstress.report.text import NONE, clean, interval, number, one_line
from medstress.stats.estimate import Estimate

WIDTH = 350
"""CSS pixels of a picture: a window of 400 shows it whole."""
ROW, MARK = 17, 9
"""Pixels of a mark's line, and of the mark."""
HEIGHT = 190
"""Pixels of a plot with numbers on both axes."""
MOST_PANELS, MOST_ROWS, MOST_SERIES = 12, 40, 8
"""What one chart draws at most; the tables have all."""
TITLE = 28
"""Characters of a line of an axis's title: next to long names the plot has room for no more."""
LONGEST = 120
"""Characters of a name in a picture."""
PALETTE = ("0072b2", "c84c00", "007a5a", "a8487f", "8f6200", "5b3fa8", "5a6268", "2b8fb8")
"""Of pictures in files; the style sheet has the same for pages in the light."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
GLYPHS = "●■▲◆▼✚"
"""The same in a legend: colour is never the only sign."""
VEGA_LITE = "6.4"
_JAVASCRIPT = (
    *("constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable"),
    *("toLocaleString", "toString", "valueOf"),
)
"""Names that every object of JavaScript has: Vega takes them for its own."""
_SVG = "http://www.w3.org/2000/svg"
_FONT = "system-ui, sans-serif"
_INK = {"ink": "#1c2226", "soft": "#535e66", "rule": "#d3d8db"}
Format = Literal["svg", "png", "pdf"]


class Colours:
    """The colour and the name of every series: a model has one of each, whatever the chart."""

    def __init__(self, models: Iterable[str]) -> None:
        """Give models their colours, in order, by label and by name."""
        names = model_names(dict.fromkeys(models))
        self._models = {one_line(m): i for i, pair in enumerate(names.items()) for m in pair}

    def named(self, chart: Chart) -> Chart:
        """Return a chart whose names are as people read them; those of models stay as given."""
        if chart.kind == "words":
            return chart

        def words(text: str) -> str:
            line = one_line(text)
            name = line if line in self._models else spaced(line)
            name += "\N{NO-BREAK SPACE}" * (name in _JAVASCRIPT)
            return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"

        points = (
            replace(p, x=words(p.x) if isinstance(p.x, str) else p.x, series=words(p.series))
            for p in chart.points
        )
        return replace(chart, points=tuple(points))

    def of(self, chart: Chart) -> dict[str, int]:
        """Return series -> number of its colour, in the order of the chart."""
        series = dict.fromkeys(point.series for point in chart.points)
        if not (chart.by_model or series.keys() <= self._models.keys()):
            return {name: i for i, name in enumerate(series)}
        numbers = dict(self._models)
        return {name: numbers.setdefault(name, len(numbers)) for name in series}


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One picture of a chart."""

    title: str
    body: Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A chart as a page shows it."""

    title: str
    legend: Sequence[tuple[str, str, int]]
    """Glyph, name and number of the colour of every series, where there are several."""
    panels: Sequence[Panel]
    notes: Sequence[str]


def draw(chart: Chart, colours: Colours) -> Drawn:
    """Draw every panel of a chart; what is too much for a picture is left to the tables."""
    chart = colours.named(chart)
    numbers = colours.of(chart)
    by_panel, notes = _panels(chart)
    panels = []
    for title, points in by_panel.items():
        label = one_line(f"{chart.title}{f': {title}' if title else ''}")
        if chart.kind == "words":
            body = _worded(points)
        else:
            body = _inline(_panel(chart, points, numbers, in_page=True), _spoken(label, points))
        panels.append(Panel(title=one_line(title), body=body))
    legend = [
        (GLYPHS[i % len(GLYPHS)], name, 1 + i % len(PALETTE)) for name, i in numbers.items() if name
    ]
    has_legend = len(legend) > 1 and chart.kind not in ("heat", "words")
    return Drawn(
        title=one_line(chart.title),
        legend=legend if has_legend else (),
        panels=panels,
        notes=[*map(one_line, chart.all_notes), *notes],
    )


def write(chart: Chart, form: Format, colours: Colours) -> bytes:
    """Return a chart as a file: its panels below each other, and a legend."""
    import vl_convert

    chart = colours.named(chart)
    numbers, (by_panel, _) = colours.of(chart), _panels(chart)
    panels = [
        _panel(chart, points, numbers, in_page=False)
        | {"title": one_line(f"{chart.title}{f': {title}' if title else ''}")}
        for title, points in by_panel.items()
    ]
    spec: dict[str, Any] = {
        "vconcat": panels,
        "config": _config(in_page=False),
        "background": "white",
    }
    if form == "png":
        return bytes(vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=2))
    if form == "pdf":
        return bytes(vl_convert.vegalite_to_pdf(spec, vl_version=VEGA_LITE))
    return str(vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)).encode()


def narrowed(
    chart: Chart, panels: Sequence[str], rows: Sequence[str], n_panels: int, n_rows: int
) -> Chart:
    """Return the part of a chart that a first screen has room for.

    Args:
        chart: bars or dots over names.
        panels: those that come first.
        rows: what is on the axis, the most important first.
        n_panels: at most so many panels.
        n_rows: at most so many rows in each.
    """
    titles = dict.fromkeys([*panels, *(point.panel for point in chart.points)])
    own = {title: [p for p in chart.points if p.panel == title] for title in titles}
    points: list[Point] = []
    for title in [title for title in titles if own[title]][:n_panels]:
        there = [point.x for point in own[title]]
        kept = [x for x in dict.fromkeys([*rows, *there]) if x in there][:n_rows]
        chosen = [point for point in own[title] if point.x in kept]
        points += sorted(chosen, key=lambda point: kept.index(point.x))
    return replace(chart, points=tuple(points))


def _panels(chart: Chart) -> tuple[dict[str, list[Point]], list[str]]:
    """Return the points of every panel that is drawn, and what is not."""
    by_panel: dict[str, list[Point]] = {}
    for point in chart.points:
        by_panel.setdefault(point.panel, []).append(point)
    notes = []
    if len(by_panel) > MOST_PANELS:
        notes.append(f"The first {MOST_PANELS} of {len(by_panel):,} pictures; the tables have all.")
    kept = {}
    for title in list(by_panel)[:MOST_PANELS]:
        points = by_panel[title]
        # Too many rows of bars, or curves, would only be a patch of colour.
        part = "series" if chart.kind == "lines" else "x"
        most = MOST_SERIES if chart.kind == "lines" else MOST_ROWS
        names = list(dict.fromkeys(getattr(point, part) for point in points))
        if len(names) > most and (part == "series" or not _is_numeric(points)):
            highest = {name: _highest(points, part, name) for name in names}
            chosen = set(sorted(names, key=lambda name: -highest[name])[:most])
            points = [point for point in points if getattr(point, part) in chosen]
            notes.append(
                f"{title}{': t' if title else 'T'}he highest {most} of {len(names):,} are drawn; "
                "the tables have all."
            )
        kept[title] = points
    return kept, notes


def _highest(points: Sequence[Point], part: str, name: object) -> float:
    return max(value_of(point) or 0.0 for point in points if getattr(point, part) == name)


def value_of(point: Point) -> float | None:
    """Return the value of a mark; None where there is none."""
    value = point.y.value if isinstance(point.y, Estimate) else point.y
    return None if value is None or value != value else float(value)


def _is_numeric(points: Sequence[Point]) -> bool:
    return all(not isinstance(point.x, str) for point in points)


def _count(point: Point) -> str:
    """Return what a mark counts, in a few letters."""
    y = point.y
    if not isinstance(y, Estimate):
        return number(y, "score")
    if y.value is None:
        return f"{NONE} (n = {y.n:,})"
    return f"n = {y.n:,}" if y.hits is None else f"{y.hits:,}/{y.n:,}"


def _tip(point: Point) -> str:
    """Return all about a mark."""
    y = point.y
    value = number(value_of(point), "score")
    if isinstance(y, Estimate):
        worst = as_entry(y).lines
        value = " ".join(filter(None, (value, interval(y, "score"), *worst, f"({_count(point)})")))
    at = point.x if isinstance(point.x, str) else number(point.x, "number")
    return ", ".join(filter(None, (at, one_line(point.series), value, one_line(point.tip))))


def _spoken(label: str, points: Sequence[Point]) -> str:
    """Return the accessible name of a picture: its title and its first numbers."""
    shown = "; ".join(_tip(point) for point in points[:12])
    more = len(points) - 12
    return f"{label}. {shown}{f'; and {more:,} more' if more > 0 else ''}."


def _rows(points: Sequence[Point]) -> list[dict[str, Any]]:
    rows = []
    for point in points:
        y = point.y if isinstance(point.y, Estimate) else None
        rows.append(
            {
                "x": point.x,
                "y": value_of(point),
                "low": y.ends[0] if y else None,
                "high": y.ends[1] if y else None,
                "n": _count(point),
                "shown": number(value_of(point), "score"),
                "series": point.series,
                "tip": _tip(point),
            }
        )
    return rows


def _ends(chart: Chart) -> list[float]:
    """Return the ends of the axis of values, alike in all panels: whole intervals, and 0."""
    if chart.unit:
        return [0.0, 1.0]
    ys = [point.y for point in chart.points]
    ends = [e for y in ys if isinstance(y, Estimate) for e in y.ends if e is not None]
    values = [*ends, *(v for v in map(value_of, chart.points) if v is not None), 0.0]
    room = 0.04 * ((max(values) - min(values)) or 1.0)
    return [min(values) - (room if min(values) < 0 else 0.0), max(values) + room]


def _panel(
    chart: Chart, points: Sequence[Point], numbers: Mapping[str, int], *, in_page: bool
) -> dict[str, Any]:
    """Return one picture as a Vega-Lite chart; fields of its data have names of ours."""
    import altair as alt

    rows = _rows(points)
    data = alt.Chart(alt.InlineData(values=rows))
    names = [name for name in numbers if any(p.series == name for p in points)]
    colours = [_series(numbers[name], in_page) for name in names]
    has_legend = not in_page and len(names) > 1
    legend = alt.Legend(orient="bottom", columns=2, symbolOpacity=1) if has_legend else None
    colour = alt.Color(
        "series:N",
        sort=None,
        title=None,
        scale=alt.Scale(domain=names, range=colours),
        legend=legend,
    )
    shape = alt.Shape(
        "series:N",
        sort=None,
        title=None,
        scale=alt.Scale(
            domain=names, range=[SHAPES[numbers[name] % len(SHAPES)] for name in names]
        ),
        legend=legend,
    )
    tip = alt.Description("tip:N")
    values = alt.Scale(domain=_ends(chart), nice=not chart.unit, zero=False)
    if chart.kind == "heat":
        made, height = _heat(alt, data, chart, points, in_page=in_page), None
    elif chart.kind in ("bars", "words") or not _is_numeric(points):
        y = alt.Y("x:N", sort=None, title=None, axis=alt.Axis(labelLimit=140 if in_page else 0))
        offset = alt.YOffset("series:N", sort=names)
        x = alt.X("y:Q", title=_title(chart.y), scale=values, axis=alt.Axis(tickCount=5))
        is_bars = chart.kind not in ("dots", "lines")
        base = data.encode(y=y, yOffset=offset) if len(names) > 1 else data.encode(y=y)
        marks = (
            base.mark_bar(height=MARK, opacity=0.75).encode(x=x, color=colour, description=tip)
            if is_bars
            else base.mark_point(filled=True, size=45, opacity=1).encode(
                x=x, color=colour, shape=shape, description=tip
            )
        )
        # A bar of nothing is seen by its end.
        ends = [base.mark_tick(thickness=2, size=MARK, aria=False).encode(x=x, color=colour)]
        made = alt.layer(
            marks,
            *ends[:is_bars],
            base.mark_rule(color=_colour("ink", in_page), strokeWidth=1.2).encode(
                x=alt.X("low:Q"), x2="high:Q"
            ),
            base.mark_text(align="left", fontSize=11).encode(
                x=alt.value(alt.expr("width + 6")), text="n:N"
            ),
        )
        height = len({point.x for point in points}) * (len(names) * ROW + 10)
    else:
        scale = alt.Scale(type=_scale(chart, points), nice=not chart.log_x, zero=False)
        x = alt.X("x:Q", title=_title(chart.x), scale=scale, axis=_ticks(alt, points))
        y = alt.Y("y:Q", title=_title(chart.y), scale=values, axis=alt.Axis(tickCount=5))
        base = data.encode(x=x, color=colour)
        marks = base.mark_point(filled=True, size=38, opacity=1).encode(
            y=y, shape=shape, description=tip
        )
        spread = alt.Y("low:Q", title=_title(chart.y))
        if chart.kind == "lines":
            parts = [base.mark_line(strokeWidth=2).encode(y=y), marks]
            few = len(names) <= 3
            of = base.mark_area(opacity=0.14) if few else base.mark_rule(opacity=0.4)
            parts.insert(0, of.encode(y=spread, y2="high:Q"))
            made = alt.layer(*parts)
        else:
            made = alt.layer(base.mark_rule(strokeWidth=1.2).encode(y=spread, y2="high:Q"), marks)
        height = HEIGHT
    spec: dict[str, Any] = made.to_dict(validate=False)
    for key in ("config", "$schema", "datasets"):
        spec.pop(key, None)
    # Altair puts rows where only a whole picture finds them, not one of several panels.
    spec["data"] = {"values": rows}
    spec["width"] = WIDTH if in_page else 260
    if height is not None:
        spec["height"] = height
    return spec


def _heat(alt: Any, data: Any, chart: Chart, points: Sequence[Point], *, in_page: bool) -> Any:
    """Return tiles that are the fuller the further their value is from 0, and the value."""
    up, down = (_series(i, in_page) for i in (0, 1))
    most = max((abs(v) for v in map(value_of, points) if v is not None), default=1.0) or 1.0
    angle = -40 if any(len(str(point.x)) > 3 for point in points) else 0
    base = data.encode(
        x=alt.X("x:N", sort=None, title=_title(chart.x), axis=alt.Axis(labelAngle=angle)),
        y=alt.Y("series:N", sort=None, title=None, axis=alt.Axis(labelLimit=110 if in_page else 0)),
    )
    tiles = base.mark_rect().encode(
        fillOpacity=alt.FillOpacity(
            "size:Q",
            scale=alt.Scale(domain=[0, 1 if chart.unit else most], range=[0.04, 0.55]),
            legend=None,
        ),
        color=alt.condition("datum.y < 0", alt.value(down), alt.value(up)),
        description=alt.Description("tip:N"),
    )
    return alt.layer(
        tiles.transform_calculate(size="abs(datum.y)"),
        base.mark_text(fontSize=11).encode(text="shown:N"),
    ).properties(height=alt.Step(26))


def _title(text: str) -> list[str]:
    """Return the title of an axis, in lines that no picture cuts."""
    return textwrap.wrap(one_line(text), TITLE)


def _scale(chart: Chart, points: Sequence[Point]) -> Literal["linear", "log", "symlog"]:
    if not chart.log_x:
        return "linear"
    return "log" if all(float(point.x) > 0 for point in points) else "symlog"


def _ticks(alt: Any, points: Sequence[Point]) -> Any:
    """Return an axis with a tick at every value where there are few: budgets, attempts, n."""
    values = sorted({float(point.x) for point in points})
    return alt.Axis(values=values) if len(values) <= 8 else alt.Axis(tickCount=6)


def _series(i: int, in_page: bool) -> str:
    place = i % len(PALETTE)
    return f"var(--series-{1 + place})" if in_page else f"#{PALETTE[place]}"


def _colour(name: str, in_page: bool) -> str:
    return f"var(--{name})" if in_page else _INK[name]


def _config(*, in_page: bool) -> dict[str, Any]:
    """Return how all pictures look."""
    ink, soft, rule = (_colour(name, in_page) for name in ("ink", "soft", "rule"))
    text = {"labelColor": ink, "titleColor": soft, "labelFont": _FONT, "titleFont": _FONT}
    return {
        "background": None,
        "font": _FONT,
        "view": {"stroke": None},
        "text": {"color": ink, "font": _FONT},
        "title": {"color": ink, "font": _FONT, "anchor": "start", "fontSize": 12},
        "legend": {**text, "labelLimit": 240 if in_page else 0},
        "axis": {
            **text,
            "domain": False,
            "ticks": False,
            "labelFlush": False,
            "gridColor": rule,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "labelPadding": 5,
        },
    }


def _inline(spec: dict[str, Any], label: str) -> Markup:
    """Return a picture as an element of a page; every mark has its numbers as a tool tip."""
    import vl_convert

    # The reader's font may be wider than the one that texts are measured with.
    whole = {
        **spec,
        "config": _config(in_page=True),
        "autosize": {"type": "fit-x", "contains": "padding"},
        "padding": {"left": 24, "right": 16, "top": 4, "bottom": 4},
    }
    ElementTree.register_namespace("", _SVG)
    root = ElementTree.fromstring(vl_convert.vegalite_to_svg(whole, vl_version=VEGA_LITE))
    for element in root.iter():
        element.tag = element.tag.removeprefix(f"{{{_SVG}}}")
        # A content policy without inline styles ignores them, with a complaint for each.
        element.attrib.pop("style", None)
        tip = element.attrib.pop("aria-label", None)
        is_mark = element.attrib.pop("role", None) == "graphics-symbol"
        if tip and is_mark and element.attrib.pop("aria-roledescription", "") != "axis":
            title = ElementTree.Element("title")
            title.text = tip
            element.insert(0, title)
        for name in ("aria-roledescription", "aria-hidden"):
            element.attrib.pop(name, None)
    for name in ("class", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-label": label}
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _worded(points: Sequence[Point]) -> Markup:
    """Return a text whose words are the darker the more they matter; a frame marks some."""
    most = max((abs(v) for v in map(value_of, points) if v is not None), default=1.0) or 1.0
    words = []
    for point in sorted(points, key=lambda point: float(point.x)):
        value = value_of(point) or 0.0
        step = round(5 * abs(value) / most)
        classes = [f"{'down' if value < 0 else 'up'}-{step}"] * (step > 0)
        classes += ["marked"] * point.marked
        word = escape(clean(point.series))
        words.append(
            f'<span class="{" ".join(classes)}" title="{escape(_tip(point))}">{word}</span>'
            if classes
            else str(word)
        )
    return Markup(f'<p class="weighed">{"".join(words)}</p>')
