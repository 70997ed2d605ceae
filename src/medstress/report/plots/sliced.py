"""Success by slice of the data, the worst slice of each property marked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medstress.metrics.slices import is_too_small
from medstress.report.charts import Plot, plot
from medstress.report.labels import FACTORS, Row
from medstress.report.plots import layers
from medstress.report.plots.axes import share_axis
from medstress.report.plots.layers import Series
from medstress.report.plots.words import (
    MOST_ROWS,
    first_panels,
    harm,
    mark,
    most_important,
    names_in,
    on_axis,
    place_words,
    read,
)
from medstress.results.formats import as_text, decimal, shorten
from medstress.results.measures import measure
from medstress.results.table import Cell, Format, Table, as_row, columns

WORST, OTHER, SMALL = "worst by its property", "other slices", "too few items"
_MOST_SPOKEN = 6


def slice_plots(summary: Mapping[str, Any]) -> Iterator[Plot]:
    """Yield a chart of the slices of each arm, those of a property together, highest ASR first.

    The worst is the one that the summary names: the highest after shrinkage, so that no small
    slice is picked by chance. None is marked where slices do not differ beyond chance, or where
    the worst has too few items to say anything.
    """
    names = names_in(summary)
    worst = {
        (*_arm(row), as_text(row["by"])): row
        for row in (summary.get("slicing") or {}).get("worst") or ()
    }
    panels: dict[tuple[str, ...], list[Row]] = {}
    for row in summary.get("slices") or ():
        panels.setdefault(_arm(row), []).append(row)
    told = {arm: rows for arm, rows in panels.items() if any(read(r["asr"]) for r in rows)}
    drawn, left_out = first_panels(told, lambda rows: max(harm(row["asr"]) for row in rows))
    for i, (arm, rows) in enumerate(drawn.items()):
        title = place_words(rows[0], names, "attack", "victim", "dataset", "group")
        marked = {
            (by, as_text(row["value"]))
            for (*at, by), row in worst.items()
            if tuple(at) == arm
            and row.get("differs", True)
            and read(row["asr"])
            and not is_too_small(row)
        }
        yield _panel(rows, marked, title, f"slices-{i}-data", () if i else left_out)


def _panel(
    rows: Sequence[Row],
    marked: set[tuple[str, str]],
    title: str,
    name: str,
    notes: tuple[str, ...],
) -> Plot:
    known = [row for row in rows if read(row["asr"])]

    def weight(row: Row) -> float:
        return 2.0 if _slice(row) in marked else harm(row["asr"])

    kept, more = most_important(known, MOST_ROWS, weight, "slices")
    order = {by: i for i, by in enumerate(dict.fromkeys(as_text(row["by"]) for row in rows))}
    kept.sort(key=lambda row: (order[as_text(row["by"])], -_value(row), as_text(row["value"])))
    places = on_axis(f"{_words(row['by'])} · {as_text(row['value'])}" for row in kept)
    data = [
        mark(
            estimate,
            row,
            place=place,
            series=_kind(row, marked),
            by=as_text(row["by"]),
            slice=as_text(row["value"]),
        )
        for place, row in zip(places, kept, strict=True)
        if (estimate := read(row["asr"]))
    ]
    kinds = [kind for kind in (OTHER, WORST, SMALL) if any(d["series"] == kind for d in data)]
    looks = {OTHER: (0, 0), WORST: (1, 0), SMALL: (0, 1)}
    chart = layers.dots(
        data,
        places,
        [Series(label=kind, look=looks[kind][0], dash=looks[kind][1]) for kind in kinds],
        share_axis("right answers lost (ASR)", (datum["high"] for datum in data)),
        title=title,
        notes=(*more, *notes),
        tips={"slice": "Slice", "by": "By", "series": "Mark"},
        is_beside=False,
    )
    worst = [row for row in kept if _slice(row) in marked]
    told = [row for row in (*worst, *kept) if read(row["asr"])][: max(len(worst), _MOST_SPOKEN)]
    spoken = "; ".join(
        f"{'worst by its property: ' if row in worst else ''}{shorten(as_text(row['by']), 40)} = "
        f"{shorten(as_text(row['value']), 40)} {decimal(_value(row))}"
        for row in {_slice(row): row for row in told}.values()
    )
    said = f"Attack success rate by slice of the data, {shorten(title, 120)}: {spoken}."
    return plot(chart, label=said, data=_numbers(name, title, rows, marked))


def _numbers(name: str, title: str, rows: Sequence[Row], marked: set[tuple[str, str]]) -> Table:
    return Table(
        name=name,
        caption=f"Slices, as plotted: {title}",
        columns=(
            *columns(Format.TEXT, "By", "Slice"),
            *columns(Format.COUNT, "Items"),
            measure("asr").column,
            *columns(Format.SCORE, "ASR, shrunken"),
        ),
        rows=tuple(
            as_row(
                as_text(row["by"]),
                Cell(
                    value=as_text(row["value"]),
                    lines=("the worst",) if _slice(row) in marked else (),
                ),
                row.get("n_items"),
                measure("asr").read(row),
                row.get("asr_shrunken"),
            )
            for row in rows
        ),
        n_labels=2,
    )


def _kind(row: Row, marked: set[tuple[str, str]]) -> str:
    if _slice(row) in marked:
        return WORST
    return SMALL if is_too_small(row) else OTHER


def _slice(row: Row) -> tuple[str, str]:
    return as_text(row["by"]), as_text(row["value"])


def _arm(row: Row) -> tuple[str, ...]:
    return tuple(as_text(row.get(name)) for name in FACTORS)


def _value(row: Row) -> float:
    estimate = read(row["asr"])
    return (estimate.value or 0.0) if estimate else -1.0


def _words(by: Any) -> str:
    return as_text(by).replace("_", " ")
