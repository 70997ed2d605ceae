"""An interval of a mean that holds at every moment of a run, so that one may look while it runs."""

from __future__ import annotations

from math import inf, log, log1p, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

ACCURACY = 1e-9
"""How far the ends may be from the roots that they stand for."""
_LARGEST_BET = 0.5
"""No bet risks more than this share of the wealth, whatever comes."""


class ConfidenceSequence:
    """A confidence sequence for the mean of values in [0, 1], by betting.

    With probability 1 - alpha the mean lies in the interval after every value at once. For each
    m, two gamblers bet on "the mean is above m" and "below m"; m is given up once either has
    multiplied its stake by 2 / alpha:

        K+(m) = prod(1 + min(lambda_i, .5 / m) (y_i - m)),
        K-(m) = prod(1 - min(lambda_i, .5 / (1 - m)) (y_i - m)),
        lambda_i = sqrt(2 log(2 / alpha) / (v_(i-1) i log(1 + i))),
        v_i = (1/4 + sum over j <= i of (y_j - mean_j)^2) / (i + 1),
        mean_j = (1/2 + sum of the first j) / (j + 1).

    Every factor of K+ falls with m and every factor of K- rises, so the m that are kept are an
    interval, and its ends are roots. What was given up stays given up: the interval only shrinks.
    Should its ends meet, which happens with probability below alpha, it stays as it was before.

    A value is the mean of all seeds of one item (or document); for a difference d in [-1, 1] it is
    (d + 1) / 2. Items must come in a random order fixed beforehand, each once all before it have
    ended: in the order of completion the sequence is nearly always wrong, because flips end first.

    Args:
        alpha: how often the interval may ever be wrong, in (0, 1).

    Raises:
        ValueError: alpha is not inside (0, 1).

    >>> sequence = ConfidenceSequence()
    >>> sequence.interval
    (0.0, 1.0)
    >>> for y in [1, 0, 0, 0] * 25:
    ...     sequence.add(y)
    >>> [round(end, 3) for end in sequence.interval], sequence.n
    ([0.139, 0.396], 100)

    References:
        Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting",
        JRSS B 2024.
    """

    def __init__(self, alpha: float = 0.05) -> None:
        if not 0 < alpha < 1:
            raise ValueError(f"expected alpha between 0 and 1, such as 0.05; got {alpha}")
        self._log_limit = log(2 / alpha)
        self._values: list[float] = []
        self._bets: list[float] = []
        self._sum = 0.0
        self._spread = 0.25
        self._low, self._high = 0.0, 1.0
        # The wealth, as logarithms, of the gambler above at the low end and below at the high end.
        self._above_low = self._below_high = 0.0

    @property
    def n(self) -> int:
        """How many values were added."""
        return len(self._values)

    @property
    def interval(self) -> tuple[float, float]:
        """The ends, in [0, 1], exact to `ACCURACY`; (0, 1) before any value."""
        return self._low, self._high

    def add(self, y: float) -> None:
        """Take the next value.

        Raises:
            ValueError: the value is not in [0, 1].
        """
        if not 0 <= y <= 1:
            raise ValueError(f"expected a value in [0, 1], got {y}")
        i = self.n + 1
        bet = sqrt(2 * self._log_limit / (self._spread / i * i * log1p(i)))
        self._values.append(float(y))
        self._bets.append(bet)
        self._sum += y
        self._spread += (y - (0.5 + self._sum) / (i + 1)) ** 2
        self._above_low += log1p(min(bet, _ratio(self._low)) * (y - self._low))
        self._below_high += log1p(min(bet, _ratio(1 - self._high)) * (self._high - y))
        if max(self._above_low, self._below_high) >= self._log_limit:
            self._shrink()

    def _shrink(self) -> None:
        values, bets = np.array(self._values), np.array(self._bets)
        low, high = self._low, self._high
        if self._above_low >= self._log_limit:
            low = _end(values, bets, low, self._log_limit)
        if self._below_high >= self._log_limit:
            # Seen from the other side: 1 - y has the mean 1 - m and the same bets.
            high = 1 - _end(1 - values, bets, 1 - high, self._log_limit)
        if low < high:
            self._low, self._high = low, high
        self._above_low = _log_wealth(self._low, values, bets)
        self._below_high = _log_wealth(1 - self._high, 1 - values, bets)


def _ratio(m: float) -> float:
    return _LARGEST_BET / m if m > 0 else inf


def _log_wealth(m: float, values: NDArray[np.float64], bets: NDArray[np.float64]) -> float:
    return float(np.log1p(np.minimum(bets, _ratio(m)) * (values - m)).sum())


def _end(
    values: NDArray[np.float64], bets: NDArray[np.float64], low: float, log_limit: float
) -> float:
    """Return the smallest m that the gambler above has not refuted; `low` is refuted."""

    def beyond(m: float) -> float:
        return _log_wealth(m, values, bets) - log_limit

    # The wealth at `low` was kept by adding up; summed anew it may fall short by rounding.
    return float(brentq(beyond, low, 1.0, xtol=ACCURACY)) if beyond(low) > 0 else low
