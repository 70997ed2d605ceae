"""How success grows with queries, changes with the exponent n, and goes with the model's size.

References:
    Xian et al., "Assessing biomedical knowledge robustness in large language models by
    query-efficient sampling attacks", TMLR 2025, sections 4 and 5, Figures 2 to 4.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from medstress.analyses.choice import competitors
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
from medstress.stats.estimate import Estimate

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
class AtExponent(OfAttack):
    """One attack of PDWS, or random sampling beside it."""

    n: float
    """The exponent; 0 for random sampling."""
    rule: str
    """Budget, and the parameters in which the attacks of a run differ."""
    asr: Estimate
    asr_at_1: Estimate
    diversity_unbiased: Estimate
    prompt_similarity: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized(OfAttack):
    """One model of known size under one attack."""

    parameters: float
    victim_group: str | None
    """`generalist` or `specialist`."""
    asr: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling(Shown):
    """Curves over the budget, series over n, models by size."""

    curves: Sequence[Curve]
    pairs: Sequence[CurvePair]
    exponents: Sequence[AtExponent]
    """By ascending n in each place."""
    size: Sequence[Sized]
    """The smallest model of each attack first."""
    title = "Queries, exponents and sizes"

    def tables(self) -> Sequence[Table]:
        """Where curves level off and cross; success by n; sizes."""
        recommended = "Recommended: from this budget on more queries bring little, beyond chance."
        bring = "Where more queries bring little"
        return [
            table("scaling", bring, self.curves, CURVES, notes=[recommended]),
            table("curve-pairs", "Two attacks over the budget", self.pairs, PAIRS),
            table("exponents", "Success by the exponent n", self.exponents, POINTS),
            table("size", "Lost under attack, by size of the model", self.size, SIZES),
        ]

    def charts(self) -> Sequence[Chart]:
        """Success and diversity against n, and success against size."""
        n = Counter((row.place, row.rule) for row in self.exponents)
        shown = [row for row in self.exponents if n[row.place, row.rule] > 1]
        lost, charts = "share of right answers lost", []
        x = "n (near names below 0, random names at 0, far names above)"
        for name, title, y in (
            ("asr_at_1", "Lost at the first query, by exponent", lost),
            ("diversity_unbiased", "Different names that succeed, by exponent", "diversity"),
            ("prompt_similarity", "What successes keep of the prompt, by exponent", "mean cosine"),
        ):
            points = [
                Point(row.n, value, row.rule, panel(row, shown))
                for row in shown
                if (value := getattr(row, name)).value is not None
            ]
            charts.append(
                Chart(f"exponents-{name.replace('_', '-')}", title, "lines", x, y, points)
            )
        places = Counter((row.dataset, row.group, row.attack) for row in self.size)
        sizes = [
            Point(row.parameters, row.asr, row.victim, f"{label(attack).words}, {group}, {dataset}")
            for (dataset, group, attack), n in places.items()
            if n > 1
            for row in self.size
            if (row.dataset, row.group, row.attack) == (dataset, group, attack)
        ]
        title, x = "Lost under attack, by size of the model", "parameters"
        size = Chart("size", title, "dots", x, lost, sizes, log_x=True, by_model=True)
        return [*charts, size]


def scaling_of(run: Run) -> Scaling | None:
    """Compute what there is of the three; None where there is nothing."""
    judged = [c for c in run.attacks if c.attack.judged and not c.attack.asks_clean_only]
    by_place: dict[Place, list[Cell]] = defaultdict(list)
    for cell in judged:
        if cell.eligible.any():
            by_place[cell.place].append(cell)
    curves: list[Curve] = []
    pairs: list[CurvePair] = []
    for cells in by_place.values():
        _add_curves(cells, curves, pairs)
    exponents = sorted(_at_exponents(run), key=lambda row: (row.place, row.rule, row.n))
    size = _by_size(judged, run.manifest["victims"])
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


def _add_curves(cells: Sequence[Cell], curves: list[Curve], pairs: list[CurvePair]) -> None:
    """Add the curves of one place, and their pairs: of attacks with a budget of 2 or more."""
    # An attack that asks every name has no budget to recommend.
    limited = [c for c in cells if c.attack.params.get("budget") is not None and budget_of(c) >= 2]
    units = sorted({t.cluster for c in cells for t in c.trials if t.is_eligible})
    arms = [(cell, hits_of(cell, units, budget_of(cell))) for cell in limited]
    for cell, arm in arms:
        n = int((arm.counts > 0).sum())
        curves.append(Curve(**cell.labels, budget=arm.budget, n_items=n, shape=inflection(arm)))
    drawn = {id(arm): arm.resampled for _, arm in arms} if len(arms) > 1 else {}
    for (first, ours), (second, others) in combinations(arms, 2):
        # Reaching one goal sooner than another says nothing.
        if first.attack.goal == second.attack.goal:
            labels = first.attack.label, second.attack.label
            both = two_curves(ours, others, labels, (drawn[id(ours)], drawn[id(others)]))
            pairs.append(CurvePair(**first.labels, against=labels[1], both=both))


# Success over n --------------------------------------------------------------------------------


def _at_exponents(run: Run) -> Iterator[AtExponent]:
    """Yield the attacks of every place in which PDWS was run."""
    drawing = [
        one
        for one in competitors(run)
        if one.method in ("near", "zero", "far", "random") and one.cell.eligible.any()
    ]
    places = {one.cell.place for one in drawing if one.n is not None}
    for one in (one for one in drawing if one.cell.place in places):
        names = diversity_of(run, one.cell)
        yield AtExponent(
            **one.cell.labels,
            n=one.n or 0.0,
            rule=", ".join(filter(None, (f"{one.budget} queries", one.setting.rule))),
            asr=one.share(one.budget),
            asr_at_1=one.share(1),
            diversity_unbiased=names.diversity_unbiased,
            prompt_similarity=names.prompt_similarity,
        )


# Models by size --------------------------------------------------------------------------------


def _by_size(cells: Sequence[Cell], victims: Mapping[str, Any]) -> list[Sized]:
    """Return ASR of the models of known size."""
    rows = [
        Sized(
            **cell.labels,
            parameters=float(size),
            victim_group=victims[cell.place.victim].get("group"),
            asr=cell.share(cell.read("asr")),
        )
        for cell in cells
        if (size := victims.get(cell.place.victim, {}).get("parameters")) is not None
    ]
    return sorted(rows, key=lambda r: (r.dataset, r.group, r.attack, r.parameters, r.victim))


# What is shown ---------------------------------------------------------------------------------


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
POINTS: Sequence[Field[AtExponent]] = (
    *attack_labels(),
    column("n", "n", "number"),
    column("Lost (ASR)", "asr", "share"),
    column("at the first query", "asr_at_1", "share"),
    column("Diversity", "diversity_unbiased", "score", "unbiased Gini-Simpson index"),
    column("Prompt similarity", "prompt_similarity", "score", wide=True),
)
SIZES: Sequence[Field[Sized]] = (
    *attack_labels(),
    column("Kind", "victim_group"),
    column("Parameters", "parameters", "number"),
    column("Lost (ASR)", "asr", "share"),
)
