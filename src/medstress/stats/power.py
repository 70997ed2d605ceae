"""Exact power of the paired test: what n pairs can see, and how many are needed.

Each item occurs once: n independent pairs, b of which only the first arm hits and c only the
second. With discordance D = P(b) + P(c) and difference d = P(b) - P(c), b + c is binomial (n, D),
and b given b + c is binomial with probability (D + d) / 2D. All tables are enumerated; nothing is
approximated by the normal distribution. The test is that of `medstress.stats.paired.difference` at
.05: Tango's statistic at 0, and the exact binomial test too where fewer than `FEW` pairs are
discordant.

Clustered pairs are worth fewer: hand in n / f with the design effect f.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import ceil, floor, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from medstress.stats.estimate import Z, quantile
from medstress.stats.paired import FEW, exact_p
from medstress.stats.shares import Numbers

ASSUMED = (0.15, 0.4)
"""Shares of discordant pairs that are assumed before any is seen: few of them and many."""
_DEVIATIONS = 9
"""Counts farther than so many standard deviations from their mean are left out."""
_HALVINGS = 40
_MOST_TRIED = 200
"""How far around a first answer n is tried one by one: power is not quite monotone in n, because
counts are whole numbers."""
_Z90 = quantile(0.9)


def power_of(n: int, discordance: float, difference: float) -> float:
    """Return the probability that n pairs give p < .05.

    Args:
        n: independent pairs, at least 1.
        discordance: probability that exactly one arm has a hit, in [0, 1].
        difference: first arm minus second, at most `discordance` in size.

    Raises:
        ValueError: a number lies outside its range.

    >>> round(power_of(200, 0.15, 0.1), 3)
    0.977
    """
    _check(n, discordance)
    if abs(difference) > discordance:
        raise ValueError(
            f"expected a difference of at most the discordance, {discordance}; got {difference}"
        )
    if discordance == 0:
        return 0.0
    m, weight = _discordant(n, discordance)
    least, first = _least(m), (discordance + difference) / (2 * discordance)
    above = _above(least - 1, m, first) + _above(least - 1, m, 1 - first)
    return float((weight * above).sum())


def detectable(n: int, discordance: float, power: float = 0.8) -> float | None:
    """Return the smallest difference that n pairs find with the given power.

    A difference above the discordance cannot be; so where the discordance is too small for the
    power, it is taken to be as large as the difference, all discordant pairs going one way.

    Args:
        n: independent pairs.
        discordance: probability that exactly one arm has a hit, in [0, 1].
        power: probability of p < .05, in (0, 1).

    Returns:
        The difference in (0, 1], to 1e-9; None if n pairs cannot find any.

    Raises:
        ValueError: a number lies outside its range.

    >>> round(detectable(200, 0.15), 3)
    0.074
    >>> detectable(5, 0.5) is None
    True
    """
    if n == 0:
        return None
    _check(n, discordance, power)

    def is_enough(difference: float) -> bool:
        return power_of(n, max(discordance, difference), difference) >= power

    if not is_enough(1.0):
        return None
    too_small, enough = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (too_small + enough) / 2
        too_small, enough = (too_small, middle) if is_enough(middle) else (middle, enough)
    return enough


def detectable_mean(n: float, square: float, power: float = 0.8, reach: float = 2.0) -> float:
    """Return the smallest mean that n independent values of a mean square find, by the normal rule.

    For differences of differences, which are no shares.

    Args:
        n: how many values, or how many they are worth.
        square: their mean square.
        power: probability of p < .05, above .5.
        reach: the largest value there can be.

    >>> round(detectable_mean(200, 0.15), 3)
    0.077
    """
    return min((Z + NormalDist().inv_cdf(power)) * sqrt(square / n), reach)


def needed(difference: float, discordance: float, power: float = 0.8) -> int:
    """Return how many pairs find a difference with the given power.

    Args:
        difference: in [-1, 1], not 0; its sign does not matter.
        discordance: probability that exactly one arm has a hit, in [0, 1]; if it is below the
            difference, it is taken to be as large.
        power: probability of p < .05, in (0, 1).

    Returns:
        The smallest n from which on the power is reached (power wavers a little as n grows).

    Raises:
        ValueError: a number lies outside its range.

    >>> needed(0.05, 0.15)
    459
    """
    d = abs(difference)
    if not 0 < d <= 1:
        raise ValueError(f"expected a difference in [-1, 1] other than 0, got {difference}")
    _check(1, discordance, power)
    start = (Z + quantile(2 * power - 1 if power > 0.5 else 0.5)) ** 2 * max(discordance, d) / d**2
    return _smallest(lambda n: power_of(n, max(discordance, d), d) >= power, floor(start) + 1, 8)


def needed_equivalent(margin: float, discordance: float, power: float = 0.8) -> int:
    """Return how many pairs show equivalence within a margin if the two arms are truly equal.

    Equivalence: the 90 % interval lies inside +- margin.

    Args:
        margin: in (0, 1).
        discordance: probability that exactly one arm has a hit, in [0, 1].
        power: probability that it is shown, in (0, 1).

    Returns:
        The smallest n from which on the power is reached (power wavers a little as n grows).

    Raises:
        ValueError: a number lies outside its range.

    >>> needed_equivalent(0.02, 0.15)
    3226
    """
    if not 0 < margin < 1:
        raise ValueError(f"expected a margin between 0 and 1, got {margin}")
    _check(1, discordance, power)
    start = 8.6 * discordance / margin**2 + 3 / margin
    return _smallest(
        lambda n: equivalence_power(n, discordance, margin) >= power,
        floor(start) + 1,
        ceil(2 / margin),
    )


def equivalence_power(n: int, discordance: float, margin: float) -> float:
    """Return the probability that n pairs of truly equal arms give equivalence within a margin.

    Args:
        n: independent pairs, at least 1.
        discordance: probability that exactly one arm has a hit, in [0, 1].
        margin: in (0, 1).

    >>> round(equivalence_power(3230, 0.15, 0.02), 3)
    0.801
    """
    m, weight = _discordant(n, discordance)
    # The largest b in b + c = m whose interval ends below the margin, by halving [-1, m].
    within, beyond = np.floor(m / 2), m + 1
    within = np.where(_ends_below(within, m - within, n, margin), within, -1.0)
    while np.any(beyond - within > 1):
        middle = np.floor((within + beyond) / 2)
        ends = _ends_below(np.minimum(middle, m), np.maximum(m - middle, 0), n, margin)
        ends &= middle <= m
        within, beyond = np.where(ends, middle, within), np.where(ends, beyond, middle)
    chance = _above(m - within - 1, m, 0.5) - _above(within, m, 0.5)
    return float((weight * np.where(2 * within >= m, chance, 0.0)).sum())


def _least(m: Numbers) -> Numbers:
    """Return the smallest b of b + c = m, b > c, that the test rejects; above m if it rejects none.

    (2b - m) / sqrt(m) > z, and where m < FEW the exact test rejects too.
    """
    least = np.floor((m + Z * np.sqrt(m)) / 2) + 1
    few = m < FEW
    return np.where(few, np.maximum(least, _exact_least()[np.where(few, m, 0).astype(int)]), least)


@lru_cache(maxsize=1)
def _exact_least() -> Numbers:
    """Return the same of the exact test alone, for m = 0, ..., FEW - 1."""
    return np.array(
        [
            next((b for b in range(m + 1) if 2 * b > m and exact_p(b, m - b) < 0.05), m + 1)
            for m in range(FEW)
        ],
        dtype=np.float64,
    )


def _above(k: Numbers, m: Numbers, p: float) -> Numbers:
    """Return P(X > k) for X binomial (m, p); 1 for k below 0, 0 from m on."""
    from scipy.special import bdtrc

    inside = np.clip(k, 0, m)
    return np.where(k < 0, 1.0, np.where(k >= m, 0.0, bdtrc(inside, m.astype(np.int64), p)))


def _ends_below(b: Numbers, c: Numbers, n: int, margin: float) -> NDArray[np.bool_]:
    """Return where Tango's statistic rejects "the difference is `margin`" in favour of less."""
    linear = -b - c + (2 * n - b + c) * margin
    root = np.sqrt(np.maximum(linear**2 + 8 * n * c * margin * (1 - margin), 0))
    q = np.maximum((root - linear) / (4 * n), 0)
    scale = np.sqrt(n * (2 * q + margin * (1 - margin)))
    return np.asarray((b - c - n * margin) / scale < -_Z90)


