"""How success grows with queries, changes with the exponent n, and goes with the model's size.

References:
    Xian et al., "Assessing biomedical knowledge robustness in large language models by
    query-efficient sampling attacks", TMLR 2025, sections 4 and 5, Figures 2 to 4.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import log10
from typing import Any, NamedTuple

import numpy as np

from medstress.analyses.results import diversity_of
from medstress.analyses.run import Analysis, Cell, Run
from medstress.analyses.shown import (
    FLAT,
    Chart,
    Entry,
    Field,
    OfAttack,
    Point,
    Shown,
    Table,
    as_entry,
    attack_labels,
    column,
    label,
    named,
    panel,
    place_labels,
    table,
)
from medstress.core.arms import Place
from medstress.stats.curves import Hits, Inflection, TwoCurves, inflection, two_curves
from medstress.stats.estimate import Estimate, unknown
from medstress.stats.resampling import ROUNDING
from medstress.stats.shares import Numbers

GROUPS = ("all", "generalist", "specialist")
"""Groups of models with a trend of their own."""
MOST = 1_000
"""Up to this budget success is counted for every budget, beyond it as far as anybody asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve(OfAttack):
    """Where the curve of one attack levels off."""

    budget: int
    n_items: int
    shape: Inflection = field(metadata=FLAT)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePair(OfAttack):
    """The curves of two attacks with one goal in one place."""

    against: str
    both: TwoCurves = field(metadata=FLAT)


