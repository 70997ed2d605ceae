"""The report's tables of scores on data sets of sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medstress.metrics.sentence_table import score_columns
from medstress.report.tables import Row, Table, label_cell, score_cell, tally, words

_TYPE_COLUMNS = ("precision", "recall", "f1", "f1_relaxed")


def score_tables(rows: Sequence[Row]) -> list[Table]:
    """Scores before and after, and for entities those of each type; none for questions."""
    columns = score_columns(rows)
    if not columns:
        return []
    found = [
        Table(
            name="scores",
            caption="Scores of the whole data set, clean and perturbed",
            columns=("Attack, data, victim", *(header for header, _ in columns)),
            rows=tuple(
                (label_cell(row), *(score_cell(row.get(name)) for _, name in columns))
                for row in rows
            ),
            note=_note(rows),
        )
    ]
    typed = [(row, type_) for row in rows for type_ in row.get("by_type") or {}]
    if len({type_ for _, type_ in typed}) > 1:
        names = [f"{name}{ending}" for name in _TYPE_COLUMNS for ending in ("", "_after")]
        found.append(
            Table(
                name="scores-by-type",
                caption="The same by type of entity",
                columns=(
                    "Attack, data, victim",
                    "Type",
                    *(name.replace("_", " ").replace("f1", "F1") for name in names),
                ),
                rows=tuple(
                    (
                        label_cell(row),
                        words(type_),
                        *(score_cell(row["by_type"][type_].get(name)) for name in names),
                    )
                    for row, type_ in typed
                ),
            )
        )
    return found


def surrogate_tables(summary: Mapping[str, Any]) -> list[Table]:
    """Where the names that synonyms put in come from; none where no attack has any."""
    rows = summary.get("surrogates") or ()
    counts = ("n_mentions", "n_listed", "n_nearest", "n_unchanged")
    if not rows:
        return []
    return [
        Table(
            name="surrogates",
            caption="What stands for synonyms: mentions by the source of their new name",
            columns=("Attack", "Data", "Names", "Mentions", "Listed", "Nearest", "Unchanged"),
            rows=tuple(
                (
                    words(row["attack"]),
                    words(row["dataset"]),
                    words(row["surrogate"]),
                    *(tally(row[name]) for name in counts),
                )
                for row in rows
            ),
            note="Listed names are of the same concept; the nearest may name something else. What "
            "is said of synonyms is said of these names.",
        )
    ]


def _note(rows: Sequence[Row]) -> str:
    if any("f1" in row for row in rows):
        return (
            "Strict: same tokens and same type; relaxed: same type and a token in common, as "
            "nervaluate counts it; seqeval strict, shown where it differs: without what begins "
            "with no B-. Drops are before minus after, paired; net of control: F1 after as much "
            "noise outside entities minus F1 after the attack. Intervals draw whole documents "
            "where they are known, else sentences."
        )
    return (
        "Means over seeds of each seed's coefficient; drops are before minus after, paired. Pairs "
        "that share a sentence are drawn together."
    )
