"""Accuracy after each attempt of MedFuzz."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medstress.figures import curves, notes
from medstress.figures.curves import Curve, Panel
from medstress.figures.outputs import Made
from medstress.figures.rows import Row, Rows, by, keys_of
from medstress.metrics.old_stats.estimates import read_share

NAME, TITLE = "attempts", "Accuracy after each attempt"


def attempts(run: Rows, formats: Sequence[str]) -> Made | None:
    """Draw accuracy after 0, 1, ... attempts; None without an attack that makes attempts."""
    panels = panels_of(run.summary)
    if not panels:
        return None
    caption = [
        "An item counts as right after k attempts if it was at the start and none of k won.",
        *notes.sentences(run, _rows(run)),
    ]
    return curves.as_figure(
        NAME, TITLE, panels, caption, formats, x="attempts", y="accuracy", key="attempt"
    )


def panels_of(summary: Mapping[str, Any]) -> list[Panel]:
    """Return a panel for each data set and group, with a line for each victim and attack."""
    run = Rows(summary)
    found = []
    for members in by(_rows(run), "dataset", "group").values():
        several = len({row["attack"] for row in members}) > 1
        lines = tuple(_curve(run, row, several) for row in members)
        found.append(Panel(label=run.label(members[0], "dataset", "group"), curves=lines))
    return found


def _rows(run: Rows) -> list[Row]:
    return [row for row in run.attacks if any(p["value"] is not None for p in _points(row))]


def _points(row: Row) -> Sequence[Mapping[str, Any]]:
    return row.get("accuracy_at") or ()


def _curve(run: Rows, row: Row, several: bool) -> Curve:
    parts = (run.name(row, "victim"), run.name(row, "attack") if several else "")
    points = tuple((float(each["k"]), read_share(each)) for each in _points(row))
    return Curve(label=" · ".join(filter(None, parts)), keys=keys_of(row), points=points)
