"""Families of tests of successes: nulls, statistics, and what a budget can show (METHODS 2.6).

Both sides use it: who asks, before the first call, and who reads what was answered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import Any

from medstress.stats.estimate import benjamini_hochberg, holm

LEVEL = 0.05
"""A test is called significant at p up to this."""
FALSE_DISCOVERY_RATE = 0.10
"""Adjusted p-values up to this are discoveries where Benjamini and Hochberg adjust."""
TURNS, MOST_TURNS = 3, 5
"""Calls of one conversation with a model: reasoning, confidences, answer; the most, if confidences
and answer have to be repaired."""
MAX_CALLS = 2_000
"""Default of the calls for each success, on average."""


SETTINGS = ("null", "controls", "max_calls", "generator")
"""Keys of `[test]` that decide what is asked."""


class Null(StrEnum):
    """What a control is: an edit that should not work."""

    MATCHED = "matched"
    """The result of the attack's own loop, attempts until an error, with neutral insertions; a
    loop that held is easier than anything."""
    NEUTRAL = "neutral"
    """One neutral insertion, as in the paper, for items that were named beforehand."""

    @property
    def caution(self) -> str:
        """What a reader of its p-values has to know."""
        level = {
            Null.MATCHED: "p-values hold their level over all attacked questions",
            Null.NEUTRAL: "p-values compare what an attack chose with what it did not choose: "
            "where the hardness of insertions varies, they are too small",
        }[self]
        return f"Null {self}: {level}. Nothing is claimed about successes alone."


class Adjust(StrEnum):
    """How p-values are adjusted for the number of tests in their family."""

    BH = "bh"
    """Benjamini and Hochberg: controls the share of false discoveries."""
    HOLM = "holm"
    """Holm: controls the probability of any false discovery."""
    NONE = "none"
    """Not adjusted, as in the paper."""

    @property
    def level(self) -> float:
        """An adjusted p-value up to this is a discovery."""
        return FALSE_DISCOVERY_RATE if self is Adjust.BH else LEVEL

    @property
    def words(self) -> str:
        """What people call it."""
        return {"bh": "Benjamini-Hochberg", "holm": "Holm", "none": "nothing"}[self]

    def of(self, p_values: Sequence[float], n_family: int) -> list[float]:
        """Adjust the p-values of tested successes within their family.

        Args:
            p_values: of the tested successes.
            n_family: attacked items; the others have p = 1.

        >>> [round(p, 6) for p in Adjust.BH.of([0.01, 0.02], 4)]
        [0.04, 0.04]
        >>> [round(p, 6) for p in Adjust.HOLM.of([0.01, 0.02], 4)]
        [0.04, 0.06]
        """
        if self is Adjust.NONE:
            return list(p_values)
        everyone = [*p_values, *[1.0] * (n_family - len(p_values))]
        adjusted = benjamini_hochberg(everyone) if self is Adjust.BH else holm(everyone)
        return adjusted[: len(p_values)]


class Statistic(StrEnum):
    """What estimates T, how likely the model is to give the right answer; the best one first."""

    KEY_PROBABILITY = "key_probability"
    """Mean P(right answer), normalised over the options, over sampled reasonings."""
    SHARE_CORRECT = "share_correct"
    """Share of sampled answers that are right."""

    @property
    def n_samples(self) -> int:
        """Sampled conversations behind one T; a share needs more than a mean."""
        return 20 if self is Statistic.SHARE_CORRECT else 5


def settings_key(settings: Mapping[str, Any]) -> str:
    """Return the settings of a test as text; equal for all tests that may be compared."""
    return json.dumps({name: settings[name] for name in SETTINGS}, sort_keys=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPrice:
    """What the controls of one success cost.

    >>> price = ControlPrice(null=Null.MATCHED, statistic=Statistic.SHARE_CORRECT, attempts=5)
    >>> price.controls(2_000), price.calls(125), price.least
    (125, 1995, 325)
    """

    null: Null
    statistic: Statistic
    attempts: int
    """K of the attack."""
    is_written: bool = False
    """Whether a role writes the insertions, one call each."""

    @property
    def of_success(self) -> int:
        """Calls for T of the clean item and of the success."""
        return 2 * TURNS * self.statistic.n_samples

    @property
    def usual(self) -> int:
        """Calls of a control: a loop that holds, as most do, or T of a single insertion."""
        if self.null is Null.MATCHED:
            return (TURNS + self.is_written) * self.attempts
        return TURNS * self.statistic.n_samples + self.is_written

    @property
    def fewest(self) -> int:
        """The same of a single insertion that its first sample decides."""
        return self.usual if self.null is Null.MATCHED else TURNS + self.is_written

    @property
    def most(self) -> int:
        """The most calls of a control, texts apart: every attempt, and all samples of T."""
        looks = self.attempts if self.null is Null.MATCHED else 0
        return MOST_TURNS * (looks + self.statistic.n_samples)

    @property
    def least(self) -> int:
        """The least `max_calls` that is sure to buy a control."""
        return (
            2 * MOST_TURNS * self.statistic.n_samples
            + self.most
            + 2 * self.attempts * (self.is_written)
        )

    def controls(self, max_calls: int) -> int:
        """Return how many usual controls a success gets."""
        return max(0, (max_calls - self.of_success) // self.usual)

    def span(self, max_calls: int, n_insertions: int) -> tuple[int, int]:
        """Return the controls that a success gets where all are dear, and where all are cheap.

        Args:
            max_calls: calls for each success.
            n_insertions: the most controls of null `neutral`.

        >>> price = ControlPrice(null=Null.NEUTRAL, statistic=Statistic.SHARE_CORRECT, attempts=3)
        >>> price.span(800, 30), price.span(2_000, 30)
        ((11, 30), (30, 30))
        """
        few = self.controls(max_calls)
        if self.null is Null.MATCHED:
            return few, few
        many = max(0, (max_calls - self.of_success) // self.fewest)
        return min(few, n_insertions), min(many, n_insertions)

    def words(self, few: int, many: int, of: str = "") -> str:
        """Say how many controls there are, of what."""
        if few == many:
            return f"about {few} controls{of}"
        calls = f"{self.fewest} to {self.usual} calls"
        return f"{few} to {many} controls{of} (a control takes {calls})"

    def expected(self, max_calls: int, n_insertions: int) -> float:
        """Return the calls that a success is expected to take.

        Loops of null `matched` go on until one could not be paid to its end. A single insertion is
        decided once T cannot come down to that of the success, which is taken to be below 1/4.
        """
        if self.null is Null.MATCHED:
            return max(0, max_calls - self.most)
        each = TURNS * (self.statistic.n_samples // 4 + 1) + self.is_written
        return min(max_calls, self.of_success + n_insertions * each)

    def calls(self, n_controls: int) -> int:
        """Return the `max_calls` that buys so many."""
        return self.of_success + n_controls * self.usual


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What a family can show at best, with every success at the smallest p.

    >>> Reach(n_tested=40, n_family=40, n_controls=30).n_needed
    13
    """

    n_tested: int
    """Successes that are tested."""
    n_family: int
    """Attacked items, tested or with p = 1."""
    n_controls: int
    """Controls of each success."""
    adjust: Adjust = Adjust.BH

    @property
    def p_min(self) -> float:
        """Smallest p-value of one test."""
        return 1 / (self.n_controls + 1)

    @property
    def smallest(self) -> float:
        """Smallest adjusted p-value."""
        return min(1.0, self.p_min * self._factor)

    @property
    def n_needed(self) -> int:
        """How many successes must sit at `p_min` for one discovery."""
        if self.adjust is not Adjust.BH:
            return 1
        return ceil(self.p_min * self.n_family / self.adjust.level - 1e-9)

    @property
    def controls_needed(self) -> int:
        """Controls for each success with which a discovery is possible."""
        return ceil(self._factor / self.adjust.level - 1e-9) - 1

    @property
    def can_show(self) -> bool:
        """Whether an adjusted p-value can be small enough."""
        return self.smallest <= self.adjust.level

    @property
    def _factor(self) -> float:
        if self.adjust is Adjust.NONE:
            return 1.0
        return self.n_family / (self.n_tested if self.adjust is Adjust.BH else 1)

    def shortfall(self, price: ControlPrice) -> str:
        """Return why nothing can be shown, and what it takes.

        >>> price = ControlPrice(null=Null.MATCHED, statistic=Statistic.SHARE_CORRECT, attempts=5)
        >>> Reach(n_tested=1, n_family=40, n_controls=125).shortfall(price)[-31:]
        ' a success, so max_calls = 6105'
        """
        needed = self.controls_needed
        controls, fewer = "", ""
        if price.null is Null.NEUTRAL:
            controls = f"controls = {needed} and "
            fewer = f", or fewer (a control takes {price.fewest} to {price.usual} calls)"
        return (
            f"with about {self.n_controls} controls a success no adjusted p can fall below "
            f"{self.smallest:.2g} ({self.n_tested} successes among {self.n_family} attacked), so "
            f"nothing can be found at {self.adjust.level:g} by {self.adjust.words}: it takes about "
            f"{needed} controls a success, so {controls}max_calls = {price.calls(needed)}{fewer}"
        )
