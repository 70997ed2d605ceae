"""How n was chosen: the rate at every n that was tried, the chosen ones marked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medstress.report.charts import Plot, plot
from medstress.report.labels import Row
from medstress.report.plots import layers
from medstress.report.plots.axes import Axis, share_axis
from medstress.report.plots.layers import Series
from medstress.report.plots.words import first_panels, harm, mark, names_in, place_words, read
from medstress.results.formats import as_text, decimal, shorten
from medstress.results.names import Names
from medstress.results.table import Cell, Format, Table, as_row, columns

TRIED, CHOSEN, ELSEWHERE = "tried", "chosen", "chosen n, on the other items"
_METRICS = {"asr": "ASR", "asr_unrefuted": "ASR, not refuted"}
_LOOKS = {TRIED: (0, 0), CHOSEN: (1, 0), ELSEWHERE: (2, 1)}


def tuning_plots(summary: Mapping[str, Any]) -> Iterator[Plot]:
    """Yield a chart of the grid of n for each data set, group and victim."""
    tuning, names = summary.get("tuning"), names_in(summary)
    if tuning is None:
        return
    grids = {_key(grid): grid for grid in tuning.get("grids") or () if _known(grid)}
    drawn, left_out = first_panels(grids, lambda g: max(harm(p["estimate"]) for p in g["points"]))
    for i, (key, grid) in enumerate(drawn.items()):
        choices = [choice for choice in tuning["choices"] if _key(choice) == key]
        notes = _why(tuning, choices) + (() if i else left_out)
        yield _panel(grid, choices, tuning, names, f"tuned-{i}-data", notes)


def _why(tuning: Row, choices: Sequence[Row]) -> tuple[str, ...]:
    """Say which n were chosen, and by which rule."""
    chosen = dict.fromkeys(f"n = {_said(c['n'])} ({c['regime']})" for c in choices)
    found = f"Chosen: {', '.join(chosen)}." if chosen else "Nothing is chosen yet."
    rule = as_text(tuning["rule"])
    for name, words in _METRICS.items():
        rule = rule.replace(f"{name} over", f"{words} over")
    return found, f"Rule: {rule}.", *(_OPTIMISTIC if tuning["optimistic"] and choices else ())


_OPTIMISTIC = ("n was chosen on the reported items, so the rates at it are optimistic.",)


def _panel(
    grid: Row, choices: Sequence[Row], tuning: Row, names: Names, name: str, notes: Sequence[str]
) -> Plot:
    title = place_words(grid, names, "dataset", "group", "victim")
    place = {key: value for key, value in grid.items() if key != "attack"}
    chosen = {choice["n"] for choice in choices}
    points = [
        (TRIED, p["n"], estimate, p["attack"])
        for p in sorted(grid["points"], key=lambda p: p["n"])
        if (estimate := read(p["estimate"]))
    ]
    marks = [(CHOSEN, n, e, attack) for _, n, e, attack in points if n in chosen]
    marks += [
        (ELSEWHERE, choice["n"], estimate, choice["attack"])
        for choice in choices
        if (estimate := read((choice.get("reported_on") or {}).get("estimate")))
    ]
    data = [
        mark(estimate, {**place, "attack": attack}, series=kind, x=n, at=_said(n))
        for kind, n, estimate, attack in (*points, *marks)
    ]
    metric = _METRICS[tuning["settings"]["metric"]]
    chart = layers.curves(
        data,
        [
            Series(label=kind, look=look, dash=dash)
            for kind, (look, dash) in _LOOKS.items()
            if any(datum["series"] == kind for datum in data)
        ],
        Axis(title="n (below 0: near names, above: far)"),
        share_axis(metric, (datum["high"] for datum in data)),
        title=title,
        notes=notes,
        tips={"series": "What", "at": "n"},
        with_line=(TRIED,),
    )
    spoken = "; ".join(f"{decimal(e.value)} at {_said(n)}" for _, n, e, _ in points)
    said = f"{metric} against n, {shorten(title, 120)}: {spoken}. {' '.join(notes[:1])}"
    return plot(chart, label=said, data=_numbers(name, title, metric, grid, choices, names))


def _numbers(
    name: str, title: str, metric: str, grid: Row, choices: Sequence[Row], names: Names
) -> Table:
    by_n = {choice["n"]: choice for choice in choices}
    return Table(
        name=name,
        caption=f"Every n that was tried: {title}",
        columns=(
            *columns(Format.NUMBER, "n"),
            *columns(Format.TEXT, "Attack"),
            *columns(Format.SHARE, metric, "On the other items"),
            *columns(Format.TEXT, "Chosen"),
        ),
        rows=tuple(
            as_row(
                point["n"],
                names.of("attack", point["attack"]),
                read(point["estimate"]),
                *_chosen(by_n.get(point["n"])),
            )
            for point in grid["points"]
        ),
        notes=(
            f"{grid['n_eligible']:,} of {grid['n_items']:,} items that n was chosen on are "
            "eligible.",
        ),
    )


def _chosen(choice: Row | None) -> tuple[Any, Cell]:
    if choice is None:
        return None, Cell(value="")
    reported = (choice.get("reported_on") or {}).get("estimate")
    return read(reported), Cell(value=f"best {choice['regime']}")


def _known(grid: Row) -> bool:
    return sum(read(point["estimate"]) is not None for point in grid["points"]) > 1


def _key(row: Row) -> tuple[Any, ...]:
    template = tuple(sorted((key, as_text(value)) for key, value in row["template"].items()))
    return (*(as_text(row[name]) for name in ("dataset", "group", "victim")), template)


def _said(n: float) -> str:
    return f"{n:g}".replace("-", "−")
