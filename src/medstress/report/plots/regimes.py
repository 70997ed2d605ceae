"""The two regimes: success against n, the strength and sign of the pull towards near names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.core.controls import arm_label
from medstress.metrics.old_stats.estimates import Estimate, read_score
from medstress.report.charts import Plot, plot
from medstress.report.labels import Row
from medstress.report.plots import layers
from medstress.report.plots.axes import Axis, share_axis
from medstress.report.plots.layers import Series
from medstress.report.plots.words import (
    MOST_LINES,
    first_panels,
    harm,
    in_legend,
    mark,
    most_important,
    names_in,
    place_words,
    read,
    unique,
)
from medstress.report.sections import headline_rows
from medstress.results.formats import as_text, decimal, shorten
from medstress.results.names import CONTROL_WORDS, Names
from medstress.results.table import Format, Table, as_row, columns

FEWEST = 3
"""Values of n, random names (n = 0) among them, that make a curve."""
_PLACE = ("dataset", "group", "victim")
_MOST_SPOKEN = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """One value of n."""

    n: float
    row: Row
    """The keys of its arm."""
    asr: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class _Curve:
    """One group, or its control."""

    label: str
    look: int
    points: Sequence[_Point]
    dash: int = 0


def regime_plots(summary: Mapping[str, Any]) -> Iterator[Plot]:
    """Yield a chart of ASR against n for each data set and victim, a line for each group.

    n < 0 draws names near the key, n > 0 far ones; random names stand at 0. The control of the
    same budget is the dashed line of its colour. Only where a run tried `FEWEST` values of n.
    """
    names, rows = names_in(summary), headline_rows(summary)
    by_arm = {(*_place(row), as_text(row.get("attack"))): row for row in rows}
    panels: dict[tuple[str, str, str], list[Row]] = {}
    for series in (summary.get("analysis") or {}).get("exponents") or ():
        if len(_points(series)) >= FEWEST:
            budget = as_text((series.get("spec") or {}).get("budget"))
            key = as_text(series["dataset"]), as_text(series["victim"]), budget
            panels.setdefault(key, []).append(series)
    drawn, left_out = first_panels(panels, lambda found: max(map(_top, found)))
    # Charts that stand side by side have one scale.
    tops = (end for found in drawn.values() for series in found for end in _ends(series, by_arm))
    top = share_axis("right answers lost (ASR)", tops)
    for i, ((*_, budget), found) in enumerate(drawn.items()):
        name = f"regimes-{i}-data"
        yield _panel(found, by_arm, names, budget, top, name, () if i else left_out)


def _ends(series: Row, by_arm: Mapping[Any, Row]) -> Iterator[float]:
    """Yield the upper ends of the intervals of a group and of its controls."""
    curve = _Curve(label="", look=0, points=_points(series))
    for each in (curve, *_controls(curve, by_arm)):
        yield from (point.asr.high or 0.0 for point in each.points)


def _panel(
    found: Sequence[Row],
    by_arm: Mapping[Any, Row],
    names: Names,
    budget: str,
    top: Axis,
    name: str,
    notes: tuple[str, ...],
) -> Plot:
    title = place_words(found[0], names, "dataset", "victim")
    kept, more = most_important(found, MOST_LINES // 2, _top, "groups")
    groups = unique(names.of("group", series["group"]) for series in kept)
    curves = [
        _Curve(label=group, look=i, points=_points(series))
        for i, (group, series) in enumerate(zip(groups, kept, strict=True))
    ]
    curves += [control for curve in curves for control in _controls(curve, by_arm)][:MOST_LINES]
    labels = in_legend(curve.label for curve in curves)
    data = [
        mark(point.asr, point.row, series=label, x=point.n, at=_said(point.n))
        for label, curve in zip(labels, curves, strict=True)
        for point in curve.points
    ]
    chart = layers.curves(
        data,
        [
            Series(label=label, look=curve.look, dash=curve.dash)
            for label, curve in zip(labels, curves, strict=True)
        ],
        Axis(title="n (below 0: near names, above: far)"),
        top,
        title=f"{title}, within {budget} queries" if budget.isdigit() else title,
        notes=(*more, *notes),
        tips={"series": "Of", "at": "n"},
    )
    spoken = "; ".join(
        f"{shorten(curve.label, 60)} "
        + ", ".join(f"{decimal(p.asr.value)} at {_said(p.n)}" for p in curve.points)
        for curve in curves[:_MOST_SPOKEN]
    )
    said = f"Attack success rate against n, {shorten(title, 120)}: {spoken}."
    return plot(chart, label=said, data=_numbers(name, title, found, by_arm, names))


def _points(series: Row) -> list[_Point]:
    """Return the known points by ascending n; random names are n = 0 unless that was tried."""
    place = {name: series[name] for name in _PLACE}
    given = list(series["points"])
    beside = series.get("random")
    if beside and all(point["n"] != 0 for point in given):
        given.append({**beside, "n": 0.0})
    found = [
        _Point(n=point["n"], row={**place, "attack": point["attack"]}, asr=estimate)
        for point in given
        if (estimate := read(point["asr"]))
    ]
    return sorted(found, key=lambda point: point.n)


def _controls(curve: _Curve, by_arm: Mapping[Any, Row]) -> Iterator[_Curve]:
    """Yield a curve for each control that all its attacks have."""
    rows = [by_arm.get((*_place(p.row), as_text(p.row["attack"])), {}) for p in curve.points]
    names = dict.fromkeys(name for row in rows for name in row.get("control") or {})
    for j, control in enumerate(names, start=1):
        points = [
            _Point(
                n=point.n,
                row={**point.row, "attack": arm_label(point.row["attack"], control)},
                asr=rate,
            )
            for point, row in zip(curve.points, rows, strict=True)
            if (rate := read((row.get("control") or {}).get(control)))
        ]
        if len(points) >= FEWEST:
            label = f"{curve.label}, {CONTROL_WORDS.get(control, control)}"
            yield _Curve(label=label, look=curve.look, points=points, dash=j)


def _numbers(
    name: str, title: str, found: Sequence[Row], by_arm: Mapping[Any, Row], names: Names
) -> Table:
    controls = dict.fromkeys(
        control
        for series in found
        for point in _points(series)
        for control in by_arm.get((*_place(series), point.row["attack"]), {}).get("control") or {}
    )
    peaks = [
        f"{names.of('group', series['group'])}: most at n = {_said(peak['n']['value'])} on the "
        f"{side} side, inside the grid in {100 * peak['inside_share']:.0f} % of resamples."
        for series in found
        for side, peak in (series.get("peaks") or {}).items()
        if peak["n"]["value"] is not None
    ]
    return Table(
        name=name,
        caption=f"ASR against n, as plotted: {title}",
        columns=(
            *columns(Format.TEXT, "Group", "Attack"),
            *columns(Format.NUMBER, "n"),
            *columns(Format.SHARE, "ASR", *(CONTROL_WORDS.get(c, c) for c in controls)),
            *columns(Format.SCORE, "Diversity"),
        ),
        rows=tuple(
            as_row(
                names.of("group", series["group"]),
                names.of("attack", point.row["attack"]),
                point.n,
                point.asr,
                *(
                    read((arm.get("control") or {}).get(control))
                    for arm in (by_arm.get((*_place(series), point.row["attack"]), {}),)
                    for control in controls
                ),
                _diversity(series, point.row["attack"]),
            )
            for series in found
            for point in _points(series)
        ),
        notes=("n = 0: random names.", *peaks),
        n_labels=2,
    )


def _diversity(series: Row, attack: str) -> Estimate | None:
    points = [*series["points"], *([series["random"]] if series.get("random") else [])]
    given = next((p.get("diversity_unbiased") for p in points if p["attack"] == attack), None)
    return read_score(given) if given else None


def _top(series: Row) -> float:
    return max((harm(point["asr"]) for point in series["points"]), default=-1.0)


def _place(row: Row) -> tuple[str, ...]:
    return tuple(as_text(row.get(name)) for name in _PLACE)


def _said(n: float) -> str:
    return f"{n:g}".replace("-", "−")
