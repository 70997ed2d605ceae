"""Tables of scores on data sets of sentences, clean and perturbed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medstress.kinds import KINDS
from medstress.report.labels import LABELS, Row, labels, measured
from medstress.results.measure import Measure
from medstress.results.measures import measure
from medstress.results.table import Format, Table, as_row, columns
from medstress.summary.dataset_scores import DatasetScores
from medstress.summary.scores_of import scores_of

_BOTH = ("precision", "recall", "f1")
BY_TYPE = tuple(
    measure(f"{name}{ending}") for name in (*_BOTH, "f1_relaxed") for ending in ("", "_after")
)
"""Measures inside `by_type`."""


def shown_scores(rows: Sequence[Row]) -> tuple[Measure, ...]:
    """Return the measures that rows of a summary have; none for questions."""
    scores = scores_in(rows)
    return () if scores is None else tuple(map(measure, scores.shown(rows)))


def scores_in(rows: Sequence[Row]) -> DatasetScores | None:
    """Return the scores that rows of a summary have; None for questions."""
    known = (scores for kind in KINDS if (scores := scores_of(kind)) is not None)
    return next((scores for scores in known if scores.shown(rows)), None)


def score_table(rows: Sequence[Row]) -> Table | None:
    """Return the scores of the whole data set before and after; None for questions."""
    shown = shown_scores(rows)
    caption = "Scores of the whole data set, clean and perturbed"
    return measured("scores", caption, rows, shown, _note(rows)) if shown else None


def score_tables(rows: Sequence[Row]) -> list[Table]:
    """Return the scores, and for entities those by type if there are several types."""
    found = [table] if (table := score_table(rows)) else []
    typed = [(row, type_) for row in rows for type_ in row.get("by_type") or {}]
    if found and len({type_ for _, type_ in typed}) > 1:
        found.append(
            Table(
                name="scores-by-type",
                caption="The same by type of entity",
                columns=(*LABELS, *columns(Format.TEXT, "Type"), *(one.column for one in BY_TYPE)),
                rows=tuple(
                    as_row(
                        *labels(row),
                        type_,
                        *(one.read(row["by_type"][type_]) for one in BY_TYPE),
                    )
                    for row, type_ in typed
                ),
                n_labels=len(LABELS),
            )
        )
    return found


def surrogate_tables(summary: Mapping[str, Any]) -> list[Table]:
    """Return the table on the sources of synonyms' names; empty if no attack uses any."""
    rows = summary.get("surrogates") or ()
    counts = ("n_mentions", "n_listed", "n_nearest", "n_unchanged")
    if not rows:
        return []
    return [
        Table(
            name="surrogates",
            caption="Stand-ins for synonyms: mentions by the source of their new name",
            columns=(
                *columns(Format.TEXT, "Attack", "Data set", "Names"),
                *columns(Format.COUNT, "Mentions", "Listed", "Nearest", "Unchanged"),
            ),
            rows=tuple(
                as_row(
                    *(str(row[name]) for name in ("attack", "dataset", "surrogate")),
                    *(row[name] for name in counts),
                )
                for row in rows
            ),
            notes=(
                "Listed names are of the same concept; the nearest may name something else. All "
                "results on synonyms are about these names.",
            ),
        )
    ]


def _note(rows: Sequence[Row]) -> str:
    scores = scores_in(rows)
    return "" if scores is None else scores.note
