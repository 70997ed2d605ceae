"""The summary as a table for people: every share with what it was counted from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

HEADERS = (
    "dataset",
    "group",
    "victim",
    "attack",
    "seed",
    "accuracy",
    "chance",
    "accuracy_after",
    "ASR",
    "queries asked/paid/cached/failed",
    "median queries",
    "diversity",
    "not attackable",
    "already wrong",
    "unreadable",
    "failed",
)
"""The columns of `summary_table`."""


class Table(NamedTuple):
    """Cells of text; whoever prints them chooses how."""

    headers: tuple[str, ...]
    """Names of the columns."""
    rows: list[tuple[str, ...]]
    """One cell a column."""


def summary_table(summary: Mapping[str, Any]) -> Table:
    """Lay out the results of a summary, then its rows pooled over two seeds or more.

    A pooled row of one seed would repeat its result row and is left out. `unreadable`
    counts items unreadable at baseline and, in brackets, unreadable answers under attack and how
    many of both were cut off at `max_new_tokens`;
    `failed` counts failed trials, at baseline and under attack together.

    Args:
        summary: what `summarise` returned, or the same read from JSON.

    >>> summary_table({"results": [], "pooled": []}).rows
    []
    """
    rows = [_cells(row, _seed(row["seed"])) for row in summary["results"]]
    rows += [
        _cells(row, "all of " + ", ".join(map(_seed, row["seeds"])))
        for row in summary["pooled"]
        if len(row["seeds"]) > 1
    ]
    return Table(HEADERS, rows)


def _cells(row: Mapping[str, Any], seed: str) -> tuple[str, ...]:
    """Return the cells of one row, in the order of `HEADERS`."""
    n_eligible, queries = row["n_eligible"], row["queries"]
    standing = n_eligible - row["n_flipped"]
    median = row["queries_to_success"]["median"]
    unread = row["n_unreadable_answers"]
    # Summaries of earlier versions, read from JSON, do not count them.
    cut = row.get("n_length_at_baseline", 0) + row.get("n_length_answers", 0)
    more = [f"+{unread} answers"] * bool(unread) + [f"{cut} cut off"] * bool(cut)
    return (
        row["dataset"],
        row["group"],
        row["victim"],
        row["attack"],
        seed,
        _share(n_eligible, row["accuracy"]),
        "-" if row["chance"] is None else _short(row["chance"]),
        _share(standing, row["accuracy_after"]),
        _share(row["n_flipped"], row["asr"]) + _without_never_asked(row),
        "/".join(str(queries[name]) for name in ("asked", "paid", "cached", "failed")),
        "-" if median is None else f"{median:g}",
        _value(row["diversity"]),
        str(row["n_not_attackable"]),
        str(row["n_already_wrong"]),
        f"{row['n_unreadable_at_baseline']}" + (f" ({', '.join(more)})" if more else ""),
        str(row["n_failed_at_baseline"] + row["n_failed"]),
    )


def _without_never_asked(row: Mapping[str, Any]) -> str:
    """The success rate where the victim saw an edit, if it did not everywhere."""
    never = row.get("n_never_asked")
    return f"; {_value(row['asr_asked'])} without {never} never asked" if never else ""


def estimate_text(estimate: Mapping[str, Any]) -> str:
    """Return such as `.451 [.348, .559]`, or `-` where nothing was counted."""
    return _value(estimate)


def _seed(seed: int | None) -> str:
    return "-" if seed is None else str(seed)


def _share(numerator: int, estimate: Mapping[str, Any]) -> str:
    """Return such as `37/82 = .451 [.348, .559]`, or `0/0` where nothing was counted."""
    fraction = f"{numerator}/{estimate['n']}"
    return fraction if estimate["value"] is None else f"{fraction} = {_value(estimate)}"


def _value(estimate: Mapping[str, Any]) -> str:
    if estimate["value"] is None:
        return "-"
    if estimate["low"] is None:
        return _short(estimate["value"])
    low, high = _short(estimate["low"]), _short(estimate["high"])
    return f"{_short(estimate['value'])} [{low}, {high}]"


def _short(share: float) -> str:
    """Return three decimals without the leading zero.

    >>> _short(0.4512), _short(1.0), _short(0.0)
    ('.451', '1.000', '.000')
    """
    return f"{share:.3f}".removeprefix("0")
