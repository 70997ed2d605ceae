"""Exact power of the paired test: what n pairs can see.

Each item occurs once: n independent pairs, b of which only the first arm hits and c only the
second. With discordance D = P(b) + P(c) and difference d = P(b) - P(c), b + c is binomial (n, D),
and b given b + c is binomial with probability (D + d) / 2D. All tables are enumerated; nothing is
approximated by the normal distribution. The test is that of `medstress.stats.paired.difference` at
.05: Tango's statistic at 0, and the exact binomial test too where fewer than `FEW` pairs are
discordant.

Clustered pairs are worth fewer: hand in n / f with the design effect f.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, floor, sqrt

import numpy as np

from medstress.stats.estimate import Z
from medstress.stats.paired import FEW, exact_p
from medstress.stats.shares import Numbers

ASSUMED = (0.15, 0.4)
"""Shares of discordant pairs that are assumed before any is seen: few of them and many."""
_DEVIATIONS = 9
"""Counts farther than so many standard deviations from their mean are left out."""
_HALVINGS = 40


def power_of(n: int, discordance: float, difference: float) -> float:
    """Return the probability that n pairs give p < .05.

    Args:
        n: independent pairs, at least 1.
        discordance: probability that exactly one arm has a hit, in [0, 1].
        difference: first arm minus second, at most `discordance` in size.

    >>> round(power_of(200, 0.15, 0.1), 3)
    0.977
    """
    if discordance == 0:
        return 0.0
    m, weight = discordant(n, discordance)
    least, first = _least(m), (discordance + difference) / (2 * discordance)
    rejected = above(least - 1, m, first) + above(least - 1, m, 1 - first)
    return float((weight * rejected).sum())


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

    >>> round(detectable(200, 0.15), 3)
    0.074
    >>> detectable(5, 0.5) is None
    True
    """
    if n == 0:
        return None

    def is_enough(difference: float) -> bool:
        return power_of(n, max(discordance, difference), difference) >= power

    if not is_enough(1.0):
        return None
    too_small, enough = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (too_small + enough) / 2
        too_small, enough = (too_small, middle) if is_enough(middle) else (middle, enough)
    return enough


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


def above(k: Numbers, m: Numbers, p: float) -> Numbers:
    """Return P(X > k) for X binomial (m, p); 1 for k below 0, 0 from m on."""
    from scipy.special import bdtrc

    inside = np.clip(k, 0, m)
    return np.where(k < 0, 1.0, np.where(k >= m, 0.0, bdtrc(inside, m.astype(np.int64), p)))


def discordant(n: int, discordance: float) -> tuple[Numbers, Numbers]:
    """Return the counts of discordant pairs that matter, and their probabilities."""
    from scipy.special import gammaln, xlog1py, xlogy

    mean = n * discordance
    reach = _DEVIATIONS * sqrt(mean * (1 - discordance)) + 3 * _DEVIATIONS
    m = np.arange(max(floor(mean - reach), 0), min(ceil(mean + reach), n) + 1).astype(np.float64)
    logs = gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m + 1)
    return m, np.exp(logs + xlogy(m, discordance) + xlog1py(n - m, -discordance))
