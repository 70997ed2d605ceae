"""Success by distance for attacks that asked every name: one small figure each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from medstress.metrics.old_stats.estimates import Estimate, read_share
from medstress.report.charts import Plot, plot
from medstress.report.coverage import coverage_sentence
from medstress.report.plots import layers
from medstress.report.plots.axes import Axis, share_axis
from medstress.report.plots.layers import Series
from medstress.report.plots.words import first_panels, mark, place_words
from medstress.results.formats import decimal, percent, plural, shorten
from medstress.results.names import Names
from medstress.results.table import Format, Table, as_row, columns

_NOBODY = Names()
_FACTORS = ("dataset", "group", "victim", "attack")


def sweep_plots(
    analysis: Mapping[str, Any] | None, names: Names = _NOBODY
) -> Iterator[tuple[Plot, str]]:
    """Yield a figure with its numbers, and a sentence on its queries, per `exhaustive` attack.

    Args:
        analysis: of the summary; None if it has none.
        names: of attacks, victims, data sets and groups.
    """
    found = analysis or {}
    tried = {_key(row): row for row in found.get("coverage") or ()}
    sweeps = {_key(row): row for row in found.get("sweeps") or () if any(_points(row))}
    drawn, left_out = first_panels(sweeps, lambda row: row["n_wrong"] / max(row["n_asked"], 1))
    for i, (key, row) in enumerate(drawn.items()):
        title, points = place_words(row, names, *_FACTORS), tuple(_points(row))
        place = "distance to the key" if _by_distance(row) else "names, nearest first (share)"
        chart = layers.curves(
            [
                mark(share, row, series=title, x=x, at=decimal(x, 2), names=ends)
                for x, share, ends in points
            ],
            [Series(label=title, look=0)],
            Axis(title=place) if _by_distance(row) else share_axis(place),
            share_axis("names on which the victim errs"),
            title=title,
            notes=() if i else left_out,
            tips={"at": place.capitalize(), "names": "Names, nearest first"},
        )
        first, last = (decimal(points[j][1].value) for j in (0, -1))
        said = (
            f"Share of names on which the victim errs, by {place}, {shorten(title, 120)}: "
            f"nearest class {first}, farthest {last}."
        )
        shown = plot(chart, label=said, data=_numbers(f"sweep-{i}", title, row))
        yield shown, _sentence(title, row, coverage_sentence(tried.get(key)))


def _points(row: Mapping[str, Any]) -> Iterator[tuple[float, Estimate, str]]:
    """Yield (middle, share, which names) of each class.

    One item estimates nothing, so it has no interval.
    """
    for each in row["classes"]:
        success = read_share(each["success"])
        if row["n_items"] == 1:
            success = replace(success, low=None, high=None)
        if success.value is not None:
            ends = each["distance"] if _by_distance(row) else (each["from"], each["to"])
            names = f"{percent(each['from'])} to {percent(each['to'])} %"
            yield sum(ends) / 2, success, names


def _by_distance(row: Mapping[str, Any]) -> bool:
    return all(each["distance"] is not None for each in row["classes"])


def _sentence(title: str, row: Mapping[str, Any], coverage: str | None) -> str:
    asked = f"{row['n_wrong']:,} of {row['n_asked']:,} questions answered wrong"
    parts = (title, f"{plural(row['n_items'], 'item')}, {asked}")
    return f"{': '.join(parts)}{f'; {coverage}' if coverage else ''}."


def _numbers(name: str, title: str, row: Mapping[str, Any]) -> Table:
    return Table(
        name=f"{name}-data",
        caption=f"Names on which the victim errs, by distance to the key: {title}",
        columns=(
            *columns(Format.COUNT, "Class, nearest first"),
            *columns(Format.SCORE, "Distance from", "Distance to"),
            *columns(Format.SHARE, "Share"),
        ),
        rows=tuple(
            as_row(i, *(each["distance"] or (None, None)), read_share(each["success"]))
            for i, each in enumerate(row["classes"], start=1)
        ),
        notes=(
            "The names of every item, nearest to the key first, in classes of equal size; "
            "intervals are about other items of this kind.",
        ),
    )


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _FACTORS)
