"""The picture of the first screen: right answers before, after the control, after each attack."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from medstress.metrics.old_stats.estimates import Estimate, read_share
from medstress.report.charts import INK, N_COLOURS, PAPER, SERIES, SOFT, Plot, plot
from medstress.report.labels import Row, is_control, label_text, number, spec_of
from medstress.report.picture_parts import Part, is_known, parts_of
from medstress.report.section import Source
from medstress.results.formats import decimal, interval, plural, shorten
from medstress.results.names import CONTROL_WORDS, key_of
from medstress.results.table import Format, Table, as_row, columns

if TYPE_CHECKING:
    import altair

MOST_PANELS, MOST_LINES, MOST_VICTIMS = 4, 8, 6
"""Data sets and groups, lines of each, and victims that are drawn; the table has all."""
_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
_MARKS = ("●", "■", "▲", "◆", "▼", "✚")
_LABEL = 46
"""Characters of a line above its dots, at most; a longer name goes on in the next line."""
_NARROW = 20
"""The same of lines that fit in half the width of a phone."""
_VALUE = 0.23
"""Room that a written value needs, as a share of half the width of a phone."""
_LINE, _DOTS, _GAP = 15, 13, 6
"""Heights in pixels: a line of text, the dots of a victim, the space below."""
BEFORE = "before any edit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A victim in the key of the picture."""

    name: str
    """Its name in words."""
    key: str
    """Its key."""
    mark: str
    """The character that stands for its shape."""
    colour: int
    """Number of its colour, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One data set and group."""

    title: str
    """Its name; empty if it is the only one."""
    plot: Plot
    """Its dots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The picture with its key."""

    title: str
    """What is drawn."""
    key: Sequence[Entry]
    """The victims; empty if there is one."""
    panels: Sequence[Panel]
    """One for each data set and group."""
    notes: Sequence[str]
    """What is not drawn."""
    is_narrow: bool
    """Whether two panels have room beside each other on a phone: no line is long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dot:
    """One value of one victim on one line."""

    line: str
    victim: str
    attack: str | None
    estimate: Estimate


def first_picture(source: Source) -> Picture | None:
    """Return the picture; None if nothing was measured."""
    rows = _rows(source)
    parts = parts_of(rows)
    if not parts:
        return None
    victims = _ordered(source, rows)
    shown = victim_looks(source)
    places: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        places.setdefault((row["dataset"], row["group"]), []).append(row)
    ranked = _places(source, places)
    panels, n_more, longest = [], 0, 0
    for place, part in product(ranked[:MOST_PANELS], parts):
        members = [row for row in places[place] if part.has(row) and key_of(row["victim"]) in shown]
        dots = list(_dots(members, part.measure))
        lines = list(dict.fromkeys(dot.line for dot in dots))
        n_more = max(n_more, len(lines) - MOST_LINES)
        kept = [dot for dot in dots if dot.line in lines[:MOST_LINES]]
        longest = max(longest, *(len(line) for line in lines), 0)
        if kept:
            name = [part.title] * (len(parts) > 1)
            name += [each for each, n in zip(place, _varying(places), strict=True) if n]
            drawn = _plot(kept, shown, place, part, _level(members))
            panels.append(Panel(title=label_text(name), plot=drawn))
    if not panels:
        return None
    title = " and ".join((parts[0].title, *(part.title.lower() for part in parts[1:])))
    return Picture(
        title=f"{title}, with 95 % intervals",
        key=[
            Entry(name=name, key=key_of(name), mark=_MARKS[i], colour=i % N_COLOURS + 1)
            for i, name in enumerate(victims[:MOST_VICTIMS])
        ]
        if len(victims) > 1
        else (),
        panels=panels,
        notes=_notes(len(victims), len(ranked), n_more, any(map(_level, places.values()))),
        is_narrow=longest <= _NARROW,
    )


def victim_looks(source: Source) -> dict[str, int]:
    """Return key -> number of its colour and mark of the victims that the picture has."""
    victims = _ordered(source, _rows(source))[:MOST_VICTIMS]
    return {key_of(name): i for i, name in enumerate(victims)}


def _rows(source: Source) -> Sequence[Row]:
    return [row for row in source.arms if not row.get("evidence")] or source.arms


def _ordered(source: Source, rows: Sequence[Row]) -> list[str]:
    """Return the victims, those first that the verdict speaks of."""
    spoken = [each["victim"] for each in (source.summary.get("verdict") or {}).get("arms") or ()]
    victims = list(dict.fromkeys(row["victim"] for row in rows))
    if len(victims) <= MOST_VICTIMS:
        return victims
    return sorted(victims, key=lambda v: spoken.index(key_of(v)) if key_of(v) in spoken else 1e9)


def _places(
    source: Source, places: Mapping[tuple[str, str], Sequence[Row]]
) -> list[tuple[str, str]]:
    """Return data sets and groups, those first that the verdict speaks of."""
    arms = (source.summary.get("verdict") or {}).get("arms") or ()
    spoken = [(arm["dataset"], arm["group"]) for arm in arms]
    keyed = {place: (key_of(place[0]), key_of(place[1])) for place in places}
    return sorted(places, key=lambda p: spoken.index(keyed[p]) if keyed[p] in spoken else 1e9)


def _varying(places: Mapping[tuple[str, str], Any]) -> tuple[bool, bool]:
    """Return whether data sets and groups differ."""
    datasets, groups = zip(*places, strict=True)
    return len(set(datasets)) > 1, len(set(groups)) > 1


def _dots(rows: Sequence[Row], measure: str) -> Iterator[_Dot]:
    """Yield the dots, line by line: before, after the controls, after the attacks.

    Attacks of one run start from the same items, as a rule, and so do their controls: then one
    line stands for all of them.
    """
    after = f"{measure}_after"
    given = [row for row in rows if "control_of" not in row]
    yield from _line(given, measure, lambda row: BEFORE)
    controls: dict[str, list[Row]] = {}
    for row in rows:
        if "control_of" in row:
            controls.setdefault(str(spec_of(row).get("name")), []).append(row)
    for name, members in controls.items():
        words = f"after {CONTROL_WORDS.get(name, name)}"
        yield from _line(members, after, lambda row, words=words: words)
    # A control that the file names as an attack stands with the other controls.
    for row in sorted(given, key=lambda row: not is_control(row)):
        estimate = _estimate(row, after)
        yield _Dot(
            line=f"after {row['attack']}",
            victim=row["victim"],
            attack=row["attack"],
            estimate=estimate,
        )


_UNKNOWN = {"value": None, "n": 0, "low": None, "high": None, "method": "not measured"}


def _estimate(row: Row, field: str) -> Estimate:
    """Return an estimate; where no answer could be read it is unknown, and no zero."""
    if number(row, "n_unreadable_at_baseline") and not (
        number(row, "n_eligible") or number(row, "n_already_wrong")
    ):
        return read_share({**_UNKNOWN, "method": "no answer could be read"})
    return read_share(row.get(field) or _UNKNOWN)


def _line(rows: Sequence[Row], field: str, words: Any) -> Iterator[_Dot]:
    """Yield one line for rows that agree victim by victim, else one for each attack.

    More seeds of the same answers have another n and the same value.
    """
    found = [(row, _estimate(row, field)) for row in rows]
    values: dict[str, set[float | None]] = {}
    for row, estimate in found:
        values.setdefault(row["victim"], set()).add(estimate.value)
    if all(len(each) == 1 for each in values.values()):
        told: set[str] = set()
        for row, estimate in found:
            if row["victim"] not in told:
                told.add(row["victim"])
                yield _Dot(line=words(row), victim=row["victim"], attack=None, estimate=estimate)
        return
    for row, estimate in found:
        of = row.get("control_of", row["attack"])
        yield _Dot(
            line=f"{words(row)} ({of})",
            victim=row["victim"],
            attack=row["attack"],
            estimate=estimate,
        )


def _level(rows: Sequence[Row]) -> float | None:
    """Return what guessing reaches, if all rows of which something was answered agree on it."""
    levels = {row.get("chance") for row in rows if is_known(row.get("accuracy"))}
    found = levels.pop() if len(levels) == 1 else None
    return None if found is None else float(found)


def _notes(n_victims: int, n_places: int, n_lines: int, with_chance: bool) -> list[str]:
    more = [
        plural(n - most, noun)
        for n, most, noun in (
            (n_victims, MOST_VICTIMS, "more victim"),
            (n_places, MOST_PANELS, "more group"),
            (n_lines + MOST_LINES, MOST_LINES, "more attack"),
        )
        if n > most
    ]
    table = [f"Not drawn: {', '.join(more)}; the tables below have more."] if more else []
    return [*(("Dashed: what guessing reaches.",) if with_chance else ()), *table]


def _plot(
    dots: Sequence[_Dot],
    victims: Mapping[str, int],
    place: tuple[str, str],
    part: Part,
    level: float | None,
) -> Plot:
    import altair as alt

    title, is_share = part.title, part.is_share
    lines, marks, height = _laid_out(dots, victims, place, is_share)
    lowest = min((mark["low"] for mark in marks if mark["low"] is not None), default=0)
    scale = alt.Scale(domain=[min(0, lowest), 1], nice=False)
    axis = alt.Axis(format="%" if is_share else ".1f", title=None, tickCount=5)
    x = alt.X("value:Q", scale=scale, axis=axis)
    down = alt.Scale(domain=[height, 0], nice=False, zero=False)
    y = alt.Y("y:Q", axis=None, scale=down)
    tips = [
        alt.Tooltip(f"{field}:N", title=heading)
        for field, heading in (
            ("line", "Line"), ("victim", "Victim"), ("told", title), ("counts", "Counts"),
            ("interval", "95 % interval"), ("method", "Interval by"),
        )
    ]  # fmt: skip
    known = alt.Chart({"values": [m for m in marks if m["value"] is not None]})
    unknown = alt.Chart({"values": [m for m in marks if m["value"] is None]})
    colour = alt.Color("colour:N", scale=None, legend=None)
    named = alt.Chart({"values": lines})
    text: dict[str, Any] = {
        "align": "left",
        "baseline": "middle",
        "fontSize": 12,
        "lineBreak": "\n",
    }
    layers = [
        # A band of paper below each label: no line of the plot runs through its letters.
        named.mark_rect(color=PAPER).encode(y=alt.Y("top:Q", axis=None, scale=down), y2="bottom:Q"),
        named.mark_text(**text, color=INK).encode(x=alt.value(0), y=y, text="text:N"),
        known.mark_rule(strokeWidth=2).encode(
            x=alt.X("low:Q", scale=scale, axis=axis),
            x2="high:Q",
            y=y,
            color=colour,
            tooltip=tips,
        ),
        known.mark_point(filled=True, size=62, opacity=1).encode(
            x=x, y=y, color=colour, shape=alt.Shape("shape:N", scale=None), tooltip=tips
        ),
        _values(marks, "high", 7, "left").encode(x="high:Q", y=y, text="told:N"),
        _values(marks, "low", -7, "right").encode(x="low:Q", y=y, text="told:N"),
        unknown.mark_text(align="left", baseline="middle", fontSize=11, color=SOFT).encode(
            x=alt.value(12), y=y, text="told:N"
        ),
    ]
    if level is not None:
        guess = alt.Chart({"values": [{"value": level}]})
        layers.insert(0, guess.mark_rule(strokeDash=[4, 4], color=SOFT).encode(x=x))
    chart = alt.layer(*layers).properties(height=height)
    spoken = "; ".join(f"{dot.victim} {dot.line} {_told(dot.estimate, is_share)}" for dot in dots)
    return plot(chart, label=f"{title}: {shorten(spoken, 900)}.", data=_table(dots, place))


def _values(marks: Sequence[Mapping[str, Any]], end: str, dx: int, align: Any) -> altair.Chart:
    """Return the written values that stand at one end of their intervals."""
    import altair as alt

    here = alt.Chart({"values": [each for each in marks if each["at"] == end]})
    text = {"align": align, "baseline": "middle", "dx": dx, "fontSize": 11, "color": SOFT}
    written: altair.Chart = here.mark_text(**text)
    return written


def _laid_out(
    dots: Sequence[_Dot], victims: Mapping[str, int], place: tuple[str, str], is_share: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], float]:
    """Return the labels, the marks below each, and the height of all."""
    lines: list[dict[str, Any]] = []
    marks: list[dict[str, Any]] = []
    top = 0.0
    for line in dict.fromkeys(dot.line for dot in dots):
        text = textwrap.wrap(line, _LABEL, break_long_words=False) or [""]
        wrapped = "\n".join(shorten(part, _LABEL) for part in text)
        band = {"top": top, "bottom": top + _LINE * len(text)}
        lines.append({"y": top + _LINE / 2, "text": wrapped, **band})
        top = band["bottom"]
        for dot in (each for each in dots if each.line == line):
            i = victims[key_of(dot.victim)]
            marks.append(
                {
                    "y": top + _DOTS / 2,
                    "line": line,
                    "victim": dot.victim,
                    **({"attack": dot.attack} if dot.attack else {}),
                    "dataset": place[0],
                    "group": place[1],
                    "colour": SERIES[i % N_COLOURS],
                    "shape": _SHAPES[i % len(_SHAPES)],
                    **_written(dot.estimate, is_share),
                }
            )
            top += _DOTS
        top += _GAP
    return lines, marks, top


def _written(estimate: Estimate, is_share: bool) -> dict[str, Any]:
    value, low, high = estimate.value, estimate.low, estimate.high
    hits = estimate.hits if is_share else None
    ends = (value if low is None else low, value if high is None else high)
    # Where it would not fit at the right the value stands at the left: so every plot is as wide.
    is_left = (ends[1] or 0) > 1 - _VALUE and (ends[0] or 0) > _VALUE
    return {
        "value": value,
        "at": None if value is None else "low" if is_left else "high",
        "low": ends[0],
        "high": ends[1],
        "told": _told(estimate, is_share),
        "counts": f"n = {estimate.n:,}" if hits is None else f"{hits:,} of {estimate.n:,}",
        "interval": interval({"low": low, "high": high}),
        "method": estimate.method,
    }


def _told(estimate: Estimate, is_share: bool) -> str:
    if estimate.value is None:
        return "unknown"
    return f"{100 * estimate.value:.0f} %" if is_share else decimal(estimate.value)


def _table(dots: Sequence[_Dot], place: tuple[str, str]) -> Table:
    return Table(
        name="first-picture",
        caption=label_text(place),
        columns=(*columns(Format.TEXT, "Line", "Victim"), *columns(Format.SHARE, "Value")),
        rows=tuple(as_row(dot.line, dot.victim, dot.estimate) for dot in dots),
        n_labels=2,
    )
