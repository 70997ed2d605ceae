"""F1 or correlation on clean and attacked data; before and after training where models learnt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medstress.figures import dots, notes
from medstress.figures.dots import Panel, Point
from medstress.figures.outputs import Made
from medstress.figures.rows import Row, Rows, by, keys_of
from medstress.metrics.old_stats.estimates import read_score

NAME, TITLE = "scores", "Scores on clean and attacked data"
TRAINED, OF_TRAINING = "training", "Scores before and after adversarial training"
CLEAN = "clean"
MEASURES = {
    "f1": "F1",
    "macro_f1": "macro F1",
    "pearson": "Pearson correlation",
    "accuracy": "accuracy",
}


def scores(run: Rows, formats: Sequence[str]) -> Made | None:
    """Draw the score of each victim on clean data and under each attack.

    None for questions, and where an attack searches and so has no attacked copy of the data.
    """
    rows = [row for row in run.attacks if _measure(row) is not None]
    if not rows:
        return None
    panels = [
        Panel(label=run.label(members[0], "dataset", "group"), points=tuple(_points(run, members)))
        for members in by(rows, "dataset", "group").values()
    ]
    caption = [
        "Scores are of the whole data set, not means over items.",
        *notes.sentences(run, rows),
    ]
    return dots.as_figure(
        NAME, TITLE, panels, caption, formats, x=_named({str(_measure(row)) for row in rows})
    )


def training(run: Rows, formats: Sequence[str]) -> Made | None:
    """Draw the scores of each kind of model over its training seeds; None without training."""
    found: Sequence[Row] = (run.summary.get("training") or {}).get("scores") or ()
    if not found:
        return None
    several = len({(each["dataset"], each["group"]) for each in found}) > 1
    panels = [
        Panel(
            label=" · ".join(run.name(members[0], f) for f in ("dataset", "group") if several),
            points=tuple(_of_models(run, members)),
        )
        for members in by(found, "dataset", "group").values()
    ]
    n_seeds = sorted({int(each["n_seeds"]) for each in found})
    seeds = " or ".join(map(str, n_seeds))
    caption = [
        f"Means over {seeds} training seeds for each kind of model.",
        notes.INTERVALS,
        *notes.state(run.summary),
    ]
    x = _named({str(each["measure"]) for each in found})
    return dots.as_figure(TRAINED, OF_TRAINING, panels, caption, formats, x=x)


def _measure(row: Row) -> str | None:
    return next(
        (
            name
            for name in MEASURES
            if (row.get(f"{name}_after") or {}).get("value") is not None
            and name in row
            and name != "accuracy"
        ),
        None,
    )


def _named(measures: set[str]) -> str:
    return " or ".join(label for name, label in MEASURES.items() if name in measures)


def _points(run: Rows, rows: Sequence[Row]) -> Iterator[Point]:
    for members in by(rows, "victim").values():
        row = members[0]
        keys = {**keys_of(row), "attack": None}
        yield _point(CLEAN, run.name(row, "victim"), row, str(_measure(row)), keys)
    for row in rows:
        name = str(_measure(row))
        field = f"{name}_after"
        line, series = run.name(row, "attack"), run.name(row, "victim")
        yield _point(line, series, row, field, keys_of(row))


def _of_models(run: Rows, rows: Sequence[Row]) -> Iterator[Point]:
    """Yield clean scores of every kind of model, then attacked ones, attack by attack."""
    for members in by(rows, "model").values():
        yield _of_model(CLEAN, members[0], "clean", {"attack": None})
    for row in rows:
        yield _of_model(run.name(row, "attack"), row, "attacked", {})


def _of_model(line: str, row: Row, field: str, more: Mapping[str, Any]) -> Point:
    keys = {name: row[name] for name in ("dataset", "group", "model", "attack", "measure")}
    return Point(
        line=line,
        series=str(row["model"]),
        estimate=read_score(row[field]),
        keys={**keys, **more},
    )


def _point(line: str, series: str, row: Row, field: str, keys: Mapping[str, Any]) -> Point:
    measure = field.removesuffix("_after")
    return Point(
        line=line,
        series=series,
        estimate=read_score(row[field]),
        keys={**keys, "measure": measure},
    )