@dataclass(frozen=True, slots=True, kw_only=True)
class AtExponent:
    """One attack of a series."""

    n: float | None
    """None for plain random sampling."""
    attack: str
    asr: Estimate
    asr_at_1: Estimate
    diversity_unbiased: Estimate
    prompt_similarity: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """PDWS attacks that differ only in n, ordered by it, and random sampling beside them."""

    dataset: str
    group: str
    victim: str
    spec: Mapping[str, Any]
    points: Sequence[AtExponent]
    random: AtExponent | None

    @property
    def every_point(self) -> list[AtExponent]:
        """All points, random sampling last."""
        return [*self.points, *([] if self.random is None else [self.random])]

    @property
    def on_axis(self) -> list[AtExponent]:
        """All points in order of n, random sampling at 0 unless n = 0 was run."""
        points = list(self.points)
        if self.random is not None and all(point.n != 0 for point in points):
            points.append(replace(self.random, n=0.0))
        return sorted(points, key=lambda point: point.n or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """One model of known size under one attack."""

    victim: str
    parameters: float
    victim_group: str | None
    asr: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class BySize:
    """Models of known size under one attack, the smallest first."""

    dataset: str
    group: str
    attack: str
    points: Sequence[Sized]
    trend: Mapping[str, Estimate]
    """Change of ASR for ten times the parameters, by group of models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling(Shown):
    """Curves over the budget, series over n, models by size."""

    curves: Sequence[Curve]
    pairs: Sequence[CurvePair]
    exponents: Sequence[Series]
    size: Sequence[BySize]
    title = "Queries, exponents and sizes"

    def tables(self) -> Sequence[Table]:
        """Where curves level off and cross; success by n; sizes."""
        points = [(series, point) for series in self.exponents for point in series.every_point]
        trends = [
            (row, group, trend)
            for row in self.size
            for group, trend in row.trend.items()
            if group == "all" or trend.n
        ]
        recommended = "Recommended: from this budget on more queries bring little, beyond chance."
        bring = "Where more queries bring little"
        return [
            table("scaling", bring, self.curves, CURVES, notes=[recommended]),
            table("curve-pairs", "Two attacks over the budget", self.pairs, PAIRS),
            table("exponents", "Success by the exponent n", points, POINTS),
            table("size", "Change of ASR for ten times the parameters", trends, TRENDS),
        ]

    def charts(self) -> Sequence[Chart]:
        """Success and diversity against n, and success against size."""
        lines = [series for series in self.exponents if len(series.points) > 1]
        lost, charts = "share of right answers lost", []
        x = "n (near names below 0, random names at 0, far names above)"
        for name, title, y in (
            ("asr_at_1", "Lost at the first query, by exponent", lost),
            ("diversity_unbiased", "Different names that succeed, by exponent", "diversity"),
            ("prompt_similarity", "What successes keep of the prompt, by exponent", "mean cosine"),
        ):
            points = [
                Point(point.n or 0.0, value, _budget(series), panel(series, lines))
                for series in lines
                for point in series.on_axis
                if (value := getattr(point, name)).value is not None
            ]
            charts.append(
                Chart(f"exponents-{name.replace('_', '-')}", title, "lines", x, y, points)
            )
        sizes = [
            Point(
                point.parameters,
                point.asr,
                point.victim,
                f"{label(row.attack).words}, {row.group}, {row.dataset}",
                point.victim_group or "",
            )
            for row in self.size
            if len(row.points) > 1
            for point in row.points
        ]
        title, x = "Lost under attack, by size of the model", "parameters"
        size = Chart("size", title, "dots", x, lost, sizes, log_x=True, by_model=True)
        return [*charts, size]


def scaling_of(run: Run) -> Scaling | None:
    """Compute what there is of the three; None where there is nothing."""
    by_place: dict[Place, list[Cell]] = defaultdict(list)
    for cell in run.attacks:
        if cell.attack.judged and not cell.attack.asks_clean_only and cell.eligible.any():
            by_place[cell.place].append(cell)
    curves: list[Curve] = []
    pairs: list[CurvePair] = []
    exponents: list[Series] = []
    for place, cells in by_place.items():
        _add_curves(place, cells, curves, pairs)
        exponents += _series(run, place, cells)
    size = by_size(run)
    if not (curves or exponents or size):
        return None
    return Scaling(curves=curves, pairs=pairs, exponents=exponents, size=size)


SCALING = Analysis("scaling", scaling_of)


# Curves over the budget ------------------------------------------------------------------------


def budget_of(cell: Cell) -> int:
    """Return the largest budget worth counting; nothing changes beyond what was asked."""
    budget = cell.attack.budget
    if budget <= MOST:
        return budget
    return min(budget, max(MOST, *(trial.queries.asked for trial in cell.trials)))


def hits_of(cell: Cell, units: Sequence[str], budget: int, *, by_item: bool = False) -> Hits:
    """Count the successes within every budget, unit by unit.

    Args:
        cell: trials of one attack in one place.
        units: the documents (where known, else items) in the order of the rows.
        budget: the largest budget to count for.
        by_item: True if the units are items.
    """
    place = {unit: i for i, unit in enumerate(units)}
    first, counts = np.zeros((len(units), budget)), np.zeros(len(units))
    for trial, query in zip(cell.trials, cell.first, strict=True):
        i = place.get(trial.item.id if by_item else trial.cluster)
        if i is None or not trial.is_eligible:
            continue
        counts[i] += 1
        if query <= budget:
            first[i, query - 1] += 1
    return Hits(successes=first.cumsum(axis=1), counts=counts)


def _add_curves(
    place: Place, cells: Sequence[Cell], curves: list[Curve], pairs: list[CurvePair]
) -> None:
    """Add the curves of one place, and their pairs: of attacks with a budget of 2 or more."""
    # An attack that asks every name has no budget to recommend.
    limited = [c for c in cells if c.attack.params.get("budget") is not None and budget_of(c) >= 2]
    units = sorted({t.cluster for c in cells for t in c.trials if t.is_eligible})
    arms = [(cell, hits_of(cell, units, budget_of(cell))) for cell in limited]
    for cell, arm in arms:
        curves.append(
            Curve(
                **place._asdict(),
                attack=cell.attack.label,
                budget=arm.budget,
                n_items=int((arm.counts > 0).sum()),
                shape=inflection(arm),
            )
        )
    drawn = {id(arm): arm.resampled for _, arm in arms} if len(arms) > 1 else {}
    for (first, ours), (second, others) in combinations(arms, 2):
        # Reaching one goal sooner than another says nothing.
        if first.attack.goal == second.attack.goal:
            labels = first.attack.label, second.attack.label
            both = two_curves(ours, others, labels, (drawn[id(ours)], drawn[id(others)]))
            pairs.append(
                CurvePair(**place._asdict(), attack=labels[0], against=labels[1], both=both)
            )


# Series over n ---------------------------------------------------------------------------------


def _series(run: Run, place: Place, cells: Sequence[Cell]) -> Iterator[Series]:
    """Yield the series of one place, each with the random attack that differs in sampler alone."""
    groups: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        if cell.attack.params.get("sampler") == "pdws" and cell.attack.params.get("n") is not None:
            groups[_without(cell, "n")].append(cell)
    for shared, members in sorted(groups.items()):
        members.sort(key=lambda cell: float(cell.attack.params["n"]))
        budget = max(map(budget_of, members))
        random = _random_beside(cells, members[0], budget)
        yield Series(
            **place._asdict(),
            spec=json.loads(shared),
            points=[_point(run, cell, float(cell.attack.params["n"])) for cell in members],
            random=None if random is None else _point(run, random, None),
        )


def _without(cell: Cell, *keys: str) -> str:
    params = {key: value for key, value in cell.attack.params.items() if key not in keys}
    return json.dumps(params, sort_keys=True)


def _random_beside(cells: Sequence[Cell], cell: Cell, budget: int) -> Cell | None:
    """Return the random attack that differs from this one only in sampler, n and budget."""
    keys = ("n", "sampler", "budget")
    alike = [
        other
        for other in cells
        if other.attack.params.get("sampler") == "random"
        and _without(other, *keys) == _without(cell, *keys)
        and other.attack.budget >= budget
    ]
    return min(alike, key=lambda other: (other.attack.budget, other.attack.label), default=None)


def _point(run: Run, cell: Cell, n: float | None) -> AtExponent:
    names = diversity_of(run, cell)
    return AtExponent(
        n=n,
        attack=cell.attack.label,
        asr=cell.share(cell.read("asr")),
        asr_at_1=cell.share(cell.read("asr", 1)),
        diversity_unbiased=names.diversity_unbiased,
        prompt_similarity=names.prompt_similarity,
    )


# Models by size --------------------------------------------------------------------------------


def by_size(run: Run) -> list[BySize]:
    """Return accuracy and ASR of models of known size, and the trend of each group of models."""
    victims: Mapping[str, Any] = run.manifest["victims"]
    rows: dict[tuple[str, str, str], list[Cell]] = defaultdict(list)
    for cell in run.attacks:
        has_size = victims.get(cell.place.victim, {}).get("parameters") is not None
        if has_size and cell.attack.judged and not cell.attack.asks_clean_only:
            rows[cell.place.dataset, cell.place.group, cell.attack.label].append(cell)
    sizes = []
    for (dataset, group, attack), cells in sorted(rows.items()):
        points = [_sized(cell, victims[cell.place.victim]) for cell in cells]
        points.sort(key=lambda pair: (pair[0].parameters, pair[0].victim))
        of_group = {
            name: [rated for point, rated in points if name in ("all", point.victim_group)]
            for name in GROUPS
        }
        sizes.append(
            BySize(
                dataset=dataset,
                group=group,
                attack=attack,
                points=[point for point, _ in points],
                trend={name: trend(rated) for name, rated in of_group.items()},
            )
        )
    return sizes


class Rated(NamedTuple):
    """ASR of a model of known size."""

    parameters: float
    asr: float | None
    least: float
    """The least that open answers allow."""
    most: float


def _sized(cell: Cell, victim: Mapping[str, Any]) -> tuple[Sized, Rated]:
    reading, parameters = cell.read("asr"), float(victim["parameters"])
    asr, may = cell.share(reading), reading.may_count
    sized = Sized(
        victim=cell.place.victim,
        parameters=parameters,
        victim_group=victim.get("group"),
        asr=asr,
    )
    least, most = (float(hits[may].mean()) if may.any() else 0.0 for hits in reading[3:])
    return sized, Rated(parameters, asr.value, least, most)


def trend(models: Sequence[Rated]) -> Estimate:
    """Estimate the change of ASR for ten times the parameters, by least squares over models.

    All models weigh the same; the interval is Student's. With few models of few families it says
    little about other models. Where answers are open, its worst ends are those of the steepest
    lines: small models at one end of what is open and large ones at the other.
    """
    rated = [(log10(m.parameters), m.asr, m.least, m.most) for m in models if m.asr is not None]
    if len({size for size, *_ in rated}) < 3:
        return unknown("needs victims of three sizes", len(rated))
    sizes, values, least, most = np.array(rated).T
    line = _line(sizes, values)
    if (least == most).all():
        return line
    large = sizes > sizes.mean()
    falls = _line(sizes, np.where(large, least, most))
    rises = _line(sizes, np.where(large, most, least))
    lows = [(e.value if e.low is None else e.low) or 0.0 for e in (line, falls)]
    highs = [(e.value if e.high is None else e.high) or 0.0 for e in (line, rises)]
    return replace(line, worst=(min(lows), max(highs)))


def _line(x: Numbers, y: Numbers) -> Estimate:
    from scipy.special import stdtrit

    n, spread = len(x), float(((x - x.mean()) ** 2).sum())
    slope = float(((x - x.mean()) * (y - y.mean())).sum()) / spread
    residuals = y - y.mean() - slope * (x - x.mean())
    method = "least squares of ASR on log10(parameters) over victims"
    if np.abs(residuals).max() < ROUNDING:
        why = f"{method}: no interval, as the victims lie on one line"
        return Estimate(value=slope, n=n, low=None, high=None, method=why)
    error = float(np.sqrt((residuals**2).sum() / (n - 2) / spread))
    half, method = float(stdtrit(n - 2, 0.975)) * error, f"{method}, Student's t 95 %"
    return Estimate(value=slope, n=n, low=slope - half, high=slope + half, method=method)


# What is shown ---------------------------------------------------------------------------------


def _budget(series: Series) -> str:
    parts = [f"{series.spec['budget']} queries" if series.spec.get("budget") else ""]
    parts += [str(series.spec[key]) for key in ("goal", "choices") if series.spec.get(key)]
    return ", ".join(filter(None, parts))


def _why(estimate: Estimate) -> Entry:
    """Return an estimate, and where it has no value why."""
    has_value = estimate.value is not None
    return as_entry(estimate) if has_value else Entry(value=estimate, lines=(estimate.method,))


CURVES: Sequence[Field[Curve]] = (
    *attack_labels(),
    column("Budget", "budget", "count"),
    column("Items", "n_items", "count", wide=True),
    column("Levels off at", lambda row: _why(row.shape.inflection), "score", "queries"),
    column("Rise before", "shape.slope_before", "score", "per unit of ln(budget)", wide=True),
    column("Rise after", "shape.slope_after", "score", "per unit of ln(budget)", wide=True),
    column("Recommended budget", "shape.recommended_budget", "count"),
)
PAIRS: Sequence[Field[CurvePair]] = (
    named("Attack", "attack"),
    named("Against", "against"),
    *place_labels(),
    column("Items", "both.n_items", "count", wide=True),
    column("Largest gap", "both.gap", "score", "first minus second"),
    column("at", "both.gap_budget", "score", "queries"),
    column("Overtakes at", "both.crossover", "score", "queries"),
    column("Leads then", lambda row: row.both.leads_after and label(row.both.leads_after)),
)
POINTS: Sequence[Field[tuple[Series, AtExponent]]] = (
    named("Attack", "1.attack"),
    *place_labels("0"),
    column("n", "1.n", "number"),
    column("Lost (ASR)", "1.asr", "share"),
    column("at the first query", "1.asr_at_1", "share"),
    column("Diversity", "1.diversity_unbiased", "score", "unbiased Gini-Simpson index"),
    column("Prompt similarity", "1.prompt_similarity", "score", wide=True),
)
TRENDS: Sequence[Field[tuple[BySize, str, Estimate]]] = (
    named("Attack", "0.attack"),
    column("Models", "1", key="models"),
    named("Data", "0.dataset", wide=True),
    named("Group", "0.group", wide=True),
    column("Change", lambda row: _why(row[2]), "score"),
)
