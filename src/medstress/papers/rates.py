"""Accuracy and success by method in every place, for the papers' tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.metrics.clean_answers import CleanAnswers
from medstress.metrics.counts import is_answered
from medstress.metrics.old_stats.estimates import Estimate
from medstress.papers.arms import METHODS, NO_ITEMS, Arm, Place, baseline, in_places
from medstress.papers.exponents import (
    EXPONENT,
    LEARNING_RATE,
    SHARE,
    Choice,
    best_exponent,
    has_learning_rate,
    tuning_items,
    zoo_searches,
)

REGIMES = ("near", "far")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """One place: accuracy, and success within a budget by method."""

    place: Place
    """Data set, victim, embedding and rules."""
    source: str
    """The data set's kind."""
    baseline: CleanAnswers
    """Answers to the clean items that are reported."""
    n_items: int
    """Number of distinct items that are reported."""
    seeds: tuple[int, ...]
    """Seeds of the random arms."""
    budget: int
    """Perturbed queries per item."""
    asr: Mapping[str, Estimate]
    """Success by method; the key is a key of `METHODS` or an attack's label."""
    accuracy_after: Mapping[str, Estimate]
    """Accuracy after the budget is spent; same keys as `asr`."""
    choices: Mapping[str, Choice]
    """How n was chosen for each regime, and the learning rate for DiscreteZOO."""

    @property
    def tuned(self) -> bool:
        """True if some items were used for tuning and are not reported."""
        return any(choice.rule == "tuned" for choice in self.choices.values())


def rates_of(arms: Sequence[Arm], budget: int, choices: str = "default") -> list[Rates]:
    """Compute the rates of every place that has an arm with at least this budget.

    If n or a learning rate is tuned on a part of the items, that part is left out of all columns,
    accuracy and random sampling included, so that the columns can be compared.

    Args:
        arms: arms of a run.
        budget: perturbed queries per item.
        choices: `default`, or `as_published` for the maximum over n on the same items.
    """
    rates = []
    for place, members in in_places(arms).items():
        enough = [arm for arm in members if arm.budget >= budget]
        if enough:
            rates.append(_rates(place, enough, budget, choices))
    return rates


def has_choice(arms: Sequence[Arm], budget: int) -> bool:
    """Return True if n or a learning rate is tuned among attacks with at least this budget."""
    return any(rates.tuned for rates in rates_of(arms, budget))


def _rates(place: Place, arms: Sequence[Arm], budget: int, choices: str) -> Rates:
    regimes = _regimes(arms)
    several = any(len(members) > 1 for members in regimes.values())
    split = NO_ITEMS
    if several and choices == "default":
        split = tuning_items((trial for arm in arms for trial in arm.trials), SHARE)
    chosen = {
        name: choice
        for name, members in regimes.items()
        if (choice := _choose(members, budget, choices, split))
    }
    reported = {
        trial.item_hash
        for arm in arms
        for trial in arm.trials
        if is_answered(trial) and trial.item_hash not in split
    }
    columns = _columns(arms, regimes, chosen)
    return Rates(
        place=place,
        source=arms[0].source,
        baseline=baseline(arms, split),
        n_items=len(reported),
        seeds=tuple(sorted({seed for arm in arms for seed in _seeds(arm)})),
        budget=budget,
        asr={
            name: chosen[name].estimate if name in chosen else estimate
            for name, arm in columns.items()
            if (estimate := arm.asr(budget, split))
        },
        accuracy_after={name: arm.accuracy_after(budget, split) for name, arm in columns.items()},
        choices=chosen,
    )


def _regimes(arms: Sequence[Arm]) -> dict[str, list[Arm]]:
    """Return the columns with a tuned parameter, and the arms to choose from for each."""
    regimes = {name: [arm for arm in arms if arm.method == name] for name in REGIMES}
    searches = zoo_searches(arms)
    for members in searches:
        if has_learning_rate(members[0]):
            name = members[0].method if len(searches) == 1 else members[0].attack
            regimes[name] = members
    return regimes


def _choose(arms: Sequence[Arm], budget: int, choices: str, split: frozenset[str]) -> Choice | None:
    rows = [trial for arm in arms for trial in arm.trials]
    if len(arms) == 1 and split:
        # A single value needs no tuning, but the tuning items are left out here as well, so that
        # all columns of a line are about the same items.
        rows = [row for row in rows if row.item_hash not in split]
    key = EXPONENT if arms and arms[0].method in REGIMES else LEARNING_RATE
    return best_exponent(rows, budget=budget, choices=choices, split=split, key=key)


def _columns(
    arms: Sequence[Arm], regimes: Mapping[str, Sequence[Arm]], chosen: Mapping[str, Choice]
) -> dict[str, Arm]:
    """Return the reported arms by column, in the order of `METHODS`."""
    of_regimes = {arm.attack for members in regimes.values() for arm in members}
    columns = {_column(arm, arms): arm for arm in arms if arm.attack not in of_regimes}
    for name, choice in chosen.items():
        columns[name] = next(arm for arm in regimes[name] if arm.spec[choice.key] == choice.value)
    order = list(METHODS)
    known = sorted((name for name in columns if name in METHODS), key=order.index)
    return {name: columns[name] for name in [*known, *sorted(set(columns) - set(known))]}


def _column(arm: Arm, arms: Sequence[Arm]) -> str:
    """Return the method, or the attack's label if several attacks share the method."""
    return arm.method if sum(a.method == arm.method for a in arms) == 1 else arm.attack


def _seeds(arm: Arm) -> list[int]:
    seeds: list[Any] = arm.row["seeds"]
    return [seed for seed in seeds if seed is not None]
