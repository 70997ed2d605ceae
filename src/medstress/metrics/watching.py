"""Watch a criterion while items come in, by a confidence sequence that holds at every moment.

Items enter in a random order fixed beforehand, each once all before it have ended: in the order of
completion a rate would be wrong nearly always, because flips end first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from medstress.core.hashing import digest
from medstress.core.rows import TrialRow
from medstress.metrics.bounds import is_open_at_baseline, possibly_flipped, surely_flipped
from medstress.metrics.counts import (
    is_answered,
    is_eligible,
    is_failed_at_baseline,
    unit_of,
)
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
        return [
            (
                unit_of(row),
                surely_flipped(row, budget) - _possibly(other, budget),
                _possibly(row, budget) - surely_flipped(other, budget),
            )
            for row, other in with_control(rows, controls)
            if _may_be_eligible(row) and _may_be_eligible(other)
        ]
    counts, least, most = _RULES[metric]
    return [
        (unit_of(row), int(least(row, budget)), int(most(row, budget)))
        for row in (controls if metric == "control" else rows)
        if counts(row)
    ]


def with_control(
    rows: Iterable[TrialRow], controls: Iterable[TrialRow]
) -> Iterator[tuple[TrialRow, TrialRow]]:
    """Yield the trials of an attack with those of its control on the same item and seed."""
    known = {_key(row): row for row in controls}
    for row in rows:
        other = known.get(_key(row)) or known.get(_any_seed(row))
        if other is not None:
            yield row, other


def _key(row: TrialRow) -> tuple[str, str, int | None, int]:
    return row.item_id, row.unit, row.seed, row.repeat


def _any_seed(row: TrialRow) -> tuple[str, str, None, int]:
    """The key of a control without random numbers, which runs once."""
    return row.item_id, row.unit, None, 0


def _may_be_eligible(row: TrialRow) -> bool:
    return is_eligible(row) or is_open_at_baseline(row)


def _possibly(row: TrialRow, budget: int) -> bool:
    return not is_eligible(row) or possibly_flipped(row, budget)


def _surely(row: TrialRow, budget: int) -> bool:
    return is_eligible(row) and surely_flipped(row, budget)


def _may_be_answered(row: TrialRow) -> bool:
    return is_answered(row) or is_failed_at_baseline(row)


Rule: TypeAlias = Callable[[TrialRow, int], bool]
_FLIPS: tuple[Callable[[TrialRow], bool], Rule, Rule] = (_may_be_eligible, _surely, _possibly)
_RULES: Mapping[str, tuple[Callable[[TrialRow], bool], Rule, Rule]] = {
    "asr": _FLIPS,
    "control": _FLIPS,
    "accuracy": (
        _may_be_answered,
        lambda row, _: is_eligible(row),
        lambda row, _: _may_be_eligible(row),
    ),
    "accuracy_after": (
        _may_be_answered,
        lambda row, budget: is_eligible(row) and not possibly_flipped(row, budget),
        lambda row, budget: (
            is_open_at_baseline(row) or (is_eligible(row) and not surely_flipped(row, budget))
        ),
    ),
}
"""Metric -> whether a trial may count, and whether it surely and possibly is a hit."""
