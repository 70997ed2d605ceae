"""Accuracy before any attack, after each control, and after each attack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from medstress.figures import dots, notes
from medstress.figures.dots import Panel, Point
from medstress.figures.outputs import Made
from medstress.figures.rows import Row, Rows, by, keys_of
from medstress.metrics.old_stats.estimates import read_share

NAME, TITLE = "accuracy", "Accuracy before and after each attack"
BEFORE = "before"


def accuracy(run: Rows, formats: Sequence[str]) -> Made | None:
    """Draw accuracy on the clean items, then after controls and attacks; None without answers.

    Sentences have scores instead (`scores`).
    """
    rows = [row for row in run.attacks if _has_accuracy(row)]
    panels = [
        Panel(label=run.label(members[0], "dataset", "group"), points=tuple(_points(run, members)))
        for members in by(rows, "dataset", "group").values()
    ]
    if not panels:
        return None
    caption = [
        f"Each attack had {notes.budgets(rows)} for an item; it counts if one of them won.",
        *_of_controls(run, rows),
        *notes.sentences(run, rows),
    ]
    return dots.as_figure(NAME, TITLE, panels, caption, formats, x="accuracy")


def _has_accuracy(row: Row) -> bool:
    scored = "f1" in row or "pearson" in row
    return not scored and (row.get("accuracy_after") or {}).get("value") is not None


def _points(run: Rows, rows: Sequence[Row]) -> Iterator[Point]:
    """Yield the points line by line: before, controls, attacks."""
    places = run.places(rows)
    for members in places.values():
        first = members[0]
        yield Point(
            line=BEFORE,
            series=run.name(first, "victim"),
            estimate=read_share(first["accuracy"]),
            keys={**keys_of(first), "attack": None, "state": BEFORE},
        )
    for members in places.values():
        for name, control in run.shared_controls(members):
            yield _after(run, name, control, "control")
    for members in places.values():
        for row in members:
            yield _after(run, run.name(row, "attack"), row, "attack")


def _after(run: Rows, line: str, row: Row, state: str) -> Point:
    return Point(
        line=line,
        series=run.name(row, "victim"),
        estimate=read_share(row["accuracy_after"]),
        keys={**keys_of(row), "state": f"after {state}"},
    )


def _of_controls(run: Rows, rows: Sequence[Row]) -> list[str]:
    if any(run.controls_of(row) for row in rows):
        return ["Controls had as many queries as the attack beside which they stand."]
    return ["No control was run: how much harmless edits alone change is not known."]
