"""Figure 4 and the growth with M: success against the budget, by method and embedding."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from medstress.metrics.curves.plateau import NO_PLATEAU
from medstress.metrics.old_stats.estimates import Estimate
from medstress.papers.arms import METHODS, NO_ITEMS, Arm, Place, in_places
from medstress.papers.exponents import best_exponent, tuning_items
from medstress.papers.outputs import csv_row

SMALLEST_BUDGET = 3
"""The smallest budget that makes a curve, and with which DiscreteZOO can act."""

SEARCH = ("random", "near", "far", "discrete_zoo")
DETERMINISTIC = ("nearest", "farthest", "near", "far")

_OF_ONE_METHOD = ("similarity_threshold", "word_ranking")
"""Rules of DiscreteZOO alone; its variants share one panel so that they can be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlottedCurve:
    """One line of a panel."""

    label: str
    """Method and embedding."""
    method: str
    """A key of `METHODS`, or the attack's name."""
    embedding: str
    """Embedding that measured the distances."""
    arm: Arm
    """The arm that it shows."""
    points: tuple[tuple[int, Estimate], ...]
    """(budget, success), for 1, 2, ... queries."""
    inflection: float | None = None
    """The budget where a plateau begins; None if there is none or it was not analysed."""
    rises: bool = False
    """True if the run's analyses found no plateau within the budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePanel:
    """One victim on one group of one data set."""

    label: str
    """Victim, data set, group, and whatever else differs between panels."""
    curves: tuple[PlottedCurve, ...]
    """The lines of the panel."""
    without: frozenset[str]
    """Hashes of the tuning items, left out of every line."""

    @property
    def largest(self) -> int:
        """The largest budget of its curves."""
        return max(curve.points[-1][0] for curve in self.curves)


def panels_of(arms: Sequence[Arm], methods: Sequence[str]) -> list[CurvePanel]:
    """Return panels with the curves of these methods; a panel shows all embeddings.

    If a regime of PDWS has several exponents, the one with the greatest success within its budget
    on a fifth of the items is drawn, measured on the other items.
    """
    chosen = [arm for arm in arms if arm.method in methods and arm.budget >= SMALLEST_BUDGET]
    not_pdws = [arm for arm in chosen if arm.method not in ("near", "far")]
    several = len({_shared_rule(arm.place) for arm in chosen}) > 1
    panels: dict[str, list[Arm]] = defaultdict(list)
    for arm in chosen:
        panels[_label(arm.place, several)].append(arm)
    return [
        _panel(label, members, methods)
        for label, members in panels.items()
        if methods != DETERMINISTIC or any(arm in not_pdws for arm in members)
    ]


def growth_panels(arms: Sequence[Arm]) -> list[CurvePanel]:
    """Return panels with DiscreteZOO at two or more numbers of candidates, and random sampling."""
    several = len({_shared_rule(arm.place) for arm in arms}) > 1
    panels: dict[str, list[Arm]] = defaultdict(list)
    for arm in arms:
        if arm.method in ("discrete_zoo", "random") and arm.budget >= SMALLEST_BUDGET:
            label = f"{_label(arm.place, several)} · {arm.place.embedding}"
            panels[label].append(arm)
    growth = []
    for label, members in panels.items():
        sizes = {arm.candidates for arm in members if arm.method == "discrete_zoo"}
        if len(sizes) < 2:
            continue
        ordered = sorted(members, key=lambda arm: (arm.candidates is None, arm.candidates or 0))
        growth.append(
            CurvePanel(
                label=label,
                curves=tuple(_curve(arm, _growth_label(arm, ordered), NO_ITEMS) for arm in ordered),
                without=NO_ITEMS,
            )
        )
    return growth


def with_inflections(
    panels: Iterable[CurvePanel], rows: Iterable[Mapping[str, Any]]
) -> list[CurvePanel]:
    """Return the panels with inflections from the rows of the summary's `analysis.curves`."""
    known: dict[tuple[Any, ...], Mapping[str, Any]] = {
        (row.get("dataset"), row.get("group"), row.get("victim"), row.get("attack")): (
            row.get("inflection") or {}
        )
        for row in rows
    }
    return [
        replace(panel, curves=tuple(_marked(c, known.get(_key(c.arm), {})) for c in panel.curves))
        for panel in panels
    ]


def _marked(curve: PlottedCurve, inflection: Mapping[str, Any]) -> PlottedCurve:
    rises = inflection.get("method") == NO_PLATEAU
    return replace(curve, inflection=inflection.get("value"), rises=rises)


