"""Tables and sentences on how n was chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from medstress.metrics.old_stats.estimates import read_share
from medstress.report.labels import PLACE, place
from medstress.results.formats import count
from medstress.results.table import Cell, Format, Row, Table, as_row, columns

_METRICS = {"asr": "ASR", "asr_unrefuted": "ASR, not refuted"}
_SAID = {"asr": "ASR", "asr_unrefuted": "ASR of unrefuted successes"}
_N = columns(Format.NUMBER, "n")


def tuning_tables(tuning: Mapping[str, Any] | None) -> list[Table]:
    """Return the tables of choices and of the grid; none if nothing was tuned."""
    return [] if tuning is None else [_choices(tuning), grid_table(tuning)]


def _choices(tuning: Mapping[str, Any]) -> Table:
    metric, share = _METRICS[tuning["settings"]["metric"]], tuning["settings"]["share"]
    queries = tuning["queries"]
    return Table(
        name="tuning",
        caption="The chosen n, on the items of the tuning split and on the reported ones",
        columns=(
            *PLACE,
            *columns(Format.TEXT, "Regime"),
            *_N,
            *columns(Format.COUNT, "Items tuned on", "Eligible"),
            *columns(Format.SHARE, f"{metric} there (optimistic)"),
            *columns(Format.COUNT, "Other items", "Eligible"),
            *columns(Format.SHARE, f"{metric} on the other items"),
        ),
        rows=tuple(_choice(each) for each in tuning["choices"]),
        notes=(
            f"Rule: {tuning['rule']}.",
            "n was chosen on the reported items themselves, so the rates at the chosen n are "
            "optimistic."
            if tuning["optimistic"]
            else f"A question falls into the tuning split with probability {share:g}, by a hash "
            "of its text.",
            f"Sharing answers between values of n saved {count(queries['saved'])} of "
            f"{count(queries['computed_alone'])} queries.",
        ),
        n_labels=len(PLACE),
    )


def _choice(choice: Mapping[str, Any]) -> Row:
    tuned, reported = choice["tuned_on"], choice["reported_on"] or {}
    return as_row(
        *place(choice),
        str(choice["regime"]),
        choice["n"],
        tuned["n_items"],
        tuned["n_eligible"],
        read_share(tuned["estimate"]),
        reported.get("n_items"),
        reported.get("n_eligible"),
        read_share(reported["estimate"]) if reported.get("estimate") else None,
    )


def grid_table(tuning: Mapping[str, Any]) -> Table:
    """Return the rates at every n that was tried, with the chosen n marked."""
    chosen = {_key(choice, choice["n"]): choice["regime"] for choice in tuning["choices"]}
    return Table(
        name="tuning-grid",
        caption="Every n that was tried, on the items that n was chosen on",
        columns=(
            *PLACE,
            *_N,
            *columns(Format.SHARE, _METRICS[tuning["settings"]["metric"]]),
            *columns(Format.TEXT, "Chosen"),
        ),
        rows=tuple(
            as_row(
                *place(grid),
                point["n"],
                read_share(point["estimate"]),
                f"best {regime}" if (regime := chosen.get(_key(grid, point["n"]))) else "",
            )
            for grid in tuning["grids"]
            for point in grid["points"]
        ),
        n_labels=len(PLACE),
    )


def tuning_lines(tuning: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences on the chosen n, its items and rates, and the queries that sharing saved."""
    settings, metric = tuning["settings"], _SAID[tuning["settings"]["metric"]]
    for choice in tuning["choices"]:
        tuned = choice["tuned_on"]
        place = f"{choice['dataset']}/{choice['group']}, {choice['victim']}"
        line = (
            f"{place}: n = {choice['n']:g} ({choice['regime']}) tuned on {tuned['n_items']} items, "
            f"{tuned['n_eligible']} of them eligible: {metric} {_text(tuned['estimate'])}"
            f"{_at(choice, settings)}, optimistic"
        )
        reported = choice["reported_on"]
        if reported is not None:
            line += f"; on the other {reported['n_items']} items {_text(reported['estimate'])}"
        yield line
    if tuning["optimistic"] and tuning["choices"]:
        yield "n was chosen on the items that are reported: these rates are optimistic"
    queries = tuning["queries"]
    if queries["computed_alone"]:
        yield (
            f"sharing answers between values of n saved {queries['saved']:,} of "
            f"{queries['computed_alone']:,} queries (asked {queries['asked']:,}, computed "
            f"{queries['computed']:,})"
        )


def _at(choice: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    return "" if settings["budget"] is None else f" at budget {choice['template']['budget']}"


def _text(estimate: Mapping[str, Any]) -> str:
    cell = Cell(value=read_share(estimate))
    return f"{cell.text(Format.SHARE)} {cell.interval(Format.SHARE)}".strip()


def _key(place: Mapping[str, Any], n: float) -> tuple[Any, ...]:
    names = ("dataset", "group", "victim")
    template = tuple(sorted((key, str(value)) for key, value in place["template"].items()))
    return (*(place[name] for name in names), template, n)
