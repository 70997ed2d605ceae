"""Bootstrap over whole units, one seed and one number of draws for all; and randomisation tests.

The draws depend only on the number of units, so arms over the same units are drawn together, and a
summary is a pure function of its run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from medstress.stats.estimate import ALIKE, WILSON, Estimate, p_of, quantile, unknown, wilson_ends
from medstress.stats.shares import Mask, Numbers, tally

RESAMPLES = 2_000
"""Resamples behind every interval."""
PERMUTATIONS = 2_000
ROUNDING = 1e-12
"""Resamples that differ by no more than this differ only by rounding."""

_SEED, _BLOCK, _AT_ONCE = 20_250_101, 64, 1_000_000


def random_stream(number: int = 0) -> Generator:
    """Return the random numbers behind intervals, the same in every process.

    Args:
        number: 0 draws units; what is drawn together with units needs another number, because the
            same random numbers would make the two depend on each other.
    """
    return np.random.default_rng([_SEED, number] if number else _SEED)


@lru_cache(maxsize=4)
def unit_weights(m: int) -> NDArray[np.uint8]:
    """Return how often each of m units is drawn in each resample of m.

    Returns:
        Shape (RESAMPLES, m), read-only; every row sums to m.

    >>> unit_weights(3).shape, int(unit_weights(3)[0].sum())
    ((2000, 3), 3)
    """
    rng = random_stream()
    weights = np.empty(
        (RESAMPLES, m), dtype=np.uint8
    )  # about Poisson with mean 1: a byte is enough
    for start in range(0, RESAMPLES, _BLOCK):
        n = min(_BLOCK, RESAMPLES - start)
        drawn = rng.integers(0, m, size=(n, m)) + m * np.arange(n)[:, None]
        weights[start : start + n] = np.bincount(drawn.ravel(), minlength=n * m).reshape(n, m)
    weights.setflags(write=False)
    return weights


def resampled_sums(values: Numbers) -> Numbers:
    """Return the sum over units in every resample.

    Args:
        values: one row a unit, shape (m,) or (m, k).

    Returns:
        Shape (RESAMPLES,) or (RESAMPLES, k).
    """
    return np.concatenate([weights @ values for weights in _blocks(values.shape[0])])


def _blocks(m: int) -> Iterator[Numbers]:
    """Yield the weights as floats block by block, which saves memory where there are many units."""
    weights = unit_weights(m)
    step = max(_BLOCK, _AT_ONCE // m) if m else RESAMPLES
    for start in range(0, RESAMPLES, step):
        yield weights[start : start + step].astype(np.float64)


def resampled_ratio(totals: Numbers, counts: Numbers) -> Numbers:
    """Return sum(totals) / sum(counts) of every resample; nan where the denominator is 0.

    Args:
        totals: each unit's part of the numerator, shape (m,) or (m, k).
        counts: each unit's part of the denominator, shape (m,).
    """
    parts = [(weights @ counts, weights @ totals) for weights in _blocks(len(counts))]
    below, above = map(np.concatenate, zip(*parts, strict=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(above / (below if totals.ndim == 1 else below[:, None]))


def draw_kinds(units: Mapping[Any, int]) -> tuple[list[Any], NDArray[np.int64]]:
    """Draw units with replacement where only their looks matter.

    Units that look alike are exchangeable, so it suffices to draw how often each look occurs:
    Multinomial(m, m_look / m) for m units. Sorted looks make the draw independent of their order.

    Args:
        units: how many units look like this, by their (sortable) looks.

    Returns:
        The looks, sorted, and how often each was drawn, shape (RESAMPLES, n_looks).
    """
    looks = sorted(units)
    many = np.array([units[look] for look in looks], dtype=np.float64)
    m = int(many.sum())
    return looks, random_stream().multinomial(m, many / m, size=RESAMPLES)


def percentiles(values: Numbers) -> tuple[float, float]:
    """Return the 2.5 % and the 97.5 % quantile of resampled values."""
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)


class Drawn(NamedTuple):
    """What is drawn, and what a score of it can be: all that is known where all resamples agree.

    With L the lower Wilson end for n of n units, at least a share L of all units looks like these,
    and the others may have any score. Of two arms in [0, 1] that is Tango's interval where all
    pairs agree.
    """

    units: float
    """How many; of unequal units as many equal ones."""
    what: str
    """The units, for people."""
    limits: tuple[float, float]
    """The lowest and the highest score there can be."""

    def ends(self, value: float, level: float = 0.95) -> tuple[float, float]:
        """Return the interval of a value on which all resamples agree.

        >>> [round(end, 3) for end in Drawn(60, "documents", (-1.0, 1.0)).ends(1.0)]
        [0.88, 1.0]
        """
        alike = wilson_ends(self.units, self.units, quantile(level))[0]
        low, high = (alike * value + (1 - alike) * end for end in self.limits)
        return low, high

    def p(self, value: float) -> float:
        """Return the two-sided p-value of such a value: 0 is an end of the interval at 1 - p."""
        square = self.units * max(-value / self.limits[1], -value / self.limits[0])
        return p_of(sqrt(square))


def bootstrapped(
    value: float, drawn: Numbers, n: int, method: str, among: Drawn | None = None
) -> Estimate:
    """Return an estimate with the percentile interval of its resamples.

    Where all resamples agree it is that of `among`; without it there is none, as one of no width
    would say nothing of other units.

    Args:
        value: the estimate.
        drawn: the estimate in every resample; values that are not finite are left out.
        n: what it is counted over.
        method: how it was resampled, for people.
        among: what is drawn; None where the score has no limits.
    """
    finite = drawn[np.isfinite(drawn)]
    low, high = percentiles(finite) if finite.size else (value, value)
    if high - low >= ROUNDING:
        return Estimate(value=value, n=n, low=low, high=high, method=method)
    if among is None:
        method = f"{method}: no interval, as all resamples agree"
        return Estimate(value=value, n=n, low=None, high=None, method=method)
    low, high = among.ends(value)
    method = f"{WILSON} over {among.what} {ALIKE} (their bootstrap interval has no width)"
    return Estimate(value=value, n=n, low=low, high=high, method=method)


def around(estimate: Estimate) -> Estimate:
    """Widen an interval so that it holds its value.

    The place of a maximum or of a bend may lie outside most of its resamples.
    """
    value, low, high = estimate.value, estimate.low, estimate.high
    if value is None or low is None or high is None:
        return estimate
    return replace(estimate, low=min(low, value), high=max(high, value))


def mean_over(values: Numbers, units: NDArray[np.int64], what: str) -> Estimate:
    """Estimate the mean of values, units drawn whole, with a percentile bootstrap interval.

    Args:
        values: shape (n,).
        units: the unit of each value, shape (n,).
        what: what was counted, for people.
    """
    n = len(values)
    if n == 0:
        return unknown(f"no {what}")
    counts, sums = tally(units, values)
    m = len(counts)
    method = f"{what}; bootstrap over {m} items, {RESAMPLES} resamples, percentile 95 %"
    drawn = _shared_ratio(sums.tobytes(), counts.tobytes())
    return bootstrapped(float(sums.sum() / n), drawn, n, method)


@lru_cache(maxsize=8)
def _shared_ratio(totals: bytes, counts: bytes) -> Numbers:
    """Return `resampled_ratio`, computed once for all arms and seeds that share clean answers."""
    return resampled_ratio(np.frombuffer(totals), np.frombuffer(counts))


def resampled_mean(values: Numbers, units: NDArray[np.int64]) -> Numbers:
    """Return the mean over items in every resample of whole units.

    Args:
        values: one an item, shape (m,) or (m, k).
        units: the unit of each item (its document), from 0 without gaps, shape (m,).

    Returns:
        Shape (RESAMPLES,) or (RESAMPLES, k).
    """
    sums = np.zeros((int(units.max(initial=-1)) + 1, *values.shape[1:]))
    np.add.at(sums, units, values)
    return resampled_ratio(sums, np.bincount(units).astype(np.float64))


def in_words(units: NDArray[np.int64]) -> str:
    """Say which units are drawn.

    >>> in_words(np.array([0, 1, 2])), in_words(np.array([0, 0, 1]))
    ('3 items', '2 clusters')
    """
    n = int(units.max(initial=-1)) + 1
    return f"{n} items" if n == len(units) else f"{n} clusters"


def item_mean(
    values: Numbers, lowest: float = 0.0, units: NDArray[np.int64] | None = None
) -> Estimate:
    """Estimate a mean over items of scores in [lowest, 1], by a bootstrap of whole units.

    Where all drawn units look alike it is the interval of `Drawn`.

    Args:
        values: one an item, shape (m,).
        lowest: the lowest score there can be.
        units: the unit of each item (its document), from 0 without gaps, shape (m,); None: each
            item is its own.

    >>> item_mean(np.ones(4)).method
    'Wilson 95 % over 4 items that look alike (their bootstrap interval has no width)'
    """
    m = len(values)
    if not m:
        return unknown("no item is eligible")
    own = np.arange(m) if units is None else units
    what, n, value = in_words(own), int(own.max()) + 1, float(np.mean(values))
    if n < m:
        means = resampled_mean(values, own)
    else:
        # Rounded, so that equal items stay equal where sums were taken in another order.
        kinds, drawn = draw_kinds(Counter(np.round(values, 12).tolist()))
        means = np.asarray(drawn @ np.array(kinds) / m)
    method = f"bootstrap over {what}, {RESAMPLES} resamples, percentile 95 %"
    return bootstrapped(value, means, m, method, Drawn(n, what, (lowest, 1.0)))


# Randomisation tests ---------------------------------------------------------------------------


def swap_p(observed: float, swapped: Callable[[Mask], Numbers], n_units: int, seed: int) -> float:
    """Return the two-sided p-value of a difference that swaps of whole units would give as well.

    p = (1 + #{|difference after swaps| at least as large}) / (1 + PERMUTATIONS).

    Args:
        observed: the difference.
        swapped: takes which units are swapped, shape (PERMUTATIONS, n_units); returns the
            differences, shape (PERMUTATIONS,). One that is undefined counts as large.
        n_units: units.
        seed: of the swaps.

    References:
        Phipson and Smyth, "Permutation p-values should never be zero", 2010.
    """
    swaps = np.random.default_rng(seed).integers(0, 2, size=(PERMUTATIONS, n_units)).astype(bool)
    as_large = np.nan_to_num(np.abs(swapped(swaps)), nan=np.inf) >= abs(observed) - ROUNDING
    return float((1 + int(as_large.sum())) / (1 + PERMUTATIONS))


def control_p(
    n_hard: int, n: int, n_distinct: int | None = None, *, stop_at: int | None = None
) -> float:
    """Return the p-value of one observation against controls that are drawn as it was.

    p = (1 + n_hard) / (n + 1). Where drawing ended at the control that was the last of `stop_at`
    as hard, p = stop_at / n. Repeated texts are no new evidence: p >= 1 / (n_distinct + 1).

    *Differs from the paper*: it prints n_hard / 30, which can be 0 and then is no p-value.

    Args:
        n_hard: controls at least as hard as the observation.
        n: controls.
        n_distinct: how many controls the distinct texts make up; None for all.
        stop_at: as hard controls that end it.

    >>> control_p(0, 30) == 1 / 31, control_p(10, 40, stop_at=10), control_p(0, 30, 4)
    (True, 0.25, 0.2)

    References:
        Besag and Clifford, "Sequential Monte Carlo p-values", Biometrika 1991.
        Phipson and Smyth, "Permutation p-values should never be zero", 2010.
    """
    p = n_hard / n if n_hard == stop_at else (1 + n_hard) / (n + 1)
    return p if n_distinct is None else max(p, 1 / (n_distinct + 1))
