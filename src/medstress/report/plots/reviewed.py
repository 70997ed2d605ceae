"""What reviewers say of the sampled cases, and how people answer beside models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from medstress.report.charts import Plot, plot
from medstress.report.plots import layers
from medstress.report.plots.axes import share_axis
from medstress.report.plots.layers import Series
from medstress.report.plots.words import mark, on_axis, read
from medstress.report.review import CALLED, review_section
from medstress.results.formats import decimal
from medstress.results.table import Table

_VERSIONS = {"clean": "clean items", "attacked": "attacked items"}


def review_plots(summary: Mapping[str, Any]) -> Iterator[Plot]:
    """Yield the share of yes of every judgement, and people beside models; what there is."""
    review = summary.get("review") or {}
    tables = {table.name: table for table in review_section(summary)}
    judged = {
        CALLED[each["judgement"]]: {"": each["yes"]} for each in review.get("judgements") or ()
    }
    if (table := tables.get("review-judgements")) is not None:
        yield from _drawn(judged, [""], "share of settled cases", table)
    answers = review.get("answers")
    if answers and (table := tables.get("review-answers")) is not None:
        who = ("people", "models")
        answered = {
            words: {name: answers[name][version] for name in who}
            for version, words in _VERSIONS.items()
        }
        yield from _drawn(answered, who, "right answers", table)


def _drawn(
    values: Mapping[str, Mapping[str, Any]], who: Any, title: str, table: Table
) -> Iterator[Plot]:
    """Draw shares, one place a row and one series a column of values; unknown ones are left out."""
    known = [
        (row, name, estimate)
        for row, found in values.items()
        for name in who
        if (estimate := read(found[name])) is not None
    ]
    if not known:
        return
    rows = list(dict.fromkeys(row for row, _, _ in known))
    places = dict(zip(rows, on_axis(rows), strict=True))
    chart = layers.dots(
        [mark(estimate, {}, place=places[row], series=name) for row, name, estimate in known],
        list(places.values()),
        [Series(label=name, look=at, dash=at) for at, name in enumerate(who)],
        share_axis(title),
        title=table.caption,
        tips={"place": "What", "series": "Who"} if len(who) > 1 else {"place": "What"},
    )
    spoken = "; ".join(
        f"{' '.join(filter(None, (row, name)))} {decimal(estimate.value)}"
        for row, name, estimate in known
    )
    yield plot(chart, label=f"{table.caption}: {spoken}.", data=table)
