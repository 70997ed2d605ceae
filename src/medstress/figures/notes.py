"""The sentences below a figure: what was counted, and what it cannot show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from medstress.figures.rows import Row, Rows, last_budget, spec_of
from medstress.results.formats import decimal, listed, plural
from medstress.results.root import root_sentences

INTERVALS = "Intervals: 95 %."
_MOST_NAMES = 6
_RUNS = "An item has one trial for each seed and run."


def sentences(run: Rows, rows: Sequence[Row]) -> list[str]:
    """Return what every figure of these rows says below it."""
    counts = [int(row["accuracy"]["n"]) for row in rows if (row.get("accuracy") or {}).get("n")]
    seeds = sorted({s for row in rows for s in row.get("seeds") or () if s is not None})
    return [
        *([f"Trials answered before an attack: {_range(counts)} in each row."] if counts else []),
        *([_RUNS] if any(map(_has_runs, rows)) else []),
        *seeds_sentence(seeds),
        INTERVALS,
        *_guessing(run, rows),
        *state(run.summary),
    ]


def seeds_sentence(seeds: Sequence[int]) -> list[str]:
    """Say over how many seeds numbers are pooled; nothing of one seed.

    >>> seeds_sentence([0, 1]), seeds_sentence([0])
    (['Pooled over seeds 0 and 1.'], [])
    """
    return [f"Pooled over seeds {listed([str(s) for s in seeds])}."] if len(seeds) > 1 else []


def budgets(rows: Iterable[Row]) -> str:
    """Say how many queries attacks had."""
    found = sorted({last_budget(row) for row in rows} - {0})
    if not found:
        return "its budget"
    if len(found) == 1:
        return plural(found[0], "query", "queries")
    return f"{found[0]:,} to {plural(found[-1], 'query', 'queries')}"


def state(summary: Mapping[str, Any]) -> list[str]:
    """Return a warning if the run is not complete, and its root if it is."""
    roots = root_sentences(summary)
    if summary["experiment"].get("complete") is False:
        return ["The run is not complete; these numbers may change.", *roots]
    return roots


def _has_runs(row: Row) -> bool:
    return (spec_of(row).get("runs") or 1) > 1


def _guessing(run: Rows, rows: Iterable[Row]) -> list[str]:
    """Name the victims that are not shown to be above chance."""
    found: dict[str, None] = {}
    for row in rows:
        chance, low = row.get("chance"), (row.get("accuracy") or {}).get("low")
        if chance is not None and low is not None and low <= chance:
            where = " on ".join(filter(None, (run.name(row, "victim"), _where(run, row))))
            found[f"{where} (chance {decimal(chance)})"] = None
    if not found:
        return []
    names = list(found)[:_MOST_NAMES]
    more = f" and {len(found) - len(names)} more" if len(found) > len(names) else ""
    return [
        f"Not above chance: {'; '.join(names)}{more}. There success cannot be told from guessing."
    ]


def _where(run: Rows, row: Row) -> str:
    return run.label(row, "dataset", "group")


def _range(numbers: Sequence[int]) -> str:
    least, most = min(numbers), max(numbers)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"
