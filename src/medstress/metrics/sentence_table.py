"""Scores of data sets of sentences as a table for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medstress.metrics.table import Table, estimate_text

_PLACE = ("dataset", "victim", "attack", "seed")
ENTITIES = (
    ("precision", "precision"),
    ("after", "precision_after"),
    ("recall", "recall"),
    ("after", "recall_after"),
    ("F1", "f1"),
    ("after", "f1_after"),
    ("drop", "f1_drop"),
    ("net of control", "f1_net_drop"),
    ("relaxed F1", "f1_relaxed"),
    ("after", "f1_relaxed_after"),
)
"""(header, field) of the columns for tagged texts."""
SEQEVAL_STRICT = (
    ("F1, seqeval strict", "f1_seqeval_strict"),
    ("after", "f1_seqeval_strict_after"),
)
"""Two more, where they differ from F1: where a victim's labels are not well-formed."""
PAIRS = (
    ("Pearson", "pearson"),
    ("after", "pearson_after"),
    ("drop", "pearson_drop"),
    ("Spearman", "spearman"),
    ("after", "spearman_after"),
    ("drop", "spearman_drop"),
)
"""The same for sentence pairs."""


def score_columns(rows: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    """The columns that rows of a summary fill; none for questions."""
    if any("f1" in row for row in rows):
        return (*ENTITIES, *(SEQEVAL_STRICT if any(map(_is_told_apart, rows)) else ()))
    return PAIRS if any("pearson" in row for row in rows) else ()


def score_table(summary: Mapping[str, Any]) -> Table | None:
    """Lay out the scores of the whole data set, before and after, with their intervals.

    Returns:
        One row an arm and seed, then those pooled over two seeds or more; None for questions.

    >>> score_table({"results": [], "pooled": []}) is None
    True
    """
    rows = [(row, _seed(row["seed"])) for row in summary["results"]]
    rows += [
        (row, "all of " + ", ".join(map(_seed, row["seeds"])))
        for row in summary["pooled"]
        if len(row["seeds"]) > 1
    ]
    columns = score_columns(summary["results"])
    if not columns:
        return None
    return Table(
        (*_PLACE, *(header for header, _ in columns)),
        [
            (
                *(str(row[name]) for name in _PLACE[:3]),
                seed,
                *(estimate_text(row[name]) for _, name in columns),
            )
            for row, seed in rows
        ],
    )


def _is_told_apart(row: Mapping[str, Any]) -> bool:
    return any(
        row[field]["value"] != row[field.replace("_seqeval_strict", "")]["value"]
        for _, field in SEQEVAL_STRICT
        if field in row
    )


def _seed(seed: int | None) -> str:
    return "-" if seed is None else str(seed)
