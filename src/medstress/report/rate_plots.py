"""Plots of rates: the forest plot of success rates, and success within a budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from medstress.metrics.success import at_budget
from medstress.report import figures
from medstress.report.figures import Plot
from medstress.report.labels import Row, short_labels
from medstress.results.formats import as_text
from medstress.results.measures import measure
from medstress.results.table import Format, Table, as_row, columns
from medstress.stats.estimates import Estimate, is_estimate, read_share


def forest(rows: Sequence[Row]) -> Plot | None:
    """Return the forest plot of attack success rates; None if no trial was eligible."""
    lines = [
        (label, estimate)
        for label, row in zip(short_labels(rows), rows, strict=True)
        if (estimate := _share(row.get("asr"))) and estimate.value is not None
    ]
    if not lines:
        return None
    return Plot(svg=Markup(figures.forest_plot(lines, "forest")), data=_forest_data(rows))


def curves(rows: Sequence[Row]) -> Iterator[Plot]:
    """Yield one panel per data set and group, and per victim if there are several."""
    fields = ["dataset", "group"]
    if len({as_text(row.get("victim")) for row in rows}) > 1:
        fields.append("victim")
    panels: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        panels.setdefault(tuple(as_text(row.get(name)) for name in fields), []).append(row)
    for i, (key, members) in enumerate(panels.items()):
        lines = [
            figures.BudgetCurve(label=label, points=points)
            for label, row in zip(short_labels(members), members, strict=True)
            if (points := _points(row))
        ]
        # With one query per item the curve is a point, which the forest plot shows already.
        if any(budget > 1 for curve in lines for budget, _ in curve.points):
            title, name = " · ".join(key), f"curves-{i}"
            svg = Markup(figures.budget_curves(lines, title, name))
            yield Plot(svg=svg, data=_curves_data(f"{name}-data", title, members))


def _points(row: Row) -> tuple[tuple[int, Estimate], ...]:
    points: Iterable[Mapping[str, Any]] = row.get("asr_at") or ()
    found = ((int(point["budget"]), read_share(point)) for point in points)
    known = sorted(((b, e) for b, e in found if e.value is not None), key=lambda each: each[0])
    # A long curve lists only its changes; in between it is flat.
    flat = ((b - 1, e) for (a, e), (b, _) in pairwise(known) if b - a > 1)
    return tuple(sorted((*known, *flat), key=lambda each: each[0]))


def _forest_data(rows: Sequence[Row]) -> Table:
    """Return the numbers of the forest plot."""
    return Table(
        name="forest-data",
        caption="Attack success rate with 95 % interval, as plotted",
        columns=(*columns(Format.TEXT, "Row"), measure("asr").column),
        rows=tuple(
            as_row(label, measure("asr").read(each))
            for label, each in zip(short_labels(rows), rows, strict=True)
        ),
    )


def _curves_data(name: str, title: str, rows: Sequence[Row]) -> Table:
    """Return the numbers of one panel of ASR-by-budget curves."""
    budgets = sorted({point["budget"] for each in rows for point in each.get("asr_at") or ()})
    curves = [each.get("asr_at") or () for each in rows]
    return Table(
        name=name,
        caption=f"ASR within a budget of queries, as plotted: {title}",
        columns=(
            *columns(Format.COUNT, "Budget"),
            *columns(Format.SHARE, *short_labels(rows)),
        ),
        rows=tuple(
            as_row(budget, *(_share(at_budget(points, budget)) for points in curves))
            for budget in budgets
        ),
    )


def _share(found: Mapping[str, Any] | None) -> Estimate | None:
    return read_share(found) if is_estimate(found) else None
