"""The tables of data sets of sentences: scores clean and perturbed, by type, and success."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from medstress.metrics.sentence_table import score_columns
from medstress.metrics.success import at_budget
from medstress.report.paper import notes
from medstress.report.paper.arms import Arm, estimate_of
from medstress.report.paper.layout import Cell, Line, PaperTable, csv_row, percent_cell, share_cell

CSV_FIELDS = (
    "victim", "dataset", "attack", "type", "quantity", "budget", "value", "low", "high", "n",
    "interval",
)  # fmt: skip
INTERVALS = (
    "Intervals: 95 %, bootstrap over documents, sentences or pairs; pairs that share a sentence "
    "are drawn together."
)
TAGGED = (
    "Strict: same tokens and same type. Relaxed: same type and a token in common. After: of the "
    "perturbed copy. Drop: before minus after, paired; net of control: F1 after as much noise "
    "outside entities minus F1 after the attack. A dash: the run does not hold it."
)
PAIRS = (
    "Correlation of the victim's scores with the gold ones, the mean over seeds. After: of the "
    "perturbed pairs. Drop: before minus after, paired."
)
ENTITIES_LOST = (
    "Success: share of the gold entities found on the clean data that are found no longer, in per "
    "cent."
)
PAIRS_MOVED = "Success: share of the pairs whose score moved by more than max_change, in per cent."

_LABELS = ("Victim", "Data", "Attack")
_BY_TYPE = tuple(
    (header, f"{name}{ending}")
    for name, title in (
        ("precision", "precision"),
        ("recall", "recall"),
        ("f1", "F1"),
        ("f1_relaxed", "relaxed F1"),
    )
    for header, ending in ((title, ""), ("after", "_after"))
)


def scores(arms: Sequence[Arm], summary: Mapping[str, Any], name: str) -> PaperTable:
    """Scores of the whole data, as the summary has them: one line an attack."""
    columns = score_columns([arm.row for arm in arms])
    return PaperTable(
        name=name,
        caption="Scores of clean and perturbed data.",
        notes=(*_notes(arms, summary), TAGGED if _is_tagged(arms) else PAIRS),
        heads=(tuple((head, 1) for head in (*_LABELS, *(head for head, _ in columns))),),
        n_labels=len(_LABELS),
        lines=tuple(
            Line(cells=(*_labels(arm), *(_score(arm.row, field) for _, field in columns)))
            for arm in arms
        ),
        rows=tuple(_score_rows(arms)),
    )


def by_type(arms: Sequence[Arm], summary: Mapping[str, Any], name: str) -> PaperTable | None:
    """The same by type of entity; None where no data set has several."""
    typed = [(arm, type_) for arm in arms for type_ in arm.row.get("by_type") or {}]
    if len({type_ for _, type_ in typed}) < 2:
        return None
    heads = (*_LABELS, "Type", *(head for head, _ in _BY_TYPE))
    return PaperTable(
        name=name,
        caption="Scores by type of entity.",
        notes=(*_notes(arms, summary), TAGGED),
        heads=(tuple((head, 1) for head in heads),),
        n_labels=len(_LABELS) + 1,
        lines=tuple(
            Line(
                cells=(
                    *_labels(arm),
                    Cell(text=type_),
                    *(_score(arm.row["by_type"][type_], field) for _, field in _BY_TYPE),
                )
            )
            for arm, type_ in typed
        ),
        rows=tuple(
            _csv(arm, field, estimate, type=type_)
            for arm, type_ in typed
            for field, estimate in arm.row["by_type"][type_].items()
        ),
    )


def success(arms: Sequence[Arm], summary: Mapping[str, Any], name: str) -> PaperTable | None:
    """Entities lost, or pairs changed by too much, by budget; None where nothing can succeed."""
    tagged = _is_tagged(arms)
    shown = [arm for arm in arms if tagged or arm.spec.get("max_change") is not None]
    shown = [arm for arm in shown if arm.row["asr"]["value"] is not None]
    if not shown:
        return None
    heads = (*_LABELS, "budget", *(("found clean",) if tagged else ()), "of 1 query (%)", "of all")
    return PaperTable(
        name=name,
        caption="Success within the budget.",
        notes=(
            ENTITIES_LOST if tagged else PAIRS_MOVED,
            _seeds(shown),
            notes.INTERVALS,
            *notes.state(summary),
        ),
        heads=(tuple((head, 1) for head in heads),),
        n_labels=len(_LABELS) + 1,
        lines=tuple(
            Line(
                cells=(
                    *_labels(arm),
                    Cell(text=str(arm.budget)),
                    *([share_cell(estimate_of(arm.row["accuracy"]))] if tagged else []),
                    percent_cell(_within(arm, 1)),
                    percent_cell(_within(arm, arm.budget)),
                )
            )
            for arm in shown
        ),
        rows=tuple(_success_rows(shown, tagged=tagged)),
    )


def _notes(arms: Iterable[Arm], summary: Mapping[str, Any]) -> list[str]:
    return [_seeds(arms), INTERVALS, *notes.state(summary)]


def _seeds(arms: Iterable[Arm]) -> str:
    return notes.seeds_note({s for arm in arms for s in arm.row["seeds"] if s is not None})


def _is_tagged(arms: Iterable[Arm]) -> bool:
    return any("f1" in arm.row for arm in arms)


def _labels(arm: Arm) -> tuple[Cell, ...]:
    texts = (arm.place.victim.label, arm.place.dataset, arm.attack)
    return tuple(Cell(text=text) for text in texts)


def _score(row: Mapping[str, Any], field: str) -> Cell:
    return share_cell(estimate_of(row[field]))


def _within(arm: Arm, budget: int) -> Any:
    found = at_budget(arm.row["asr_at"], budget)
    return None if found is None else estimate_of(found)


def _score_rows(arms: Iterable[Arm]) -> Iterator[dict[str, Any]]:
    """Every score of the summary's rows, also those that have no column."""
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
    row = csv_row(estimate_of(value), **place, quantity=quantity, **labels)
    return {name: row.get(name, "") for name in CSV_FIELDS}
