"""Group trials for comparison by place, attack and item."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from medstress.core.rows import TrialRow
from medstress.metrics.counts import is_eligible, is_flipped

Place: TypeAlias = tuple[str, str, str]
"""(data set, group, victim)."""

Arms: TypeAlias = Mapping[Place, Mapping[str, Sequence[TrialRow]]]
"""Eligible trials by place and attack, seeds together."""


def arrange(trials: Iterable[TrialRow]) -> Arms:
    """Group the eligible trials by place and attack, both sorted."""
    found: dict[Place, dict[str, list[TrialRow]]] = defaultdict(lambda: defaultdict(list))
    for row in trials:
        if is_eligible(row):
            found[row.dataset, row.group, row.victim][row.attack].append(row)
    return {
        place: {attack: found[place][attack] for attack in sorted(found[place])}
        for place in sorted(found)
    }


def place_fields(place: Place) -> dict[str, str]:
    """Return the first fields of every row of an analysis."""
    return {"dataset": place[0], "group": place[1], "victim": place[2]}


def spec_of(trials: Sequence[TrialRow]) -> dict[str, Any]:
    """Return the parameters of the attack of these trials."""
    found: dict[str, Any] = json.loads(trials[0].attack_spec)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """Successes of one attack, item by item."""

    successes: NDArray[np.float64]
    """Trials that succeeded within b queries, shape (n_items, budget), b = 1..budget."""
    counts: NDArray[np.float64]
    """Eligible trials, shape (n_items,); 0 where the attack did not meet the item."""

    @property
    def budget(self) -> int:
        """The largest budget."""
        return int(self.successes.shape[1])


EVERY_BUDGET = 1000
"""Up to this budget, success is counted for every budget."""


def largest_budget(budget: int, n_asked: Iterable[int]) -> int:
    """Return the largest budget worth counting; nothing changes beyond what was asked.

    Args:
        budget: the attack's budget.
        n_asked: queries asked, trial by trial.

    >>> largest_budget(8, [3]), largest_budget(500_000_000, [3, 2_331])
    (8, 2331)
    """
    return min(budget, max(EVERY_BUDGET, *n_asked)) if budget > EVERY_BUDGET else budget


def hits(trials: Sequence[TrialRow], items: Sequence[str], budget: int) -> Hits:
    """Count the successes within every budget, item by item.

    Args:
        trials: eligible trials of one attack in one place.
        items: the items, in the order of the rows.
        budget: the largest budget to count for.
    """
    places = {item: i for i, item in enumerate(items)}
    first = np.zeros((len(items), budget))
    counts = np.zeros(len(items))
    for row in trials:
        i = places.get(row.item_id)
        if i is None:
            continue
        counts[i] += 1
        if is_flipped(row) and row.first_success is not None and row.first_success <= budget:
            first[i, row.first_success - 1] += 1
    return Hits(successes=first.cumsum(axis=1), counts=counts)


def items_of(trials: Iterable[TrialRow]) -> list[str]:
    """Return the distinct items of these trials, sorted."""
    return sorted({row.item_id for row in trials})
