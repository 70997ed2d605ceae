"""Before and after adversarial training, as tables and learning curves of the report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from statistics import fmean
from typing import Any

from markupsafe import Markup

from medstress.metrics.surrogate_lines import met_lines
from medstress.report.learning_curves import learning_curves
from medstress.report.tables import Cell, Table, measure, score_cell, tally, words

_COLUMNS = (
    ("Clean, other", "clean"),
    ("Clean, model", "trained_clean"),
    ("Attacked, other", "attacked"),
    ("Attacked, model", "trained_attacked"),
    ("Clean loss", "clean_loss"),
    ("Gain under attack", "gain"),
    ("Recovered share", "recovered"),
)
_DRAWN = (
    "Intervals draw documents, pairs or questions, the same for all scores, and from three "
    "training seeds on these as well; with fewer they say nothing of other seeds."
)
_MEASURES = {"f1": "F1", "pearson": "Pearson", "accuracy": "accuracy"}


def training_tables(training: Mapping[str, Any] | None) -> list[Table]:
    """Scores of every kind over its seeds, and the comparison of those trained on copies."""
    if training is None:
        return []
    return [*_scores(training), *_comparison(training)]


def _scores(training: Mapping[str, Any]) -> Iterator[Table]:
    folds = training.get("folds")
    told = (
        f" Cross-validated in {folds} folds, parted anew for each seed: every item is answered by "
        "a model that has not been trained on its document."
    )
    if training.get("scores"):
        yield Table(
            name="training-scores",
            caption="Kinds of models, over all their training seeds",
            columns=("Attack, data, model", "Seeds", "Measure", "Clean", "Attacked"),
            rows=tuple(
                (
                    _where(row),
                    tally(row["n_seeds"]),
                    words(_MEASURES[row["measure"]]),
                    score_cell(row["clean"]),
                    score_cell(row["attacked"]),
                )
                for row in training["scores"]
            ),
            note=f"Means over training seeds. {_DRAWN}" + (told if folds else ""),
        )


def _where(row: Mapping[str, Any]) -> Cell:
    return Cell(
        text=str(row["attack"]),
        lines=(f"{row['dataset']} · {row['group']}", str(row["model"])),
        numeric=False,
    )


def _comparison(training: Mapping[str, Any]) -> list[Table]:
    if not training["rows"]:
        return []
    return [
        Table(
            name="training",
            caption="Models trained on perturbed copies against the original models",
            columns=(
                "Attack, data, model",
                "Other model",
                "Seeds",
                "Trained on it",
                "Measure",
                *(header for header, _ in _COLUMNS),
            ),
            rows=tuple(
                (
                    _where(row),
                    words(row.get("against", "original")),
                    tally(row.get("n_seeds")),
                    words("yes" if row["trained_on"] else "no"),
                    words(_MEASURES[row["measure"]]),
                    *(score_cell(row[name]) for _, name in _COLUMNS),
                )
                for row in training["rows"]
            ),
            note="Clean loss: other model minus model on clean data. Gain: model minus other model "
            "on perturbed data. Recovered: the gain over what the attack takes from the other "
            "model; empty where that is not clear of zero. "
            + " ".join([_DRAWN, *(f"{line}." for line in met_lines(training))]),
        )
    ]


def learning_plots(summary: Mapping[str, Any]) -> Iterator[tuple[Markup, Table]]:
    """The learning curves of all models, with their numbers; of folds the mean is drawn."""
    models = [m for m in (summary.get("training") or {}).get("models", ()) if m["curve"]]
    if not models:
        return
    named = _MEASURES[models[0]["measure"]]
    svg = learning_curves(
        _means_over_folds(models, "loss"), _means_over_folds(models, "score"), named, "learning"
    )
    yield (
        Markup(svg),
        Table(
            name="learning-data",
            caption="Learning curves",
            columns=("Model", "Epoch", "Steps", "Training loss", f"{named} on dev data", "Seconds"),
            rows=tuple(
                (
                    words(m["victim"] + (f", fold {m['fold']}" if "fold" in m else "")),
                    tally(point["epoch"]),
                    tally(point["steps"]),
                    measure(point["loss"]),
                    measure(point["score"]),
                    measure(point["seconds"]),
                )
                for m in models
                for point in m["curve"]
            ),
        ),
    )


def _means_over_folds(
    models: Sequence[Mapping[str, Any]], key: str
) -> list[tuple[str, list[float | None]]]:
    """One line a victim: of folds the mean over those that reached the epoch."""
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
