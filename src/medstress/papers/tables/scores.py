"""Tables for data sets of sentences: scores clean and perturbed, by type, and success."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from medstress.metrics.old_stats.estimates import Estimate, read_score, read_share
from medstress.metrics.success import at_budget
from medstress.papers import notes
from medstress.papers.arms import Arm
from medstress.papers.outputs import Printed, csv_row
from medstress.report.sentence_scores import BY_TYPE, scores_in, shown_scores
from medstress.results.measures import measure
from medstress.results.table import Format, Table, as_row, columns

CSV_FIELDS = (
    "victim", "dataset", "attack", "type", "quantity", "budget", "value", "low", "high", "n",
    "interval",
)  # fmt: skip
INTERVALS = (
    "Intervals: 95 %, bootstrap over documents, sentences or pairs; pairs that share a sentence "
    "are drawn together."
)
MOVED = "Success: share of the pairs whose score moved by more than max_change, in per cent."

_LABELS = columns(Format.TEXT, "Victim", "Data", "Attack")


def scores(arms: Sequence[Arm], summary: Mapping[str, Any], name: str) -> Printed:
    """Return the scores of the whole data from the summary, one line per attack."""
    shown = shown_scores([arm.row for arm in arms])
    table = Table(
        name=name,
        caption="Scores of clean and perturbed data.",
        columns=(*_LABELS, *(one.column for one in shown)),
        rows=tuple(as_row(*_labels(arm), *(one.read(arm.row) for one in shown)) for arm in arms),
        notes=(*_notes(arms, summary), *_said(arms)),
        n_labels=len(_LABELS),
    )
    return Printed(table, list(_score_rows(arms)))


def by_type(arms: Sequence[Arm], summary: Mapping[str, Any], name: str) -> Printed | None:
    """Return the scores by type of entity; None if there are fewer than two types."""
    typed = [(arm, type_) for arm in arms for type_ in arm.row.get("by_type") or {}]
    if len({type_ for _, type_ in typed}) < 2:
        return None
    table = Table(
        name=name,
        caption="Scores by type of entity.",
        columns=(*_LABELS, *columns(Format.TEXT, "Type"), *(one.column for one in BY_TYPE)),
        rows=tuple(
            as_row(*_labels(arm), type_, *(one.read(arm.row["by_type"][type_]) for one in BY_TYPE))
            for arm, type_ in typed
        ),
        notes=(*_notes(arms, summary), *_said(arms)),
        n_labels=len(_LABELS) + 1,
    )
    data = [
        _csv(arm, field, estimate, type=type_)
        for arm, type_ in typed
        for field, estimate in arm.row["by_type"][type_].items()
    ]
    return Printed(table, data)


def success(arms: Sequence[Arm], summary: Mapping[str, Any], name: str) -> Printed | None:
    """Return entities lost, or pairs changed too much, by budget; None if no arm has an ASR."""
    scores = scores_in([arm.row for arm in arms])
    if scores is None:
        return None
    judged = scores.lost is not None
    shown = [arm for arm in arms if judged or arm.spec.get("max_change") is not None]
    shown = [arm for arm in shown if arm.row["asr"]["value"] is not None]
    if not shown:
        return None
    clean = columns(Format.SHARE, "right when clean") if judged else ()
    table = Table(
        name=name,
        caption="Success within the budget.",
        columns=(
            *_LABELS,
            *columns(Format.TEXT, "budget"),
            *clean,
            *columns(Format.PERCENT, "of 1 query (%)", "of all"),
        ),
        rows=tuple(
            as_row(
                *_labels(arm),
                str(arm.budget),
                *([measure("accuracy").read(arm.row)] if judged else []),
                _within(arm, 1),
                _within(arm, arm.budget),
            )
            for arm in shown
        ),
        notes=(
            scores.lost or MOVED,
            _seeds(shown),
            notes.INTERVALS,
            *notes.state_notes(summary),
        ),
        n_labels=len(_LABELS) + 1,
    )
    return Printed(table, list(_success_rows(shown, tagged=judged)))


def _notes(arms: Iterable[Arm], summary: Mapping[str, Any]) -> list[str]:
    return [_seeds(arms), INTERVALS, *notes.state_notes(summary)]


def _seeds(arms: Iterable[Arm]) -> str:
    return notes.seeds_note({s for arm in arms for s in arm.row["seeds"] if s is not None})


def _said(arms: Iterable[Arm]) -> list[str]:
    """What a table of these scores has to say."""
    scores = scores_in([arm.row for arm in arms])
    return [] if scores is None else [scores.printed]


def _labels(arm: Arm) -> tuple[str, ...]:
    return (arm.place.victim.label, arm.place.dataset, arm.attack)


def _within(arm: Arm, budget: int) -> Estimate | None:
    point = at_budget(arm.row["asr_at"], budget)
    return None if point is None else read_share(point)


def _score_rows(arms: Iterable[Arm]) -> Iterator[dict[str, Any]]:
    """Yield every score of the summary's rows, including those without a column."""
    for arm in arms:
        for field, value in arm.row.items():
            if field.startswith(("precision", "recall", "f1", "pearson", "spearman")):
                yield _csv(arm, field, value)


def _success_rows(arms: Iterable[Arm], *, tagged: bool) -> Iterator[dict[str, Any]]:
    for arm in arms:
        if tagged:
            yield _csv(arm, "accuracy", arm.row["accuracy"])
        for point in arm.row["asr_at"]:
            yield _csv(arm, "asr", point, budget=point["budget"])


def _csv(arm: Arm, quantity: str, value: Mapping[str, Any], **labels: Any) -> dict[str, Any]:
    place = {"victim": arm.place.victim.label, "dataset": arm.place.dataset, "attack": arm.attack}
    line = csv_row(read_score(value), **place, quantity=quantity, **labels)
    return {name: line.get(name, "") for name in CSV_FIELDS}
