"""What one victim's successes do to another: a heat map with counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from medstress.metrics.old_stats.estimates import read_share
from medstress.report.charts import INK, RULE, SERIES, Plot, plot
from medstress.report.labels import Row
from medstress.report.plots.axes import names_down
from medstress.report.plots.layers import over, unchecked, with_title
from medstress.report.plots.words import (
    first_panels,
    middle,
    most_important,
    names_in,
    on_axis,
    place_words,
    read,
    unique,
)
from medstress.results.formats import NONE, as_text, count, decimal, percent, shorten
from medstress.results.names import Names
from medstress.results.table import Format, Table, as_row, columns

if TYPE_CHECKING:
    from medstress.report.plots.layers import Drawn

MOST_VICTIMS = 12
"""Victims of a matrix: with more, a cell has no room for its counts."""
_CELL = 38
_DARKEST = 0.5
"""Opacity of a share of 1: text on it still reads well, light or dark."""
_TOP = 18
_MOST_SPOKEN = 12


def transfer_plots(summary: Mapping[str, Any]) -> Iterator[Plot]:
    """Yield a matrix for each data set, group and attack whose successes were asked of others.

    A cell that is not known (no success on an item that the other got right, or nobody asked)
    stays blank.
    """
    names = names_in(summary)
    panels: dict[tuple[str, ...], list[Row]] = {}
    for row in (summary.get("analysis") or {}).get("transfer") or ():
        key = tuple(as_text(row[name]) for name in ("dataset", "group", "attack"))
        panels.setdefault(key, []).append(row)
    told = {
        key: rows
        for key, rows in panels.items()
        if any(read(row["transfer"]) for row in rows if row["from"] != row["to"])
    }
    drawn, left_out = first_panels(told, lambda rows: sum(row["n_reached"] or 0 for row in rows))
    for i, rows in enumerate(drawn.values()):
        yield _panel(rows, names, f"transfer-{i}-data", () if i else left_out)


def _panel(rows: Sequence[Row], names: Names, name: str, notes: tuple[str, ...]) -> Plot:
    title = place_words(rows[0], names, "attack", "dataset", "group")
    n_successes = {as_text(row["from"]): row["n_successes"] for row in rows}
    keys = list(dict.fromkeys([*n_successes, *(as_text(row["to"]) for row in rows)]))
    kept, more = most_important(keys, MOST_VICTIMS, lambda key: n_successes.get(key, 0), "victims")
    said = dict(zip(kept, unique(names.of("victim", key) for key in kept), strict=True))
    shown = [row for row in rows if as_text(row["from"]) in said and as_text(row["to"]) in said]
    spoken = "; ".join(
        f"from {shorten(said[as_text(row['from'])], 40)} "
        f"to {shorten(said[as_text(row['to'])], 40)} "
        f"{decimal(row['transfer']['value']) if read(row['transfer']) else 'unknown'}"
        for row in shown[:_MOST_SPOKEN]
    )
    return plot(
        _matrix(shown, said, title, (*more, *notes)),
        label=f"Share of one victim's successes that mislead another, {shorten(title, 120)}: "
        f"{spoken}.",
        data=_numbers(name, title, rows, names),
    )


@unchecked
def _matrix(
    rows: Sequence[Row], said: Mapping[str, str], title: str, notes: Sequence[str]
) -> Drawn:
    import altair as alt

    down = dict(zip(said, on_axis(said.values()), strict=True))
    across = dict(zip(said, unique(middle(text, _TOP) for text in said.values()), strict=True))
    found = {(as_text(row["from"]), as_text(row["to"])): row for row in rows}
    cells = [
        _cell(found.get((first, second)), first, second, down, across, said)
        for first in said
        for second in said
    ]
    is_blank = any(cell["share"] is None for cell in cells)
    # A shade of one colour needs no second colour in dark mode; the counts say the same in text.
    shade = alt.FillOpacity(
        "share:Q", scale=alt.Scale(domain=[0, 1], range=[0.04, _DARKEST]), legend=None
    )
    x = alt.X(
        "to:N",
        scale=alt.Scale(domain=list(across.values())),
        axis=alt.Axis(
            title="asked of", orient="top", labelAngle=-40, labelLimit=140, labelOverlap=False
        ),
    )
    tips = {
        "from_victim": "Successes against",
        "to_victim": "Asked of",
        "said": "Misled as well",
        "numerator": "Numerator",
        "denominator": "Denominator",
        "interval": "95 % interval",
        "method": "Method",
        "attack": "Attack",
        "dataset": "Data set",
        "group": "Group",
    }
    tip = [alt.Tooltip(f"{field}:N", title=head) for field, head in tips.items()]
    y = names_down(list(down.values()))
    known = over([cell for cell in cells if cell["share"] is not None])
    frames = over(cells).mark_rect(fill=None, stroke=RULE).encode(x=x, y=y, tooltip=tip)
    filled = known.mark_rect(fill=SERIES[0]).encode(x=x, y=y, fillOpacity=shade, tooltip=tip)
    text = known.mark_text(fill=INK, fontSize=11).encode(x=x, y=y, text="counted:N", tooltip=tip)
    chart = alt.layer(frames, filled, text).properties(height=_CELL * len(said))
    blank = ("A blank cell is unknown: nothing was asked there, or nothing is known.",)
    legend = "Successes against the victim at the left: how many mislead the one above as well."
    return with_title(chart, title, (legend, *(blank if is_blank else ()), *notes))


def _cell(
    row: Row | None,
    first: str,
    second: str,
    down: Mapping[str, str],
    across: Mapping[str, str],
    said: Mapping[str, str],
) -> dict[str, Any]:
    estimate = read(row["transfer"]) if row else None
    known = estimate is not None and estimate.low is not None and estimate.high is not None
    value = estimate.value if estimate else None
    return {
        "place": down[first],
        "to": across[second],
        "from_victim": said[first],
        "to_victim": said[second],
        "share": value,
        "counted": f"{estimate.hits}/{estimate.n}"
        if estimate and estimate.hits is not None
        else decimal(value),
        "said": "unknown" if value is None else f"{percent(value)} %",
        "numerator": count(estimate.hits) if estimate else NONE,
        "denominator": count(estimate.n) if estimate else NONE,
        "interval": f"{percent(estimate.low)} to {percent(estimate.high)} %"
        if estimate and known
        else "none",
        "method": str(row["transfer"].get("method", "")) if row else "no success against it",
        **({name: as_text(row[name]) for name in ("attack", "dataset", "group")} if row else {}),
        "victim": first,
    }


def _numbers(name: str, title: str, rows: Sequence[Row], names: Names) -> Table:
    return Table(
        name=name,
        caption=f"Transfer of successes from one victim to another: {title}",
        columns=(
            *columns(Format.TEXT, "Successes against", "Asked of"),
            *columns(Format.SHARE, "Misled as well"),
            *columns(Format.COUNT, "Successes", "Right there", "Asked", "Wrong", "Unreadable"),
        ),
        rows=tuple(
            as_row(
                names.of("victim", row["from"]),
                names.of("victim", row["to"]),
                read_share(row["transfer"]),
                *(row[key] for key in ("n_successes", "n_right", "n_asked", "n_wrong")),
                row["n_unreadable"],
            )
            for row in rows
        ),
        notes=(
            "Of the items on which the first fell and the other was right before any change. A "
            "victim with itself: its successes asked again, alone.",
        ),
        n_labels=2,
    )
