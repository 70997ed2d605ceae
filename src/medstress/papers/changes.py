"""Paired comparisons over items: the effect of the embedding, and of variants of the key."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import isqrt

from medstress.core.rows import TrialRow
from medstress.metrics.counts import (
    flipped_within,
    is_eligible,
    is_flipped,
    is_unrefuted_success,
    pick_success,
    unit_of,
)
from medstress.metrics.item_means import Score, mean_over_items, paired_change
from medstress.metrics.old_stats.estimates import Estimate
from medstress.metrics.old_stats.shares import rate
from medstress.metrics.pairs import Hit, difference_of
from medstress.papers.arms import METHODS, Arm, Place
from medstress.papers.curves import SMALLEST_BUDGET


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """How another embedding changes the curve of one attack."""

    place: Place
    """Place of the arm with the first embedding."""
    method: str
    """Name of the attack."""
    embeddings: tuple[str, str]
    """The first and the other embedding."""
    budget: int
    """The largest budget that both curves have."""
    rise: tuple[Estimate, Estimate, Estimate]
    """Mean success over the budgets up to the square root of the largest: first, other, change."""
    plateau: tuple[Estimate, Estimate, Estimate]
    """Success at the largest budget: first, other, change (other - first)."""


def changes_of(arms: Sequence[Arm]) -> list[Change]:
    """Compare every attack with itself under another embedding, on the items that both share.

    The paper says that the embedding matters in the rapid rise for PDWS and in the plateau for
    DiscreteZOO. Rise and plateau are read at the same fixed budgets of both curves, so that the
    comparison does not depend on where a fit puts the inflection.
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
    """Return the last budget of the rise: halfway to the largest on a logarithmic axis.

    >>> rise_budget(100), rise_budget(8)
    (10, 2)
    """
    return isqrt(largest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advantage:
    """What PDWS near gains over random sampling, with and without variants of the key."""

    place: Place
    """Data set, victim, embedding and rules."""
    n: float
    """Exponent of the near arm."""
    budget: int
    """Perturbed queries per item."""
    near: tuple[Estimate, Estimate]
    """Success of the near arm: all successes, and only those not refuted."""
    random: tuple[Estimate, Estimate]
    """The same for random sampling."""
    gain: tuple[Estimate, Estimate]
    """near - random, paired by items: all successes, and only those not refuted."""


def advantages_of(arms: Sequence[Arm]) -> list[Advantage]:
    """Compare near arms that ask and mark variants of the key with random sampling.

    They are compared at one query and at the largest budget that both have.
    """
    advantages = []
    for near in arms:
        if near.method != "near" or not _marks(near):
            continue
        rivals = [a for a in arms if a.place == near.place and a.method == "random" and _marks(a)]
        for rival in rivals[:1]:
            for budget in sorted({1, min(near.budget, rival.budget)}):
                advantages.append(_advantage(near, rival, budget))
    return advantages


def _advantage(near: Arm, rival: Arm, budget: int) -> Advantage:
    hits = (partial(flipped_within, budget=budget), partial(_unrefuted_within, budget=budget))
    return Advantage(
        place=near.place,
        n=near.n or 0.0,
        budget=budget,
        near=(_share(near, hits[0]), _share(near, hits[1])),
        random=(_share(rival, hits[0]), _share(rival, hits[1])),
        gain=(
            difference_of(near.trials, rival.trials, hits[0]).estimate,
            difference_of(near.trials, rival.trials, hits[1]).estimate,
        ),
    )


def _change(one: Arm, other: Arm) -> Change:
    budget = min(one.budget, other.budget)
    rise, hit = _rise(rise_budget(budget)), partial(flipped_within, budget=budget)
    name = METHODS.get(one.method, one.attack)
    return Change(
        place=one.place,
        method=f"PDWS n = {one.n:g}".replace("-", "−") if one.n is not None else name,
        embeddings=(one.place.embedding, other.place.embedding),
        budget=budget,
        rise=(
            mean_over_items(one.trials, rise),
            mean_over_items(other.trials, rise),
            paired_change(one.trials, other.trials, rise),
        ),
        plateau=(
            _share(one, hit),
            _share(other, hit),
            difference_of(other.trials, one.trials, hit).estimate,
        ),
    )


def _unrefuted_within(trial: TrialRow, budget: int) -> bool:
    first = pick_success(trial)
    return is_unrefuted_success(trial) and first is not None and first <= budget


def _share(arm: Arm, hit: Hit) -> Estimate:
    """Return the share of eligible trials with a hit."""
    return rate((unit_of(row), hit(row)) for row in arm.trials if is_eligible(row))


def _rise(last: int) -> Score:
    """Score a trial by its share of the budgets 1 to `last` at or after its first success."""

    def score(trial: TrialRow) -> float:
        if not is_flipped(trial) or trial.first_success is None:
            return 0.0
        return max(0, last - trial.first_success + 1) / last

    return score


def _marks(arm: Arm) -> bool:
    """Return True if the attack asks variants of the key and marks them."""
    return bool(arm.spec.get("variants") == "mark")
