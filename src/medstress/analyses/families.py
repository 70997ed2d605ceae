"""Families of tests of successes: what their controls cost, and what they can show (METHODS 2.6).

Both sides use it: who asks, before the first call, and who reads what was answered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import Any

from medstress.core.trials import Trial
from medstress.stats.estimate import benjamini_hochberg, holm
from medstress.stats.permutation import ControlPlan

LEVEL = 0.05
"""A test is called significant at p up to this."""
FALSE_DISCOVERY_RATE = 0.10
"""Adjusted p-values up to this are discoveries where Benjamini and Hochberg adjust."""
TURNS = 3
"""Calls of one conversation with a model: reasoning, confidences, answer. An unreadable reply is
asked for once more, which is not counted here."""
MAX_CALLS = 2_000
"""Default of the most calls for each success."""
_OF_ONE_TEST = ("trial", "edits", "panel", "leader")


class Null(StrEnum):
    """What a control is: an edit that should not work."""

    MATCHED = "matched"
    """The result of the attack's own loop, attempts until an error, with neutral insertions; a
    loop that held is easier than anything."""
    NEUTRAL = "neutral"
    """One neutral insertion, as in the paper."""

    @property
    def counts_attacked(self) -> bool:
        """Whether the family is all attacked trials, with p = 1 for those that held, and not the
        successes alone: the null must define how an item holds."""
        return self is Null.MATCHED

    @property
    def level_among_successes(self) -> float:
        """The largest share of successes without any effect at p <= .05 in simulations
        (validation/medfuzz_test.py): attacks select hard insertions."""
        return 0.42 if self is Null.MATCHED else 0.26

    @property
    def caution(self) -> str:
        """What a reader of its p-values has to know."""
        most = f"{self.level_among_successes:.2f}".replace("0.", ".", 1)
        holds = "p-values hold their level over all attacked questions. " * self.counts_attacked
        return (
            f"Null {self}: {holds}No claim is made about successes alone: of those without any "
            f"effect up to {most} reach p <= .05."
        )


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

    @property
    def guarantee(self) -> str:
        """What the level guarantees, in words."""
        return {
            Adjust.BH: f"at a false discovery rate of {self.level:g}",
            Adjust.HOLM: f"at a family-wise error rate of {self.level:g}",
            Adjust.NONE: f"at p <= {self.level:g}, not adjusted for the number of tests",
        }[self]

    def of(self, p_values: Sequence[float], n_family: int) -> list[float]:
        """Adjust the p-values of tested successes within their family.

        Args:
            p_values: of the tested successes.
            n_family: tests in the family; those that are not tested get p = 1.

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
        """S: sampled conversations behind one T; a share needs more than a mean."""
        return 20 if self is Statistic.SHARE_CORRECT else 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which trials are a family, and how its p-values are adjusted."""

    adjust: Adjust = Adjust.BH
    """How."""
    items: tuple[str, ...] = ()
    """The only items, named before the first query; empty for all."""

    def holds(self, trial: Trial) -> bool:
        """Return whether a trial belongs to the family."""
        return not self.items or trial.item.id in self.items


def settings_key(settings: Mapping[str, Any]) -> str:
    """Return the settings of a test as text; equal for all tests of one family."""
    shared = {key: value for key, value in settings.items() if key not in _OF_ONE_TEST}
    return json.dumps(shared, sort_keys=True)


def plan_of(settings: Mapping[str, Any], findings: Mapping[str, Any] | None = None) -> ControlPlan:
    """Return the plan of controls that settings ask for, limited as in a stored test."""
    if settings["controls"] == "adaptive":
        return ControlPlan() if findings is None else ControlPlan(limit=findings["most"])
    return ControlPlan(fixed=int(settings["controls"] if findings is None else findings["most"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlCost:
    """The most that one control costs."""

    n_looks: int
    """Conversations until the control is ready: attempts of its loop; 0 without a loop."""
    n_texts: int
    """Texts that a role writes for it; 0 with the lexicon."""
    statistic: Statistic
    """What estimates T."""

    @property
    def n_conversations(self) -> int:
        """Conversations with the model: the attempts, and the fresh samples of T."""
        return self.n_looks + self.statistic.n_samples

    @property
    def of_t(self) -> int:
        """t: calls that estimate one T."""
        return TURNS * self.statistic.n_samples

    @property
    def n_calls(self) -> int:
        """Calls to the model and to the role that writes: K (3 + g) + t for a loop."""
        return TURNS * self.n_conversations + self.n_texts

    def bought(self, max_calls: int) -> int:
        """Return the controls that a success can have: floor((max_calls - t) / (K (3 + g) + t)).

        T of the success is paid first; T of the clean item is shared by all successes on it and is
        left out.

        >>> cost_of(Null.MATCHED, 5, Statistic.KEY_PROBABILITY).bought(2_000)
        66
        >>> cost_of(Null.MATCHED, 5, Statistic.KEY_PROBABILITY, written=True).bought(2_000)
        56
        >>> cost_of(Null.MATCHED, 5, Statistic.SHARE_CORRECT).bought(2_000)
        25
        """
        return max(0, (max_calls - self.of_t) // self.n_calls)

    def needed(self, n_controls: int) -> int:
        """Return the `max_calls` that buys this many controls."""
        return n_controls * self.n_calls + self.of_t

    def too_dear(self, max_calls: int) -> str:
        """Return why `max_calls` buys no control.

        >>> cost_of(Null.NEUTRAL, 5, Statistic.KEY_PROBABILITY).too_dear(10)[:39]
        'max_calls = 10 buys no control: one tak'
        """
        return (
            f"max_calls = {max_calls} buys no control: one takes up to {self.n_calls} calls and T "
            f"of the success {self.of_t}, so give at least {self.needed(1)}"
        )


def cost_of(
    null: Null, attempts: int, statistic: Statistic, *, written: bool = False
) -> ControlCost:
    """Return the most that one control of a null costs.

    Args:
        null: says what a control is.
        attempts: K of the attack.
        statistic: what estimates T.
        written: whether a role writes neutral insertions.
    """
    n_looks, n_texts = (attempts, attempts) if null is Null.MATCHED else (0, 1)
    return ControlCost(n_looks=n_looks, n_texts=n_texts if written else 0, statistic=statistic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attainable:
    """What a family can show at best.

    >>> Attainable(n_tested=40, n_family=40, p_min=1 / 31).n_needed
    13
    >>> Attainable(n_tested=40, n_family=40, p_min=1 / 31, adjust=Adjust.NONE).n_needed
    1
    """

    n_tested: int
    """Successes that are tested."""
    n_family: int
    """Tests in the family; those that are not tested cannot be discoveries."""
    p_min: float
    """Smallest p-value of one test."""
    adjust: Adjust = Adjust.BH
    repeated: bool = False
    """Whether texts of controls repeat, so that more controls do not lower `p_min`."""

    @property
    def smallest(self) -> float:
        """Smallest adjusted p-value; by Benjamini and Hochberg, with all tested at `p_min`."""
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
    def _factor(self) -> float:
        if self.adjust is Adjust.NONE:
            return 1.0
        return self.n_family / (self.n_tested if self.adjust is Adjust.BH else 1)

    def shortfall(self, max_calls: Callable[[int], int] | None = None) -> str | None:
        """Return why the family cannot show anything, and what would help; None if it can.

        Args:
            max_calls: controls -> the `max_calls` that buys them; None if their number is fixed.

        >>> Attainable(n_tested=10, n_family=10, p_min=1 / 6).shortfall()[:56]
        'with 5 controls no adjusted p-value can fall below 0.167'
        """
        if self.smallest <= self.adjust.level:
            return None
        needed, different = self.controls_needed, ""
        remedy = f"--controls {needed} or more"
        if self.repeated:
            different = " different"
            remedy = f"texts for {needed} controls that do not repeat (another `generator`)"
        elif max_calls is not None:
            remedy = f"max_calls = {max_calls(needed)} ({needed} controls a success)"
        return (
            f"with {round(1 / self.p_min) - 1}{different} controls no adjusted p-value can fall "
            f"below {self.smallest:.3g} ({self.n_tested} successes in a family of "
            f"{self.n_family}), so nothing can be shown {self.adjust.guarantee}: it takes {remedy}"
        )
