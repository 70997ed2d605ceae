"""Figure 2 of Xian et al. (2025): success, diversity and prompt similarity against n."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from medstress.figures.canvas import Point
from medstress.metrics.diversity import both_diversities
from medstress.metrics.old_stats.estimates import Estimate, read_score
from medstress.metrics.similarity import prompt_similarity
from medstress.papers.arms import Arm, Place
from medstress.papers.outputs import csv_row

MIN_EXPONENTS = 3
"""The fewest exponents that make a curve."""
QUANTITIES = ("asr", "diversity", "diversity_unbiased", "similarity")
"""Quantities of a series in the CSV file, all about the first query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The curves of one entity group in a panel."""

    entity: str
    """`drugs`, `diseases`, or the label of the group."""
    place: Place
    """Data set, victim, embedding and rules."""
    asr: tuple[Point, ...]
    """(n, success of one query), by ascending n."""
    diversity: tuple[Point, ...]
    """(n, Gini-Simpson index of the names that succeeded with the first query, plain)."""
    diversity_unbiased: tuple[Point, ...]
    """The same in the unbiased form. It is drawn, because the plain form grows with success."""
    similarity: tuple[Point, ...]
    """(n, mean similarity of whole prompts, first queries); empty if it was not computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One victim on one data set."""

    label: str
    """Victim and data set, and whatever else differs between panels."""
    series: tuple[Series, ...]
    """One series per entity group."""


def panels_of(arms: Sequence[Arm]) -> list[Panel]:
    """Return the panels that have a group with `MIN_EXPONENTS` exponents or more.

    Random sampling is the point at n = 0 if PDWS was not run there.
    """
    places: dict[Place, list[Arm]] = defaultdict(list)
    for arm in arms:
        if arm.method in ("near", "far", "zero", "random"):
            places[arm.place].append(arm)
    several = len({(p.embedding, p.rule) for p in places}) > 1
    panels: dict[str, list[Series]] = defaultdict(list)
    for place, members in places.items():
        series = _series(place, members)
        if len(series.asr) >= MIN_EXPONENTS:
            extra = [place.embedding, place.rule] if several else []
            label = " · ".join(filter(None, (place.victim.label, place.dataset, *extra)))
            panels[label].append(series)
    return [Panel(label=label, series=tuple(members)) for label, members in panels.items()]


def csv_rows(panels: Iterable[Panel]) -> list[dict[str, Any]]:
    """Return the numbers of the figure, one row per point."""
    return [
        {
            **csv_row(estimate, source="ours", victim=series.place.victim.label),
            "dataset": series.place.dataset,
            "group": series.entity,
            "embedding": series.place.embedding,
            "rule": series.place.rule,
            "quantity": quantity,
            "method": "pdws" if n else "random",
            "exponent": n,
            "budget": 1,
        }
        for panel in panels
        for series in panel.series
        for quantity in QUANTITIES
        for n, estimate in getattr(series, quantity)
    ]


def _series(place: Place, arms: Sequence[Arm]) -> Series:
    by_n: dict[float, Arm] = {}
    for arm in arms:
        n = 0.0 if arm.method == "random" else float(arm.n or 0.0)
        if n not in by_n or arm.method != "random":
            by_n[n] = arm
    ordered = sorted(by_n.items())
    successes = [(n, _of_first_queries(arm)) for n, arm in ordered]
    return Series(
        entity=place.entity,
        place=place,
        asr=tuple((n, e) for n, arm in ordered if (e := arm.asr(1))),
        diversity=tuple((n, one.plain) for n, one in successes),
        diversity_unbiased=tuple((n, one.unbiased) for n, one in successes),
        similarity=tuple((n, e) for n, one in successes if (e := one.similarity).value is not None),
    )


class _Successes(NamedTuple):
    plain: Estimate
    unbiased: Estimate
    similarity: Estimate


def _of_first_queries(arm: Arm) -> _Successes:
    """Return diversity and similarity of the first query's successes, which the claims use."""
    names = ("diversity", "diversity_unbiased", "prompt_similarity")
    if arm.budget == 1 and all(arm.row.get(name) for name in names):
        return _Successes(*(read_score(arm.row[name]) for name in names))
    first = [row for row in arm.trials if row.first_success == 1]
    return _Successes(*both_diversities(first), prompt_similarity(first))
