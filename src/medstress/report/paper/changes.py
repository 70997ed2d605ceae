"""Paired comparisons over items: what another embedding changes, and what variants are worth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isqrt

from medstress.metrics.counts import is_flipped, is_unrefuted_success, pick_success
from medstress.metrics.estimates import Estimate
from medstress.metrics.item_means import Score, mean_over_items, paired_change
from medstress.report.paper.arms import METHODS, Arm, Place
from medstress.report.paper.curves import SMALLEST_BUDGET
from medstress.rows import TrialRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What another embedding changes in the curve of one attack."""

    place: Place
    """Where; its embedding is the first of the two."""
    method: str
    """How the attack is called."""
    embeddings: tuple[str, str]
    """The first and the other."""
    budget: int
    """The largest of the curve."""
    rise: tuple[Estimate, Estimate, Estimate]
    """Mean success over the budgets up to the square root of the largest: first, other, change."""
    plateau: tuple[Estimate, Estimate, Estimate]
    """Success at the largest budget: first, other, change (other - first)."""


def changes_of(arms: Sequence[Arm]) -> list[Change]:
    """Compare every attack with itself under another embedding, on the items of both.

    The paper says that its choice shows in the rapid rise for PDWS and in the plateau for
    DiscreteZOO. Rise and plateau are read at fixed budgets, the same for both curves, so that
    the comparison does not depend on where a fit puts the inflection.
    """
    same: dict[tuple[str, ...], list[Arm]] = defaultdict(list)
    for arm in arms:
        p = arm.place
        if arm.budget >= SMALLEST_BUDGET:
            same[p.dataset, p.entity, p.victim.label, p.rule, arm.attack].append(arm)
    order = list(METHODS)
    ranked = sorted(
        same.values(),
        key=lambda arms: order.index(m) if (m := arms[0].method) in order else len(order),
    )
    return [
        _change(one, other)
        for members in ranked
        for one, other in combinations(members, 2)
        if one.place.embedding != other.place.embedding
    ]


def rise_budget(largest: int) -> int:
    """The last budget of the rise: halfway to the largest on a logarithmic axis.

    >>> rise_budget(100), rise_budget(8)
    (10, 2)
    """
    return isqrt(largest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advantage:
    """What PDWS near gains over random sampling, with and without variants of the key."""

    place: Place
    """Where."""
    n: float
    """Exponent of the near arm."""
    budget: int
    """Perturbed queries per item."""
    near: tuple[Estimate, Estimate]
    """Success of the near arm: all, and only what nothing refutes."""
    random: tuple[Estimate, Estimate]
    """The same of random sampling."""
    gain: tuple[Estimate, Estimate]
    """near - random, paired by items: all, and only what nothing refutes."""


def advantages_of(arms: Sequence[Arm]) -> list[Advantage]:
    """Compare near arms that ask variants of the key, and mark them, with random sampling.

    At one query and at the largest budget of both.
    """
    found = []
    for near in arms:
        if near.method != "near" or not _marks(near):
            continue
        rivals = [a for a in arms if a.place == near.place and a.method == "random" and _marks(a)]
        for rival in rivals[:1]:
            for budget in sorted({1, min(near.budget, rival.budget)}):
                found.append(_advantage(near, rival, budget))
    return found


def _advantage(near: Arm, rival: Arm, budget: int) -> Advantage:
    scores = (_within(budget), _unrefuted_within(budget))
    return Advantage(
        place=near.place,
        n=near.n or 0.0,
        budget=budget,
        near=_pair(near.trials, scores),
        random=_pair(rival.trials, scores),
        gain=(
            paired_change(rival.trials, near.trials, scores[0]),
            paired_change(rival.trials, near.trials, scores[1]),
        ),
    )


def _change(one: Arm, other: Arm) -> Change:
    budget = min(one.budget, other.budget)
    scores = (_rise(rise_budget(budget)), _within(budget))
    values = [
        (
            mean_over_items(one.trials, score),
            mean_over_items(other.trials, score),
            paired_change(one.trials, other.trials, score),
        )
        for score in scores
    ]
    name = METHODS.get(one.method, one.attack)
    return Change(
        place=one.place,
        method=f"PDWS n = {one.n:g}".replace("-", "−") if one.n is not None else name,
        embeddings=(one.place.embedding, other.place.embedding),
        budget=budget,
        rise=values[0],
        plateau=values[1],
    )


def _within(budget: int) -> Score:
    def score(trial: TrialRow) -> float:
        first = trial.first_success
        return float(is_flipped(trial) and first is not None and first <= budget)

    return score


def _unrefuted_within(budget: int) -> Score:
    def score(trial: TrialRow) -> float:
        first = pick_success(trial)
        return float(is_unrefuted_success(trial) and first is not None and first <= budget)

    return score


def _rise(last: int) -> Score:
    """Mean of success over budgets 1 to `last`: the share of them at or after the first success."""

    def score(trial: TrialRow) -> float:
        if not is_flipped(trial) or trial.first_success is None:
            return 0.0
        return max(0, last - trial.first_success + 1) / last

    return score


def _pair(trials: Sequence[TrialRow], scores: tuple[Score, Score]) -> tuple[Estimate, Estimate]:
    return mean_over_items(trials, scores[0]), mean_over_items(trials, scores[1])


def _marks(arm: Arm) -> bool:
    """Whether the attack asks variants of the key and marks them."""
    return bool(arm.spec.get("variants") == "mark")
