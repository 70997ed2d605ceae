"""Success in parts of the data, the worst part named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from medstress.figures import dots, notes
from medstress.figures.dots import MOST_LINES, MOST_PANELS, MOST_SERIES, Panel, Point
from medstress.figures.outputs import Made
from medstress.figures.rows import Row, Rows, by, keys_of
from medstress.metrics.old_stats.estimates import read_share
from medstress.metrics.slices import is_too_small
from medstress.results.formats import as_text

NAME, TITLE = "slices", "Success in parts of the data"
_WORST = " (worst)"
_FEWEST_ROWS = 5


def slices(run: Rows, formats: Sequence[str]) -> Made | None:
    """Draw success in each slice; None if the run has none."""
    rows: Sequence[Row] = run.summary.get("slices") or ()
    if not rows:
        return None
    worst = {_key(each) for each in (run.summary.get("slicing") or {}).get("worst") or ()}
    panels, drawn = [], []
    found = by(rows, "dataset", "group", "victim", "by")
    most = _rows_of_a_panel(found.values())
    for (_, _, _, what), members in found.items():
        place = run.label(members[0])
        marked = {as_text(row["value"]) for row in members if _is_worst(row, worst)}
        n = len({as_text(row["value"]) for row in members})
        points = tuple(_point(run, row, marked) for row in _worst_first(members))
        label = " · ".join(filter(None, (as_text(what).replace("_", " "), place)))
        panels.append(Panel(label=label, points=points, most=most))
        if n > most:
            drawn.append(f"{label}: {most} of {n:,} slices are drawn, those that lose most.")
    caption = [
        "Intervals: 95 %, and those of all slices of one attack hold at once.",
        "(worst): the highest success of an attack after shrinking small slices towards the mean, "
        "unless no slice differs from the others beyond chance.",
        *drawn[:MOST_PANELS],
        *notes.state(run.summary),
    ]
    return dots.as_figure(NAME, TITLE, panels, caption, formats, x="success")


def _rows_of_a_panel(panels: Iterable[Sequence[Row]]) -> int:
    """Return how many slices a panel has room for, so that all panels fit a page or two."""
    n_attacks = [len({as_text(row["attack"]) for row in rows}) for rows in panels]
    n_panels = sum(-(-n // MOST_SERIES) for n in n_attacks)
    return max(_FEWEST_ROWS, MOST_LINES // n_panels)


def _worst_first(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a panel, the slice first that loses most to any attack."""
    most: dict[str, float] = {}
    for row in rows:
        value = row.get("asr_shrunken")
        if value is None:
            value = row["asr"]["value"]
        name = as_text(row["value"])
        most[name] = max(most.get(name, -1.0), -1.0 if value is None else value)
    return sorted(rows, key=lambda row: (-most[as_text(row["value"])], as_text(row["value"])))


def _key(row: Row) -> tuple[str, ...]:
    fields = ("dataset", "group", "victim", "attack", "by", "value")
    return (*(as_text(row.get(name)) for name in fields), str(row.get("differs", "")))


def _is_worst(row: Row, worst: set[tuple[str, ...]]) -> bool:
    """Return whether a slice is the worst of an attack, differs from others and has the items."""
    return (*_key(row)[:-1], "True") in worst and not is_too_small(row)


def _point(run: Rows, row: Row, marked: set[str]) -> Point:
    value = as_text(row["value"])
    return Point(
        line=value + _WORST * (value in marked),
        series=run.name(row, "attack"),
        estimate=read_share(row["asr"]),
        keys={**keys_of(row), "by": row["by"], "slice": row["value"]},
    )
