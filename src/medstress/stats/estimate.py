"""A number with its sample size and its interval, and p-values of a family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import erfc, sqrt
from statistics import NormalDist
from sys import float_info
from typing import TypeAlias

import numpy as np

Ends: TypeAlias = tuple[float | None, float | None]
"""Low and high end of an interval; None where there is no interval."""

WILSON = "Wilson 95 %"
LEAST_P = float_info.min
"""No p-value is 0, however far a statistic lies out."""
ALIKE = "that look alike"
"""What methods say of units whose resamples all agree."""
Z = NormalDist().inv_cdf(0.975)
"""The normal quantile of two-sided 95 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value with its 95 % interval, never rounded.

    It stays an object until JSON is written: hits, design effect and worst ends are never guessed
    back from a rounded share.
    """

    value: float | None
    """The point estimate; None without data."""
    n: int
    """How many answers, pairs or successes it is counted over."""
    low: float | None
    """Lower end of the interval; None without one."""
    high: float | None
    """Upper end of the interval; None without one."""
    method: str
    """How the interval was computed, for people."""
    hits: int | None = None
    """The count behind a share, so that `value` is hits / n; None for anything else."""
    effect: float = 1.0
    """Design effect: how many of these answers are worth one independent answer."""
    worst: Ends | None = None
    """The ends where unreadable or missing answers count at their worst; None where there is
    none."""

    @property
    def ends(self) -> Ends:
        """What decisions use: the worst ends where answers are open, else the interval."""
        return (self.low, self.high) if self.worst is None else self.worst

    def at(self, level: float) -> Estimate:
        """Return the estimate with its interval at another level.

        That of a share is Wilson's, and `worst` widens as much. That of a score is resampled; both
        of its arms grow as normal quantiles do, as their squares at most where units look alike.

        Args:
            level: two-sided, in (0, 1).

        >>> wilson(5, 10).at(0.99).method
        'Wilson 99 %'
        """
        value = self.value
        if value is None or not self.n or self.low is None or self.high is None:
            return self
        if self.hits is None:
            wider = (quantile(level) / Z) ** (2 if ALIKE in self.method else 1)
            low, high = value - wider * (value - self.low), value + wider * (self.high - value)
            return replace(self, low=max(-2.0, low), high=min(2.0, high))
        low, high = wilson_ends(self.hits / self.effect, self.n / self.effect, quantile(level))
        worst = self.worst
        if worst is not None and worst[0] is not None and worst[1] is not None:
            # The worst ends are Wilson's too, of other counts: they move as far as the interval.
            worst = max(0.0, worst[0] + low - self.low), min(1.0, worst[1] + high - self.high)
        method = self.method.replace("95 %", f"{100 * level:.4g} %")
        return replace(self, low=low, high=high, method=method, worst=worst)


def unknown(method: str, n: int = 0) -> Estimate:
    """Return the estimate of something that cannot be estimated; `method` says why."""
    return Estimate(value=None, n=n, low=None, high=None, method=method)


def with_worst(estimate: Estimate, least: Estimate, most: Estimate) -> Estimate:
    """Return an estimate that knows its ends where open answers are all misses, and all hits.

    They never lie inside its own interval or that of either extreme: 1 of 66 may have a shorter
    interval than 0 of 66, because repeats of an item count in full where all answers agree.
    """
    ends = (least.low, most.high)
    if None not in ends:
        every = (estimate, least, most)
        lows, highs = ([one.low for one in every], [one.high for one in every])
        ends = min(x for x in lows if x is not None), max(x for x in highs if x is not None)
    return estimate if ends == (estimate.low, estimate.high) else replace(estimate, worst=ends)


def negated(estimate: Estimate) -> Estimate:
    """Return the estimate of the negative value.

    >>> negated(Estimate(value=0.5, n=2, low=0.25, high=1.0, method="")).low
    -1.0
    """

    def minus(x: float | None) -> float | None:
        return None if x is None else 0.0 - x

    e = estimate
    worst = None if e.worst is None else (minus(e.worst[1]), minus(e.worst[0]))
    value, low, high = minus(e.value), minus(e.high), minus(e.low)
    return replace(e, value=value, low=low, high=high, worst=worst, hits=None)


def p_of(z: float) -> float:
    """Return the two-sided p-value of a normal statistic.

    >>> round(p_of(1.96), 3), p_of(-50.0) > 0
    (0.05, True)
    """
    return max(erfc(abs(z) / sqrt(2)), LEAST_P)


def quantile(level: float) -> float:
    """Return the normal quantile of a two-sided interval.

    Raises:
        ValueError: the level is not inside (0, 1).

    >>> round(quantile(0.9), 4)
    1.6449
    """
    if not 0 < level < 1:
        raise ValueError(f"expected a level between 0 and 1, such as 0.95; got {level}")
    return NormalDist().inv_cdf((1 + level) / 2)


def sidak(m: int) -> float:
    """Return the level at which each of m intervals has to hold so that all hold at 95 %.

    References:
        Sidak, "Rectangular confidence regions for the means of multivariate normal
        distributions", JASA 1967.

    >>> round(sidak(6), 4)
    0.9915
    """
    return float(0.95 ** (1 / max(m, 1)))


def wilson_ends(k: float, n: float, z: float = Z) -> tuple[float, float]:
    """Return the ends of Wilson's score interval of k hits in n trials.

    With p = k/n they are (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n).

    Args:
        k: hits, 0 <= k <= n; fractional where answers depend on each other.
        n: trials, above 0; fractional too.
        z: two-sided normal quantile of the level.

    >>> [round(end, 4) for end in wilson_ends(5, 10)]
    [0.2366, 0.7634]

    References:
        Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
    """
    p, z2 = k / n, z * z
    centre, half = p + z2 / (2 * n), z * sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    low, high = (centre - half) / (1 + z2 / n), (centre + half) / (1 + z2 / n)
    return (0.0 if k == 0 else low), (1.0 if k == n else high)


def wilson(k: int, n: int) -> Estimate:
    """Estimate the share of k hits in n independent trials; no value if n is 0."""
    if n == 0:
        return replace(unknown(WILSON), hits=0)
    low, high = wilson_ends(k, n)
    return Estimate(value=k / n, n=n, low=low, high=high, method=WILSON, hits=k)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values so that rejecting those below q errs at all with probability q at most.

    The i-th smallest of m becomes max over j <= i of (m - j + 1) p_(j), at most 1.

    Args:
        p_values: of one family, each in [0, 1].

    >>> [round(p, 6) for p in holm([0.04, 0.01, 0.03])]
    [0.06, 0.03, 0.06]

    References:
        Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
        Statistics 1979.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order, adjusted = np.argsort(p, kind="stable"), np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    return [float(one) for one in np.minimum(adjusted, 1.0)]


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values so that rejecting those below q keeps the false discovery rate at q.

    The i-th smallest of m becomes min over j >= i of p_(j) m / j.

    Args:
        p_values: of one family, each in [0, 1].

    >>> [round(p, 6) for p in benjamini_hochberg([0.04, 0.01, 0.03])]
    [0.04, 0.03, 0.04]

    References:
        Benjamini and Hochberg, "Controlling the false discovery rate", 1995.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order, adjusted = np.argsort(p, kind="stable"), np.empty_like(p)
    steps = p[order] * p.size / np.arange(1, p.size + 1)
    adjusted[order] = np.minimum.accumulate(steps[::-1])[::-1]
    return [float(one) for one in np.minimum(adjusted, 1.0)]
