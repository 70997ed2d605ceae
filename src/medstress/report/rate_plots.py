"""Plots of rates: the forest plot of success rates, and success within a budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.core.controls import BETWEEN, arm_label
from medstress.metrics.old_stats.estimates import Estimate
from medstress.metrics.success import at_budget
from medstress.report.charts import Plot, plot
from medstress.report.labels import Row, is_control
from medstress.report.plots import layers
from medstress.report.plots.axes import Axis, budget_axis, share_axis
from medstress.report.plots.layers import Series
from medstress.report.plots.words import (
    MOST_LINES,
    MOST_ROWS,
    first_panels,
    harm,
    in_legend,
    labelled,
    mark,
    most_important,
    on_axis,
    place_words,
    read,
)
from medstress.results.formats import as_text, decimal, plural, shorten
from medstress.results.measures import measure
from medstress.results.names import CONTROL_WORDS, Names
from medstress.results.table import Format, Table, as_row, columns

MOST_SPOKEN = 12
"""Largest number of values in the accessible name of a plot; the table below it has all."""
SPOKEN = 44
"""Longest label in an accessible name."""
_POINTS = 40
"""Points of a longer curve; the table has all."""
_NOBODY = Names()
ATTACK, CONTROL = "attack", "control"
"""Series of the forest plot: attacks, and controls that the file names as attacks."""


def forest(rows: Sequence[Row], names: Names = _NOBODY) -> Plot | None:
    """Return success rates with intervals, each beside those of its controls.

    Args:
        rows: headline rows of a summary.
        names: of attacks, victims, data sets and groups.

    Returns:
        None if no trial was eligible.
    """
    pairs = list(zip(labelled(rows, names), rows, strict=True))
    known = [(label, row) for label, row in pairs if read(row.get("asr"))]
    if not known:
        return None
    drawn, notes = most_important(known, MOST_ROWS, lambda each: harm(each[1].get("asr")))
    places = on_axis(label for label, _ in drawn)
    controls = _controls(row for _, row in drawn)
    beside = [CONTROL_WORDS.get(name, name) for name in controls]
    data = []
    for place, (_, row) in zip(places, drawn, strict=True):
        kinds = [CONTROL if is_control(row) else ATTACK, *beside]
        arms = [row, *(_control_arm(row, name) for name in controls)]
        rates = [row.get("asr"), *((row.get("control") or {}).get(name) for name in controls)]
        data += [
            mark(estimate, arm, place=place, series=kind)
            for kind, arm, found in zip(kinds, arms, rates, strict=True)
            if (estimate := read(found))
        ]
    its_own = Series(label=CONTROL, look=None, dash=len(beside) + 1)
    named = [its_own] if any(map(is_control, rows)) else []
    chart = layers.dots(
        data,
        places,
        [
            # A control is no further attack: it has no colour of its own.
            *(
                Series(label=kind, look=None if i else 0, dash=i)
                for i, kind in enumerate([ATTACK, *beside])
            ),
            *named,
        ],
        share_axis("right answers lost (ASR)", (d["high"] for d in data)),
        title="",
        notes=notes,
        tips={"series": "Of"},
    )
    spoken = "; ".join(
        f"{shorten(label, SPOKEN)} {decimal(rate.value)} ({rate.hits}/{rate.n})"
        for label, row in drawn[:MOST_SPOKEN]
        if (rate := read(row.get("asr")))
    )
    said = f"Forest plot of the attack success rate with 95 % intervals: {spoken}."
    return plot(chart, label=said, data=_forest_data(pairs))


def _controls(rows: Any) -> list[str]:
    """Return the controls of rows, each once."""
    return list(dict.fromkeys(name for row in rows for name in row.get("control") or {}))


def _control_arm(row: Row, control: str) -> Row:
    """Return the keys of a control's arm, as a row."""
    return {**row, "attack": arm_label(as_text(row.get("attack")), control)}


def curves(rows: Sequence[Row], names: Names = _NOBODY) -> Iterator[Plot]:
    """Yield one panel per data set and group, and per victim if there are several.

    Each attack is a line; the same budget of its control is the dashed line of its colour.
    """
    fields = ["dataset", "group"]
    if len({as_text(row.get("victim")) for row in rows}) > 1:
        fields.append("victim")
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(as_text(row.get(name)) for name in fields), []).append(row)
    # With one query per item the curve is a point, which the forest plot shows already.
    longer = {key: members for key, members in found.items() if _largest(members) > 1}
    panels, left_out = first_panels(
        longer, lambda members: max(harm(r.get("asr")) for r in members)
    )
    top = share_axis(
        "right answers lost (ASR)",
        (d.high or 0 for members in panels.values() for row in members for d in _ends(row)),
    )
    for i, members in enumerate(panels.values()):
        title = place_words(members[0], names, *fields)
        yield _panel(members, title, f"curves-{i}", names, top, () if i else left_out)


def _largest(rows: Sequence[Row]) -> int:
    return max((b for row in rows for b, _ in known_points(row, "asr_at", "budget")), default=0)


def _ends(row: Row) -> Iterator[Estimate]:
    """Yield the estimates of the longest budget, of the attack and of its controls."""
    last = (row.get("asr_at") or [{}])[-1]
    for found in (last, *(last.get("control") or {}).values()):
        if estimate := read(found):
            yield estimate


def known_points(row: Row, curve: str, at: str) -> list[tuple[int, Estimate]]:
    """Return (budget or attempt, estimate) of the known points of a curve, ascending."""
    found = ((int(point[at]), read(point)) for point in row.get(curve) or ())
    return sorted(((k, e) for k, e in found if e is not None), key=lambda each: each[0])


