"""Significance of successes as a family: adjusted p-values, what can be attained, the histogram."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from medstress.metrics.monte_carlo import MOST, ControlPlan
from medstress.metrics.pairs import benjamini_hochberg

LEVEL = 0.05
"""A single success is called significant where p is no larger."""
FALSE_DISCOVERY_RATE = 0.10
"""Adjusted p-values up to this are called discoveries."""
N_BINS = 20


class Null(StrEnum):
    """What a control is: a change that should not have worked, found in the way named."""

    MATCHED = "matched"
    """The result of the attack's own loop, attempt until error, with neutral insertions."""
    FLIPPED = "flipped"
    """The same, of loops that ended in an error alone."""
    NEUTRAL = "neutral"
    """One neutral insertion (the paper's)."""
    PARAPHRASE = "paraphrase"
    """The clean item in other words, without any insertion."""
    SCRAMBLED = "scrambled"
    """The attack's own words, in random order."""
    BEST_OF_K = "best_of_k"
    """The hardest of as many neutral insertions as attempts the attack used."""

    @property
    def allows_attacked(self) -> bool:
        """Whether all attacked items can be the family: the null must say how an item can hold."""
        return self is Null.MATCHED


class Family(StrEnum):
    """Over which tests p-values are adjusted."""

    SUCCESSES = "successes"
    """All successes."""
    ATTACKED = "attacked"
    """All attacked items, with p = 1 for those that held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attainable:
    """What a family of tests can show at best, known before anything is asked."""

    n_tested: int
    """Successes that are tested."""
    n_family: int
    """Tests in the family; those beyond the tested have p = 1."""
    p_min: float
    """Smallest p-value of one test."""

    @property
    def adjusted(self) -> float:
        """Smallest adjusted p-value: all that are tested at `p_min`."""
        return min(1.0, self.p_min * self.n_family / self.n_tested)

    @property
    def n_needed(self) -> int:
        """How many successes must sit at `p_min` for the first to be discovered."""
        return math.ceil(self.p_min * self.n_family / FALSE_DISCOVERY_RATE - 1e-9)

    @property
    def controls_needed(self) -> int:
        """Controls a success with which something could be discovered."""
        return math.ceil(self.n_family / (self.n_tested * FALSE_DISCOVERY_RATE) - 1e-9) - 1


def attainable(
    n_successes: int,
    n_attacked: int,
    family: Family,
    plan: ControlPlan,
    n_tested: int | None = None,
) -> Attainable:
    """What a family can show at best.

    Args:
        n_successes: of the run, tested or not.
        n_attacked: items attacked, successes among them.
        family: which of the two are the family.
        plan: number of controls.
        n_tested: successes that are tested; None for all.

    >>> attainable(40, 40, Family.SUCCESSES, ControlPlan(fixed=30)).n_needed
    13
    """
    n_family = n_successes if family is Family.SUCCESSES else n_attacked
    tested = n_successes if n_tested is None else n_tested
    return Attainable(n_tested=tested, n_family=n_family, p_min=plan.p_min)


def refusal(best: Attainable) -> str | None:
    """Why a family cannot show anything, and what would; None where it can.

    >>> refusal(attainable(10, 10, Family.SUCCESSES, ControlPlan(fixed=5)))[:56]
    'with 5 controls no adjusted p-value can fall below 0.167'
    """
    if best.adjusted <= FALSE_DISCOVERY_RATE:
        return None
    needed = best.controls_needed
    n_controls = round(1 / best.p_min) - 1
    remedy = (
        f"give --controls {needed} or more"
        if needed > MOST
        else f'give --controls {needed} or more, or controls = "adaptive" (up to {MOST})'
    )
    return (
        f"with {n_controls} controls no adjusted p-value can fall below {best.adjusted:.3g} "
        f"({best.n_tested} successes in a family of {best.n_family}), so nothing could be found "
        f"at a false discovery rate of {FALSE_DISCOVERY_RATE:g}: {remedy}"
    )


def adjust(p_values: Sequence[float], n_family: int) -> list[float]:
    """Adjust the tested successes' p-values by Benjamini and Hochberg within their family.

    Args:
        p_values: of the tested successes.
        n_family: tests in the family; those beyond the tested have p = 1.

    >>> [round(p, 6) for p in adjust([0.01, 0.02], 4)]
    [0.04, 0.04]
    """
    rest = [1.0] * (n_family - len(p_values))
    return benjamini_hochberg([*p_values, *rest])[: len(p_values)]


def histogram(p_values: Sequence[float]) -> list[int]:
    """Count p-values in `N_BINS` bins of equal width; p = 1 is in the last.

    >>> histogram([0.01, 0.05, 1.0])[:2], histogram([1.0])[-1]
    ([2, 0], 1)
    """
    counts = [0] * N_BINS
    for p in p_values:
        # Closed on the right, so that the first bin is what is significant at the level.
        counts[max(math.ceil(p * N_BINS - 1e-9) - 1, 0)] += 1
    return counts
