"""What tuning found, as a table and sentences for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from medstress.metrics.table import Table, estimate_text

HEADERS = ("dataset", "group", "victim", "attack", "n", "on the tuning items", "chosen")
_METRICS = {"asr": "ASR", "asr_unrefuted": "ASR of unrefuted successes"}


def tuning_table(tuning: Mapping[str, Any]) -> Table:
    """Lay out the grid: the rate of every n, and which is chosen."""
    chosen = {_key(choice, choice["n"]): choice["regime"] for choice in tuning["choices"]}
    rows = [
        (
            *(grid[name] for name in ("dataset", "group", "victim", "attack")),
            f"{point['n']:g}",
            estimate_text(point["estimate"]),
            f"best {regime}" if (regime := chosen.get(_key(grid, point["n"]))) else "",
        )
        for grid in tuning["grids"]
        for point in grid["points"]
    ]
    return Table(HEADERS, rows)


def tuning_lines(tuning: Mapping[str, Any]) -> Iterator[str]:
    """Say which n was chosen, on how many items, what it reached, and what sharing saved."""
    settings, metric = tuning["settings"], _METRICS[tuning["settings"]["metric"]]
    for choice in tuning["choices"]:
        tuned = choice["tuned_on"]
        place = f"{choice['dataset']}/{choice['group']}, {choice['victim']}"
        said = (
            f"{place}: n = {choice['n']:g} ({choice['regime']}) tuned on {tuned['n_items']} items, "
            f"{tuned['n_eligible']} of them eligible: {metric} {estimate_text(tuned['estimate'])}"
            f"{_at(choice, settings)}, optimistic"
        )
        reported = choice["reported_on"]
        if reported is not None:
            said += (
                f"; on the other {reported['n_items']} items {estimate_text(reported['estimate'])}"
            )
        yield said
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


def _key(place: Mapping[str, Any], n: float) -> tuple[Any, ...]:
    names = ("dataset", "group", "victim")
    template = tuple(sorted((key, str(value)) for key, value in place["template"].items()))
    return (*(place[name] for name in names), template, n)
