"""Names that break many items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medstress.metrics.attempts import NAME
from medstress.report.charts import Plot, plot
from medstress.report.labels import FACTORS, Row, spec_of
from medstress.report.plots import layers
from medstress.report.plots.layers import Series
from medstress.report.plots.words import (
    MOST_ROWS,
    arm_of,
    first_panels,
    most_important,
    names_in,
    on_axis,
    place_words,
)
from medstress.results.formats import as_text, count, plural, shorten
from medstress.results.table import Format, Table, as_row, columns

_MOST_SPOKEN = 6


def reusable_plots(summary: Mapping[str, Any]) -> Iterator[Plot]:
    """Yield a chart for each arm in which a name flipped two items or more.

    Names that flipped one item are left out: they say nothing about reuse. So is MedFuzz,
    which puts in sentences.
    """
    names = names_in(summary)
    rows = (*(summary.get("results") or ()), *(summary.get("pooled") or ()))
    of_sentences = {row["attack"] for row in rows if spec_of(row).get("name") == NAME}
    found = {
        tuple(as_text(row[name]) for name in FACTORS): row
        for row in (summary.get("analysis") or {}).get("reusable") or ()
        if row["attack"] not in of_sentences and any(map(_is_reused, row["names"]))
    }
    drawn, left_out = first_panels(found, lambda row: max(n["n_items"] for n in row["names"]))
    for i, row in enumerate(drawn.values()):
        title = place_words(row, names, "attack", "victim", "dataset", "group")
        yield _panel(row, title, f"reusable-{i}-data", () if i else left_out)


def _is_reused(name: Row) -> bool:
    return bool(name["n_items"] > 1)


def _panel(row: Row, title: str, name: str, notes: tuple[str, ...]) -> Plot:
    reused = sorted(filter(_is_reused, row["names"]), key=lambda each: -each["n_items"])
    kept, more = most_important(reused, MOST_ROWS, lambda each: each["n_items"], "names")
    places = on_axis(as_text(each["name"]) for each in kept)
    data = [
        {
            "place": place,
            "series": "items",
            "name": as_text(each["name"]),
            "value": each["n_items"],
            "numerator": count(each["n_items"]),
            "denominator": count(row["n_items"]),
            "n_successes": count(each["n_successes"]),
            **arm_of(row),
        }
        for place, each in zip(places, kept, strict=True)
    ]
    chart = layers.bars(
        data,
        places,
        [Series(label="items", look=0)],
        title,
        f"items flipped, of the {plural(row['n_items'], 'item')} that fell",
        notes=(*more, *notes),
        tips={
            "name": "Name",
            "numerator": "Items flipped",
            "denominator": "Items that fell to any name",
            "n_successes": "Successes over all seeds",
        },
    )
    spoken = "; ".join(
        f"{shorten(as_text(each['name']), 60)} {plural(each['n_items'], 'item')}"
        for each in kept[:_MOST_SPOKEN]
    )
    said = f"Names that flip several items, {shorten(title, 120)}: {spoken}."
    return plot(chart, label=said, data=_numbers(name, title, row))


def _numbers(name: str, title: str, row: Row) -> Table:
    shown: Sequence[Row] = row["names"]
    left = row["n_names"] - len(shown)
    return Table(
        name=name,
        caption=f"Names by the items that they flip: {title}",
        columns=(
            *columns(Format.TEXT, "Name"),
            *columns(Format.COUNT, "Items flipped", "Successes over all seeds"),
        ),
        rows=tuple(
            as_row(as_text(each["name"]), each["n_items"], each["n_successes"]) for each in shown
        ),
        notes=(
            f"{plural(row['n_items'], 'item')} fell, to {plural(row['n_names'], 'name')}"
            + (
                f"; {plural(left, 'name')} with fewer successes left out here." if left > 0 else "."
            ),
        ),
    )
