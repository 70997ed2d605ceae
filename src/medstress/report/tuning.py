"""How n was chosen, as tables of the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from medstress.report.formats import count
from medstress.report.tables import Cell, Table, share_cell, tally, words

_METRICS = {"asr": "ASR", "asr_unrefuted": "ASR, not refuted"}


def tuning_tables(tuning: Mapping[str, Any] | None) -> list[Table]:
    """The choice and the grid; none where nothing was tuned."""
    return [] if tuning is None else [_choices(tuning), _grid(tuning)]


def _choices(tuning: Mapping[str, Any]) -> Table:
    metric, share = _METRICS[tuning["settings"]["metric"]], tuning["settings"]["share"]
    queries = tuning["queries"]
    return Table(
        name="tuning",
        caption="The n that was chosen, where it was tuned and where it is reported",
        columns=(
            "Attack, data, victim",
            "Regime",
            "n",
            "Items tuned on",
            "Eligible",
            f"{metric} there (optimistic)",
            "Other items",
            "Eligible",
            f"{metric} on the other items",
        ),
        rows=tuple(_choice(each) for each in tuning["choices"]),
        note=f"Rule: {tuning['rule']}. "
        + (
            "n was chosen on the very items that are reported, so the rates at the chosen n are "
            "optimistic. "
            if tuning["optimistic"]
            else f"A question falls into the tuning split with probability {share:g}, by a hash "
            "of its text. "
        )
        + f"Sharing answers between values of n saved {count(queries['saved'])} of "
        f"{count(queries['computed_alone'])} queries.",
    )


def _choice(choice: Mapping[str, Any]) -> tuple[Cell, ...]:
    tuned, reported = choice["tuned_on"], choice["reported_on"] or {}
    return (
        _header(choice),
        words(choice["regime"]),
        Cell(text=f"{choice['n']:g}", sort=choice["n"]),
        tally(tuned["n_items"]),
        tally(tuned["n_eligible"]),
        share_cell(tuned["estimate"]),
        tally(reported.get("n_items")),
        tally(reported.get("n_eligible")),
        share_cell(reported.get("estimate")),
    )


def _grid(tuning: Mapping[str, Any]) -> Table:
    metric = _METRICS[tuning["settings"]["metric"]]
    return Table(
        name="tuning-grid",
        caption="Every n that was tried, on the items that n was chosen on",
        columns=("Attack, data, victim", "n", metric),
        rows=tuple(_points(tuning["grids"])),
    )


def _points(grids: list[Mapping[str, Any]]) -> Iterator[tuple[Cell, ...]]:
    for grid in grids:
        for point in grid["points"]:
            yield (
                _header(grid),
                Cell(text=f"{point['n']:g}", sort=point["n"]),
                share_cell(point["estimate"]),
            )


def _header(row: Mapping[str, Any]) -> Cell:
    lines = (f"{row['dataset']} · {row['group']}", str(row["victim"]))
    return Cell(text=str(row["attack"]), lines=lines, numeric=False)