def _panel(
    rows: Sequence[Row], title: str, name: str, names: Names, top: Axis, notes: tuple[str, ...]
) -> Plot:
    n_each = 1 + max(len(_controls([row])) for row in rows)
    drawn, more = most_important(
        rows, MOST_LINES // n_each, lambda row: harm(row.get("asr")), "attacks"
    )
    attacks = labelled(drawn, names, ("attack",))
    lines = [
        # A control that the file names as an attack looks like the controls.
        _Line(label, row, None if is_control(row) else i, points_of(row), int(is_control(row)))
        for i, (label, row) in enumerate(zip(attacks, drawn, strict=True))
    ]
    lines += _control_lines(lines)
    labels = in_legend(line.label for line in lines)
    data = [
        mark(line.points[budget], line.row, series=label, x=budget)
        for label, line in zip(labels, lines, strict=True)
        for budget in thinned(sorted(line.points))
    ]
    largest = max(datum["x"] for datum in data)
    series = [
        Series(label=label, look=line.look, dash=line.dash)
        for label, line in zip(labels, lines, strict=True)
    ]
    chart = layers.curves(
        data,
        series,
        budget_axis(largest),
        top,
        title=title,
        notes=(*more, *notes),
        tips={"series": "Of", "x": "Budget"},
    )
    spoken = "; ".join(
        f"{shorten(label, SPOKEN)} {decimal(known[-1][1].value)}"
        for label, row in list(zip(attacks, drawn, strict=True))[:MOST_SPOKEN]
        if (known := known_points(row, "asr_at", "budget"))
    )
    said = (
        f"Attack success rate against the budget, {shorten(title, 120)}. "
        f"At {plural(largest, 'query', 'queries')}: {spoken}."
    )
    return plot(chart, label=said, data=_curves_data(f"{name}-data", title, rows, names))


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a panel."""

    label: str
    row: Row
    look: int | None
    points: Mapping[int, Estimate]
    dash: int = 0


def points_of(row: Row, control: str | None = None) -> dict[int, Estimate]:
    """Return budget -> rate of an attack, or of one of its controls; without the unknown."""
    found = {
        int(point["budget"]): read(
            point if control is None else (point.get("control") or {}).get(control)
        )
        for point in row.get("asr_at") or ()
    }
    return {budget: estimate for budget, estimate in found.items() if estimate}


def _control_lines(attacks: Sequence[_Line]) -> Iterator[_Line]:
    """Yield the lines of controls, dashed in the colour of their attack.

    Attacks with one budget on the same items share a control: it is then drawn once, in grey.
    """
    for j, control in enumerate(_controls(line.row for line in attacks), start=1):
        words = CONTROL_WORDS.get(control, control)
        beside = [(line, points) for line in attacks if (points := points_of(line.row, control))]
        if len(beside) > 1 and all(points == beside[0][1] for _, points in beside):
            place = {name: v for name, v in beside[0][0].row.items() if name != "attack"}
            yield _Line(words, place, None, beside[0][1], j)
            continue
        for line, points in beside:
            arm = _control_arm(line.row, control)
            told = words if len(attacks) == 1 else f"{line.label}{BETWEEN}{words}"
            yield _Line(told, arm, line.look, points, j)


def thinned(budgets: Sequence[int]) -> list[int]:
    """Return about `_POINTS` of many budgets, evenly spaced on a logarithmic axis, and the ends.

    >>> thinned([1, 2, 3]), len(thinned(range(1, 1001)))
    ([1, 2, 3], 35)
    """
    if len(budgets) <= _POINTS:
        return list(budgets)
    first, last = budgets[0], budgets[-1]
    wanted = (first * (last / first) ** (i / (_POINTS - 1)) for i in range(_POINTS))
    return sorted({min(budgets, key=lambda b: abs(b - want)) for want in wanted})


def _forest_data(pairs: Sequence[tuple[str, Row]]) -> Table:
    """Return the numbers of the forest plot."""
    controls = _controls(row for _, row in pairs)
    return Table(
        name="forest-data",
        caption="Attack success rate with 95 % interval, as plotted",
        columns=(
            *columns(Format.TEXT, "Row"),
            measure("asr").column,
            *columns(Format.SHARE, *(CONTROL_WORDS.get(name, name) for name in controls)),
        ),
        rows=tuple(
            as_row(
                label,
                measure("asr").read(row),
                *(read((row.get("control") or {}).get(name)) for name in controls),
            )
            for label, row in pairs
        ),
    )


def _curves_data(name: str, title: str, rows: Sequence[Row], names: Names) -> Table:
    """Return the numbers of one panel of ASR-by-budget curves."""
    budgets = sorted({point["budget"] for each in rows for point in each.get("asr_at") or ()})
    heads: list[str] = []
    lookups: list[tuple[Row, str | None]] = []
    for label, row in zip(labelled(rows, names, ("attack",)), rows, strict=True):
        heads.append(label)
        lookups.append((row, None))
        for control in _controls([row]):
            heads.append(f"{label}{BETWEEN}{CONTROL_WORDS.get(control, control)}")
            lookups.append((row, control))
    return Table(
        name=name,
        caption=f"ASR within a budget of queries, as plotted: {title}",
        columns=(*columns(Format.COUNT, "Budget"), *columns(Format.SHARE, *heads)),
        rows=tuple(
            as_row(budget, *(_at(row, control, budget) for row, control in lookups))
            for budget in budgets
        ),
    )


def _at(row: Row, control: str | None, budget: int) -> Estimate | None:
    point: Mapping[str, Any] | None = at_budget(row.get("asr_at") or (), budget)
    if point is None:
        return None
    return read(point if control is None else (point.get("control") or {}).get(control))
