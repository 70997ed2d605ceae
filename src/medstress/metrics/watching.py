"""Watch a criterion while items come in, by a confidence sequence that holds at every moment.

Items enter in a random order fixed beforehand, each once all before it have ended: in the order of
completion a rate would be wrong nearly always, because flips end first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from medstress.core.hashing import digest
from medstress.core.rows import TrialRow
from medstress.metrics.bounds import certainly_lost, may_be_eligible, possibly_lost
from medstress.metrics.counts import unit_of
from medstress.metrics.pairs import pair_trials
from medstress.metrics.worst_case import RULES
from medstress.stats.paired import quantile, unite
from medstress.stats.sequences import ConfidenceSequence
from medstress.stats.shares import Unit, rate_ends

Ends: TypeAlias = tuple[float | None, float | None]
Rank: TypeAlias = tuple[int, bytes]
"""Where a unit stands in the order: its batch, then a hash that draws lots."""

WATCHED = ("accuracy", "accuracy_after", "asr", "asr_net", "control")
"""The metrics that a confidence sequence follows."""
EARLY, AT_THE_END = 0.01, 0.04
"""How an error rate of .05 is spent by `stop_when`: on the sequence, and on the planned end."""
EXTENDED = 0.05
"""Error rate of the sequence that judges a run that was extended."""
_LOTS = "order of items"


def rank(batch: int, cluster: str) -> Rank:
    """Return the place of a unit: later batches after earlier ones, by lot within a batch.

    Args:
        batch: 0 for the items that the run began with, 1 for those added first, and so on.
        cluster: the item's document if it is known, else the item.
    """
    return batch, digest([_LOTS, cluster])


class Watch:
    """One criterion on one row, unit by unit.

    Args:
        criterion: as `RequireTable.as_json` returns it; its metric is one of `WATCHED`.
        budget: perturbed queries of the attack, unless the criterion names a budget.
        alpha: how often the sequence may ever be wrong.
    """

    def __init__(self, criterion: Mapping[str, Any], budget: int, alpha: float) -> None:
        self._criterion = criterion
        self._budget = criterion.get("at_budget") or budget
        self._least, self._most = ConfidenceSequence(alpha), ConfidenceSequence(alpha)

    @property
    def n(self) -> int:
        """How many units counted."""
        return self._least.n

    @property
    def ends(self) -> tuple[float, float]:
        """The interval, with unreadable and missing answers at their worst."""
        low, high = self._least.interval[0], self._most.interval[1]
        if self._criterion["metric"] == "asr_net":
            return 2 * low - 1, 2 * high - 1
        return low, high

    def take(self, rows: Sequence[TrialRow], controls: Sequence[TrialRow] = ()) -> None:
        """Take the next unit: all its trials, and those of the control; some may count nothing."""
        found = observed(self._criterion["metric"], self._budget, rows, controls)
        if not found:
            return
        least = sum(low for _, low, _ in found) / len(found)
        most = sum(high for *_, high in found) / len(found)
        if self._criterion["metric"] == "asr_net":
            least, most = (least + 1) / 2, (most + 1) / 2
        self._least.add(least)
        self._most.add(most)

    @property
    def verdict(self) -> bool | None:
        """True once the limit is surely met, False once it is surely missed, else None."""
        low, high = self.ends
        if "max_high" in self._criterion:
            limit = self._criterion["max_high"]
            return True if high <= limit else False if low > limit else None
        limit = self._criterion["min_low"]
        return True if low >= limit else False if high < limit else None


def fixed_ends(
    criterion: Mapping[str, Any],
    budget: int,
    rows: Sequence[TrialRow],
    controls: Sequence[TrialRow],
    level: float = 1 - AT_THE_END,
) -> Ends:
    """Return the ends at the planned end, as of any run but at a higher level."""
    metric = criterion["metric"]
    found = observed(metric, criterion.get("at_budget") or budget, rows, controls)
    if not found:
        return None, None
    if metric == "asr_net":
        # A difference of two outcomes is -1, 0 or 1.
        low = unite([(unit, least > 0, least < 0) for unit, least, _ in found], level).estimate
        high = unite([(unit, most > 0, most < 0) for unit, _, most in found], level).estimate
        return low.low, high.high
    z = quantile(level)
    least = rate_ends([(unit, low > 0) for unit, low, _ in found], z)
    most = rate_ends([(unit, high > 0) for unit, *_, high in found], z)
    return least[0], most[1]


def observed(
    metric: str, budget: int, rows: Iterable[TrialRow], controls: Iterable[TrialRow]
) -> list[tuple[Unit, int, int]]:
    """Return (unit, least, most) of every trial that may count towards a metric.

    Args:
        metric: one of `WATCHED`.
        budget: perturbed queries per item.
        rows: trials of the attack.
        controls: trials of its control, for `control` and `asr_net`.
    """
    if metric == "asr_net":
        surely, maybe = (
            partial(certainly_lost, budget=budget),
            partial(possibly_lost, budget=budget),
        )
        ours, theirs = list(rows), list(controls)
        least = pair_trials(ours, theirs, surely, maybe, may_be_eligible)
        most = pair_trials(ours, theirs, maybe, surely, may_be_eligible)
        return [(unit, a - c, b - d) for (unit, a, c), (_, b, d) in zip(least, most, strict=True)]
    rule = RULES[metric]
    return [
        (unit_of(row), int(rule.least(row, budget)), int(rule.most(row, budget)))
        for row in (controls if metric == "control" else rows)
        if rule.may_count(row)
    ]