def sentences(panels: Iterable[CurvePanel]) -> list[str]:
    """Return the caption's sentences about marks in the panels."""
    # A curve may be in two panels and is counted once.
    drawn = {_key(curve.arm): curve for panel in panels for curve in panel.curves}
    caption = []
    if any(curve.inflection is not None for curve in drawn.values()):
        caption.append("Circles: where a plateau begins (intervals: analysis-curves.csv).")
    if n := sum(curve.rises for curve in drawn.values()):
        caption.append(f"{NO_PLATEAU.capitalize()}: {n} of {len(drawn)} curves.")
    return caption


def _key(arm: Arm) -> tuple[str, ...]:
    return (arm.place.dataset, arm.group, arm.place.victim.label, arm.attack)


def csv_rows(panels: Iterable[CurvePanel]) -> list[dict[str, Any]]:
    """Return the numbers of the panels, one row per point."""
    return [
        {
            **csv_row(estimate, source="ours", victim=curve.arm.place.victim.label),
            "dataset": curve.arm.place.dataset,
            "group": curve.arm.place.entity,
            "embedding": curve.embedding,
            "rule": curve.arm.place.rule,
            "quantity": "asr",
            "method": curve.arm.attack,
            "exponent": "" if curve.arm.n is None else curve.arm.n,
            "exponent_rule": "tuned" if panel.without and curve.arm.n is not None else "",
            "budget": budget,
        }
        for panel in panels
        for curve in panel.curves
        for budget, estimate in curve.points
    ]


def _panel(label: str, arms: Sequence[Arm], methods: Sequence[str]) -> CurvePanel:
    kept, without = _with_one_exponent(arms)
    order = {method: i for i, method in enumerate(methods)}
    embeddings = list(dict.fromkeys(arm.place.embedding for arm in kept))
    kept = sorted(kept, key=lambda a: (order[a.method], embeddings.index(a.place.embedding)))
    return CurvePanel(
        label=label,
        curves=tuple(_curve(arm, _method_label(arm, kept), without) for arm in kept),
        without=without,
    )


def _with_one_exponent(arms: Sequence[Arm]) -> tuple[list[Arm], frozenset[str]]:
    """Keep one arm per regime and place; return the arms and the tuning items."""
    kept: list[Arm] = []
    without: frozenset[str] = NO_ITEMS
    split = tuning_items(trial for arm in arms for trial in arm.trials)
    for members in in_places(arms).values():
        for method in dict.fromkeys(arm.method for arm in members):
            same = [arm for arm in members if arm.method == method]
            if method in ("near", "far") and len(same) > 1:
                without = split
                rows = [trial for arm in same for trial in arm.trials]
                budget = min(arm.budget for arm in same)
                choice = best_exponent(rows, budget=budget, split=split)
                same = [arm for arm in same if choice and arm.n == choice.value]
            kept += same
    return kept, without


def _curve(arm: Arm, label: str, without: frozenset[str]) -> PlottedCurve:
    return PlottedCurve(
        label=label,
        method=arm.method,
        embedding=arm.place.embedding,
        arm=arm,
        points=tuple(arm.curve(without)),
    )


def _label(place: Place, with_rule: bool) -> str:
    rule = _shared_rule(place) if with_rule else ""
    return " · ".join(filter(None, [place.victim.label, place.dataset, place.entity, rule]))


def _shared_rule(place: Place) -> str:
    """Return the rules that separate a place's panel from others."""
    parts = place.rule.split(", ")
    return ", ".join(part for part in parts if part.partition(" = ")[0] not in _OF_ONE_METHOD)


def _method_label(arm: Arm, arms: Sequence[Arm]) -> str:
    name = METHODS.get(arm.method, arm.method)
    if arm.n is not None:
        name = f"PDWS n = {arm.n:g}".replace("-", "−")
    kind = (arm.place.embedding, arm.method, arm.n)
    if sum((a.place.embedding, a.method, a.n) == kind for a in arms) > 1:
        name = arm.attack
    several = len({a.place.embedding for a in arms}) > 1
    return f"{name}, {arm.place.embedding}" if several else name


def _growth_label(arm: Arm, arms: Sequence[Arm]) -> str:
    if sum(a.candidates == arm.candidates for a in arms) > 1:
        return arm.attack
    return "RandS" if arm.candidates is None else f"M = {arm.candidates}"
