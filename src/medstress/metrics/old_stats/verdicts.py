"""What a paired comparison shows: better, worse, equivalent, or undecided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

from medstress.metrics.old_stats.estimates import Estimate
from medstress.metrics.old_stats.paired import Difference, unite
from medstress.metrics.old_stats.power import LEAST_DISCORDANCE, detectable
from medstress.metrics.old_stats.shares import Unit

BETTER = "better"
WORSE = "worse"
EQUIVALENT = "equivalent within the margin"
NO_WORSE = "no worse than the margin"
DIFFERENT_BUT_WITHIN = "different but within it"
UNDECIDED = "undecided"
VERDICTS = (BETTER, WORSE, EQUIVALENT, NO_WORSE, DIFFERENT_BUT_WITHIN, UNDECIDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the pairs of two arms show of the first against the second."""

    estimate: Estimate
    """First share minus second, with its 95 % interval; `n` counts pairs. Without any pair it has
    no value, and its `method` says why."""
    p: float | None
    """Two-sided p-value of no difference, from the same method; None without pairs."""
    verdict: str | None
    """One of `VERDICTS`; None without pairs."""
    interval90: tuple[float, float] | None
    """The 90 % interval, which decides on equivalence; None without pairs."""
    smallest_effect: float | None
    """The smallest difference that as many pairs find with 80 % power (`detectable` at the
    effective sample size) at that discordance; None if they can find none."""
    discordance: float | None
    """The share of pairs that are discordant; None without pairs. `smallest_effect` is that at
    this share, or at `LEAST_DISCORDANCE` if it is less."""


def judge(pairs: Sequence[tuple[Unit, bool, bool]], margin: float | None) -> Judgement:
    """Judge the first arm against the second; more hits are better.

    The verdicts are tried in this order, and the first that holds is given:

    1. The 95 % interval excludes 0 and, with a margin, the 90 % interval lies inside +- margin:
       *different but within it*, whichever side is ahead.
    2. The 95 % interval lies above 0: *better*. Below 0: *worse*.
    3. The 90 % interval lies inside +- margin: *equivalent within the margin*.
    4. The lower 95 % end lies above -margin: *no worse than the margin*.
    5. *Undecided*.

    Without a margin only the second and the last are tried. Ends that touch 0 or the margin do not
    lie beyond it.

    Args:
        pairs: unit, the first arm's hit, the second's; all units have equally many parts.
        margin: the largest difference that does not matter, in (0, 1); None for no margin.

    Raises:
        ValueError: the margin is not inside (0, 1).

    >>> pairs = [(f"q{i}", i < 12, 36 <= i < 38) for i in range(50)]
    >>> judge(pairs, None).verdict
    'better'
    >>> judge(pairs, 0.4).verdict
    'different but within it'
    >>> judge([], 0.1).estimate.method
    'no pair'
    """
    if margin is not None and not 0 < margin < 1:
        raise ValueError(f"expected a margin between 0 and 1, got {margin}")
    found = unite(pairs)
    narrow = unite(pairs, level=0.9).estimate
    if narrow.low is None or narrow.high is None:
        return Judgement(
            estimate=found.estimate,
            p=None,
            verdict=None,
            interval90=None,
            smallest_effect=None,
            discordance=None,
        )
    interval90 = (narrow.low, narrow.high)
    return Judgement(
        estimate=found.estimate,
        p=found.p,
        verdict=_verdict(found.estimate, interval90, margin),
        interval90=interval90,
        smallest_effect=_smallest_effect(found),
        discordance=_discordance(found),
    )


def _verdict(estimate: Estimate, interval90: tuple[float, float], margin: float | None) -> str:
    low, high = estimate.low or 0.0, estimate.high or 0.0
    is_equivalent = margin is not None and -margin < interval90[0] and interval90[1] < margin
    if low > 0 or high < 0:
        if is_equivalent:
            return DIFFERENT_BUT_WITHIN
        return BETTER if low > 0 else WORSE
    if is_equivalent:
        return EQUIVALENT
    return NO_WORSE if margin is not None and low > -margin else UNDECIDED


def _smallest_effect(found: Difference) -> float | None:
    n = floor(found.estimate.n / found.effect)
    return detectable(n, max(_discordance(found), LEAST_DISCORDANCE))


def _discordance(found: Difference) -> float:
    return (found.only_first + found.only_second) / found.estimate.n
