"""Accuracy with a passage to read and without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from medstress.figures import dots, notes
from medstress.figures.dots import Panel, Point
from medstress.figures.outputs import Made
from medstress.figures.rows import Row, Rows, by
from medstress.metrics.old_stats.estimates import read_share

NAME, TITLE = "passages", "Accuracy with a passage to read and without"
_WORDS = {"all": "all items", "deciding": "passage settles it", "undecided": "passage does not"}
_SIDES = {"open": "with its passage", "closed": "without"}


def passages(run: Rows, formats: Sequence[str]) -> Made | None:
    """Draw accuracy on clean items with their passage and without; None without passages."""
    gains: Sequence[Row] = (run.summary.get("passages") or {}).get("gains") or ()
    known = [row for row in gains if row["n"]]
    if not known:
        return None
    pairs = len({(row["open"], row["closed"]) for row in known}) > 1
    panels = [
        Panel(label=_label(run, members[0], pairs), points=tuple(_points(members)))
        for members in by(known, "dataset", "group", "open", "closed").values()
    ]
    victims = sorted({run.names.of("victim", row["open"]) for row in known})
    caption = [
        "The same items and the same model, asked with the passage and without it.",
        *(["Models: " + ", ".join(victims[:6]) + "."] if pairs else []),
        notes.INTERVALS,
        *notes.state(run.summary),
    ]
    return dots.as_figure(NAME, TITLE, panels, caption, formats, x="accuracy")


def _label(run: Rows, row: Row, pairs: bool) -> str:
    model = run.names.of("victim", row["open"]) if pairs else ""
    return " · ".join(filter(None, (model, run.label(row, "dataset", "group"))))


def _points(rows: Sequence[Row]) -> Iterator[Point]:
    for row in rows:
        for side, words in _SIDES.items():
            yield Point(
                line=_WORDS.get(row["passages"], str(row["passages"])),
                series=words,
                estimate=read_share(row[f"accuracy_{side}"]),
                keys={
                    **{name: row[name] for name in ("dataset", "group")},
                    "victim": row[side],
                    "passages": row["passages"],
                    "state": words,
                },
            )
