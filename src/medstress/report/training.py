"""Before and after adversarial training, as tables and learning curves of the report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from statistics import fmean
from typing import Any

from medstress.metrics.sentences.surrogates import met_lines
from medstress.report.charts import Plot, plot
from medstress.report.plots import layers
from medstress.report.plots.axes import Axis
from medstress.report.plots.layers import Series
from medstress.report.plots.words import MOST_LINES, in_legend, most_important, names_in, unique
from medstress.results.formats import decimal, shorten
from medstress.results.measures import TRAINING, measure
from medstress.results.names import Names
from medstress.results.table import Format, Row, Table, as_row, columns

_PLACE = columns(Format.TEXT, "Attack", "Data set", "Group", "Model")
_SEEDS = columns(Format.COUNT, "Seeds")
_MEASURE = columns(Format.TEXT, "Measure")
_DRAWN = (
    "Intervals draw documents, pairs or questions, the same for all scores, and from three "
    "training seeds on these as well; with fewer they say nothing of other seeds."
)
_MOST_SPOKEN = 12
_MEASURES = {"f1": "F1", "pearson": "Pearson", "accuracy": "accuracy"}


def training_tables(training: Mapping[str, Any] | None) -> list[Table]:
    """Return the scores of every model over its seeds, and the comparison of those with copies."""
    if training is None:
        return []
    return [table for table in (_scores(training), comparison(training)) if table is not None]


def _scores(training: Mapping[str, Any]) -> Table | None:
    if not training.get("scores"):
        return None
    folds = training.get("folds")
    cross_validated = (
        f"Cross-validated in {folds} folds, split anew for each seed: every item is answered by "
        "a model that has not been trained on its document."
    )
    return Table(
        name="training-scores",
        caption="Kinds of models, over all their training seeds",
        columns=(*_PLACE, *_SEEDS, *_MEASURE, *columns(Format.SCORE, "Clean", "Attacked")),
        rows=tuple(
            as_row(
                *_place(each),
                each["n_seeds"],
                _MEASURES[each["measure"]],
                measure("clean").read(each),
                measure("attacked").read(each),
            )
            for each in training["scores"]
        ),
        notes=("Means over training seeds.", _DRAWN, *((cross_validated,) if folds else ())),
        n_labels=len(_PLACE),
    )


def _place(each: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(each[name]) for name in ("attack", "dataset", "group", "model"))


def comparison(training: Mapping[str, Any]) -> Table | None:
    """Return the table of models trained on perturbed copies beside others; None without rows."""
    if not training["rows"]:
        return None
    return Table(
        name="training",
        caption="Models trained on perturbed copies against the original models",
        columns=(
            *_PLACE,
            *columns(Format.TEXT, "Other model"),
            *_SEEDS,
            *columns(Format.TEXT, "Trained on it"),
            *_MEASURE,
            *(one.column for one in TRAINING),
        ),
        rows=tuple(
            as_row(
                *_place(each),
                str(each.get("against", "original")),
                each.get("n_seeds"),
                "yes" if each["trained_on"] else "no",
                _MEASURES[each["measure"]],
                *(one.read(each) for one in TRAINING),
            )
            for each in training["rows"]
        ),
        notes=(
            "Clean loss: other model minus model on clean data. Gain: model minus other model on "
            "perturbed data. Recovered: the gain over what the attack takes from the other model; "
            "empty where that is not clear of zero.",
            _DRAWN,
            *(f"{line}." for line in met_lines(training)),
        ),
        n_labels=len(_PLACE),
    )


def learning_plots(summary: Mapping[str, Any]) -> Iterator[Plot]:
    """Yield the learning curves of all models: training loss, then the score on dev data.

    Of folds, the mean. A score that no model has is not drawn.
    """
    models = [m for m in (summary.get("training") or {}).get("models", ()) if m["curve"]]
    if not models:
        return
    names, named = names_in(summary), _MEASURES[models[0]["measure"]]
    numbers = _learning_data(models, named, names)
    for key, title in (("loss", "training loss"), ("score", f"{named} on dev data")):
        lines = [
            (victim, [(k, v) for k, v in enumerate(values, 1) if v is not None])
            for victim, values in _means_over_folds(models, key)
        ]
        known = [(victim, points) for victim, points in lines if points]
        if known:
            yield _learning(known, title, names, replace(numbers, name=f"learning-{key}-data"))


def _learning(
    lines: Sequence[tuple[str, Sequence[tuple[int, float]]]],
    title: str,
    names: Names,
    numbers: Table,
) -> Plot:
    drawn, notes = most_important(lines, MOST_LINES, lambda each: len(each[1]), "models")
    labels = in_legend(unique(names.of("victim", victim) for victim, _ in drawn))
    data: list[dict[str, Any]] = [
        {
            **{"series": label, "victim": victim, "x": k, "said": f"{value:.4g}"},
            **dict.fromkeys(("value", "low", "high"), value),
        }
        for label, (victim, points) in zip(labels, drawn, strict=True)
        for k, value in points
    ]
    last = max(datum["x"] for datum in data)
    chart = layers.curves(
        data,
        [Series(label=label, look=i, dash=i) for i, label in enumerate(labels)],
        Axis(title="epoch", span=(1, max(last, 2)), is_whole=True),
        Axis(title=title),
        title=title[:1].upper() + title[1:],
        notes=notes,
        tips={"series": "Model", "x": "Epoch"},
    )
    spoken = "; ".join(
        f"{shorten(label, 44)} {decimal(points[0][1])} to {decimal(points[-1][1])}"
        for label, (_, points) in list(zip(labels, drawn, strict=True))[:_MOST_SPOKEN]
    )
    said = f"Learning curves, {title} in the first and the last epoch: {spoken}."
    return plot(chart, label=said, data=numbers)


def _learning_data(models: Sequence[Mapping[str, Any]], named: str, names: Names) -> Table:
    points = ("epoch", "steps", "loss", "score", "seconds")
    rows: list[Row] = [
        as_row(
            names.of("victim", m["victim"]) + (f", fold {m['fold']}" if "fold" in m else ""),
            *map(point.get, points),
        )
        for m in models
        for point in m["curve"]
    ]
    return Table(
        name="learning-data",
        caption="Learning curves",
        columns=(
            *columns(Format.TEXT, "Model"),
            *columns(Format.COUNT, "Epoch", "Steps"),
            *columns(Format.SCORE, "Training loss", f"{named} on dev data", "Seconds"),
        ),
        rows=tuple(rows),
    )


def _means_over_folds(
    models: Sequence[Mapping[str, Any]], key: str
) -> list[tuple[str, list[float | None]]]:
    """Return one line per victim: its curve, or the mean of the folds that reached the epoch."""
    by_victim: dict[str, list[Any]] = defaultdict(list)
    for model in models:
        by_victim[model["victim"]].append([point[key] for point in model["curve"]])
    return [
        (victim, [_mean(values) for values in zip_longest(*curves)])
        for victim, curves in by_victim.items()
    ]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
