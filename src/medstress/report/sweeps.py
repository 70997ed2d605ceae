"""Success by distance for attacks that asked every name: one small figure each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from medstress.report import figures
from medstress.report.coverage import coverage_sentence
from medstress.report.figures import Plot
from medstress.report.labels import label_text
from medstress.results.formats import plural
from medstress.results.table import Format, Table, as_row, columns
from medstress.stats.estimates import Estimate, read_share

_FACTORS = ("dataset", "group", "victim", "attack")


def sweep_plots(analysis: Mapping[str, Any] | None) -> Iterator[tuple[Plot, str]]:
    """Yield a figure with its numbers, and a sentence on its queries, per `exhaustive` attack.

    Args:
        analysis: of the summary; None if it has none.
    """
    found = analysis or {}
    tried = {_key(row): row for row in found.get("coverage") or ()}
    for i, row in enumerate(found.get("sweeps") or ()):
        name, title = f"sweep-{i}", label_text(_key(row))
        points = tuple(_points(row))
        if not points:
            continue
        by_distance = _by_distance(row)
        svg = Markup(figures.distance_plot(points, title, name, by_distance))
        coverage = coverage_sentence(tried.get(_key(row)))
        yield Plot(svg=svg, data=_numbers(name, title, row)), _sentence(row, coverage)


def _points(row: Mapping[str, Any]) -> Iterator[tuple[float, Estimate]]:
    """Yield (middle, share) of each class; one item estimates nothing, so it has no interval."""
    for each in row["classes"]:
        success = read_share(each["success"])
        if row["n_items"] == 1:
            success = replace(success, low=None, high=None)
        if success.value is not None:
            ends = each["distance"] if _by_distance(row) else (each["from"], each["to"])
            yield sum(ends) / 2, success


def _by_distance(row: Mapping[str, Any]) -> bool:
    return all(each["distance"] is not None for each in row["classes"])


def _sentence(row: Mapping[str, Any], coverage: str | None) -> str:
    asked = f"{row['n_wrong']:,} of {row['n_asked']:,} questions answered wrong"
    parts = (label_text(_key(row)), f"{plural(row['n_items'], 'item')}, {asked}")
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