def _discordant(n: int, discordance: float) -> tuple[Numbers, Numbers]:
    """Return the counts of discordant pairs that matter, and their probabilities."""
    from scipy.special import gammaln, xlog1py, xlogy

    mean = n * discordance
    reach = _DEVIATIONS * sqrt(mean * (1 - discordance)) + 3 * _DEVIATIONS
    m = np.arange(max(floor(mean - reach), 0), min(ceil(mean + reach), n) + 1).astype(np.float64)
    logs = gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m + 1)
    return m, np.exp(logs + xlogy(m, discordance) + xlog1py(n - m, -discordance))


def _smallest(is_enough: Callable[[int], bool], start: int, reach: int) -> int:
    """Return the n from which on n is enough, judged by all n up to `reach` around the answer."""
    few, many = 0, max(start, 1)
    while not is_enough(many):
        few, many = many, 2 * many
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if is_enough(middle) else (middle, many)
    reach = min(reach, _MOST_TRIED)
    around = range(many + reach, max(0, many - reach), -1)
    return next((n + 1 for n in around if not is_enough(n)), around[-1])


def _check(n: int, discordance: float, power: float = 0.8) -> None:
    if n < 1:
        raise ValueError(f"expected at least one pair, got {n}")
    if not 0 <= discordance <= 1:
        raise ValueError(f"expected a discordance in [0, 1], got {discordance}")
    if not 0 < power < 1:
        raise ValueError(f"expected a power between 0 and 1, got {power}")
