"""How many pairs a comparison needs: to find a difference, or to show equivalence."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor

import numpy as np
from drawn_tables import Bools, Floats

from medstress.stats.estimate import Z, quantile
from medstress.stats.power import above, discordant, power_of

MOST_TRIED = 200
"""How far around a first answer n is tried one by one: power is not quite monotone in n, because
counts are whole numbers."""


def needed(difference: float, discordance: float, power: float = 0.8) -> int:
    """Return how many pairs find a difference with the given power.

    Args:
        difference: in [-1, 1], not 0; its sign does not matter.
        discordance: probability that exactly one arm has a hit, in [0, 1]; if it is below the
            difference, it is taken to be as large.
        power: probability of p < .05, in (0, 1).

    Returns:
        The smallest n from which on the power is reached (power wavers a little as n grows).

    >>> needed(0.05, 0.15)
    459
    """
    d = abs(difference)
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

    >>> needed_equivalent(0.02, 0.15)
    3226
    """
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
    m, weight = discordant(n, discordance)
    # The largest b in b + c = m whose interval ends below the margin, by halving [-1, m].
    within, beyond = np.floor(m / 2), m + 1
    within = np.where(_ends_below(within, m - within, n, margin), within, -1.0)
    while np.any(beyond - within > 1):
        middle = np.floor((within + beyond) / 2)
        ends = _ends_below(np.minimum(middle, m), np.maximum(m - middle, 0), n, margin)
        ends &= middle <= m
        within, beyond = np.where(ends, middle, within), np.where(ends, beyond, middle)
    chance = above(m - within - 1, m, 0.5) - above(within, m, 0.5)
    return float((weight * np.where(2 * within >= m, chance, 0.0)).sum())


def _ends_below(b: Floats, c: Floats, n: int, margin: float) -> Bools:
    """Return where Tango's statistic rejects "the difference is `margin`" in favour of less."""
    linear = -b - c + (2 * n - b + c) * margin
    root = np.sqrt(np.maximum(linear**2 + 8 * n * c * margin * (1 - margin), 0))
    q = np.maximum((root - linear) / (4 * n), 0)
    scale = np.sqrt(n * (2 * q + margin * (1 - margin)))
    return np.asarray((b - c - n * margin) / scale < -quantile(0.9))


def _smallest(is_enough: Callable[[int], bool], start: int, reach: int) -> int:
    """Return the n from which on n is enough, judged by all n up to `reach` around the answer."""
    few, many = 0, max(start, 1)
    while not is_enough(many):
        few, many = many, 2 * many
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if is_enough(middle) else (middle, many)
    reach = min(reach, MOST_TRIED)
    around = range(many + reach, max(0, many - reach), -1)
    return next((n + 1 for n in around if not is_enough(n)), around[-1])
