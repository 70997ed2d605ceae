"""Success against the number of queries, beside the controls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from medstress.figures import curves, notes
from medstress.figures.curves import Curve, Panel
from medstress.figures.outputs import Made
from medstress.figures.rows import Row, Rows, keys_of, last_budget
from medstress.metrics.old_stats.estimates import read_share

NAME, TITLE = "budget", "Success within a budget"


def budget(run: Rows, formats: Sequence[str]) -> Made | None:
    """Draw success within 1, 2, ... queries; None if no attack had two."""
    rows = [row for row in run.attacks if _has_curve(row)]
    panels = [
        Panel(label=run.label(members[0]), curves=tuple(_curves(run, members)))
        for members in run.places(rows).values()
        if max(map(last_budget, members)) > 1
    ]
    if not panels:
        return None
    caption = ["Share of the items that were right before and are not after so many queries."]
    if any(curve.dashed for panel in panels for curve in panel.curves):
        caption.append("Dashed: controls, with as many queries.")
    caption += notes.sentences(run, rows)
    return curves.as_figure(
        NAME, TITLE, panels, caption, formats,
        x="perturbed queries per item", y="success", key="budget",
    )  # fmt: skip


def _has_curve(row: Row) -> bool:
    return any(point["value"] is not None for point in row.get("asr_at") or ())


def _curves(run: Rows, rows: Sequence[Row]) -> Iterator[Curve]:
    for row in rows:
        yield _curve(run.name(row, "attack"), row, dashed=False)
    for name, control in run.shared_controls(rows):
        if _has_curve(control):
            yield _curve(name, control, dashed=True)


def _curve(label: str, row: Row, *, dashed: bool) -> Curve:
    points = tuple((float(point["budget"]), read_share(point)) for point in row["asr_at"])
    return Curve(label=label, keys=keys_of(row), points=points, dashed=dashed)
