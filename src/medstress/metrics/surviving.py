"""What is left of one arm's advantage over another if only valid successes count, over pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import hypot
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from medstress.core.rows import TrialRow
from medstress.metrics.counts import is_flipped
from medstress.metrics.valid_bounds import reach
from medstress.metrics.vouched import is_rule_refuted
from medstress.stats.estimates import Estimate
from medstress.stats.paired import unite
from medstress.stats.ratios import Sums, mean_of, ratio_of
from medstress.stats.shares import Unit, parts_of

Pairs: TypeAlias = Sequence[tuple[Unit, TrialRow, TrialRow]]
Valid: TypeAlias = Mapping[bool, Estimate]
"""Valid share of the labels of successes that no rule refuted (False), and that one did (True)."""
Weights: TypeAlias = Mapping[int, float]
"""What counts of an arm (a number below), and how much."""

FLIPPED, NONE, ALL, CENSORED, PASSED, REFUTED = range(6)
"""A success; one that counts if no unknown one is valid, if all are, and if censored searches
succeed validly too; a success that no rule refuted, and one that a rule did."""
CASES = {
    "worst": (NONE, ALL),
    "no_unknown_valid": (NONE, NONE),
    "all_unknown_valid": (ALL, ALL),
    "best": (ALL, NONE),
    "worst_censored": (NONE, CENSORED),
    "best_censored": (CENSORED, NONE),
}
"""Case -> what counts of the first arm, and of the second. From worst to best nothing is assumed of
the successes; with censored ones, nor of the searches that an invalid success ended."""


class Surviving:
    """The pairs of two arms, and what is left of the first one's advantage."""

    def __init__(self, pairs: Pairs) -> None:
        self._units = [parts_of(unit) for unit, *_ in pairs]
        ended = {id(row): _ended(row) for _, *both in pairs for row in both}
        self._ours, self._theirs = (
            np.array([ended[id(pair[i])] for pair in pairs], dtype=np.float64) for i in (1, 2)
        )
        """How the trials of each arm ended, shape (pairs, 6), each 0 or 1."""

    def difference(self, ours: int, theirs: int) -> Estimate:
        """Estimate the difference of two rates, for what counts in each arm (Tango)."""
        columns = self._ours[:, ours] > 0, self._theirs[:, theirs] > 0
        rows = zip(self._units, *(column.tolist() for column in columns), strict=True)
        return unite(list(rows)).estimate

    def share(self, ours: int, theirs: int) -> Estimate:
        """Estimate that difference over the whole advantage (Fieller)."""
        return ratio_of(self._sums({ours: 1.0}, {theirs: 1.0}))

    def difference_by_labels(self, ours: Valid, theirs: Valid) -> Estimate:
        """Estimate what is left if successes are valid as often as among labelled ones."""
        return mean_of(self._weighed(ours, theirs), *self._reach(ours, theirs))

    def share_by_labels(self, ours: Valid, theirs: Valid) -> Estimate:
        """Estimate that over the whole advantage: over pairs by Fieller, the ends of the valid
        shares combined into it (Zou and Donner)."""
        return ratio_of(self._weighed(ours, theirs), *self._reach(ours, theirs))

    def _weighed(self, ours: Valid, theirs: Valid) -> list[Sums]:
        return self._sums(
            *({_OF[key]: _value(share) for key, share in each.items()} for each in (ours, theirs))
        )

    def _reach(self, ours: Valid, theirs: Valid) -> tuple[float, float]:
        """Return how far the labels alone move what is left down and up.

        Down: the first arm's successes are valid less often and the second's more often.
        """
        near_below, near_above = _ends(self._ours, ours)
        far_below, far_above = _ends(self._theirs, theirs)
        return hypot(near_below, far_above), hypot(near_above, far_below)

    def _sums(self, ours: Weights, theirs: Weights) -> list[Sums]:
        """Sum what is left, and the advantage, by unit of every level."""
        left = _counted(self._ours, ours) - _counted(self._theirs, theirs)
        whole = self._ours[:, FLIPPED] - self._theirs[:, FLIPPED]
        depth = len(self._units[0])
        return [self._by_unit(left, whole, parts) for parts in range(1, depth + 1)]

    def _by_unit(self, left: NDArray[np.float64], whole: NDArray[np.float64], parts: int) -> Sums:
        names = sorted({unit[:parts] for unit in self._units})
        place = {name: i for i, name in enumerate(names)}
        sums = np.zeros((3, len(names)))
        which = [place[unit[:parts]] for unit in self._units]
        for into, values in zip(sums, (left, whole, np.ones_like(left)), strict=True):
            np.add.at(into, which, values)
        return sums[0], sums[1], sums[2]


_OF = {False: PASSED, True: REFUTED}


def _ended(row: TrialRow) -> tuple[bool, ...]:
    flipped = is_flipped(row)
    refuted = flipped and is_rule_refuted(row)
    return flipped, *(q is not None for q in reach(row)), flipped and not refuted, refuted


def _counted(ended: NDArray[np.float64], weights: Weights) -> NDArray[np.float64]:
    found = np.zeros(len(ended))
    for column, weight in weights.items():
        found += weight * ended[:, column]
    return found


def _ends(ended: NDArray[np.float64], valid: Valid) -> tuple[float, float]:
    """Return how far labels alone move an arm's rate of valid successes down and up."""
    below, above = 0.0, 0.0
    for refuted, share in valid.items():
        rate, value = float(ended[:, _OF[refuted]].mean()), _value(share)
        below = hypot(below, rate * (value - (share.low or 0.0)))
        above = hypot(above, rate * ((share.high or 0.0) - value))
    return below, above


def _value(share: Estimate) -> float:
    return share.value or 0.0
