"""Scores over several trainings, resampling training seeds together with items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from medstress.metrics.old_stats.estimates import Estimate, unknown
from medstress.metrics.old_stats.resampling import bootstrapped, random_stream

ENOUGH_SEEDS = 3
"""The fewest trainings of a kind from which other trainings are inferred and claims judged."""

_TIMES = 8
"""Draws of the seeds for every resample of the items; many, as Student's t has long tails."""

Drawn = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A score and its resamples; scores that are compared share their clusters."""

    value: float | None
    """The score; None if it is undefined."""
    drawn: Drawn
    """The score of every resample, shape (n_resamples,); nan if it is undefined."""


def over_seeds(scores: Sequence[Measured]) -> Measured:
    """Average over trainings, with resamples that allow for other trainings.

    With scores x_1, ..., x_S of S trainings, their mean m and standard deviation s, the mean of
    all trainings is drawn from m + s / sqrt(S) t, t from Student's t with S - 1 degrees of
    freedom: three trainings say little of others, and resampling three values with replacement
    would claim to know more (it leaves a third of the variance out). The draws are weights of the
    trainings that sum to 1, the same for all scores of S trainings: differences and ratios are
    taken draw by draw, and what makes a seed good on all scores cancels. Each draw of the weights
    meets a resample of the items. Below `ENOUGH_SEEDS` trainings seeds are not drawn.

    Args:
        scores: one for each training, the same items resampled in the same way.

    References:
        Gelman et al., Bayesian Data Analysis, section 3.2: the mean of normal values, nothing
        known beforehand.

    >>> two = [Measured(value=x, drawn=np.array([x, x])) for x in (0.25, 0.75)]
    >>> over_seeds(two).value, over_seeds(two).drawn.tolist()
    (0.5, [0.5, 0.5])
    """
    values = [score.value for score in scores if score.value is not None]
    if not values or len(values) < len(scores):
        return Measured(value=None, drawn=np.zeros(0))
    drawn = np.stack([score.drawn for score in scores], axis=1)
    if len(scores) >= ENOUGH_SEEDS:
        drawn = np.tile(drawn, (_TIMES, 1))
        drawn = (drawn * _weights(*drawn.shape)).sum(1)
    else:
        drawn = drawn.mean(1)
    return Measured(value=float(np.mean(values)), drawn=drawn)


def minus(first: Measured, second: Measured) -> Measured:
    """Return the difference of two scores, draw by draw; undefined if one of them is."""
    if first.value is None or second.value is None:
        return Measured(value=None, drawn=np.zeros(0))
    return Measured(value=first.value - second.value, drawn=first.drawn - second.drawn)


def estimated(
    score: Measured, n: int, method: str, limits: tuple[float, float] = (-np.inf, np.inf)
) -> Estimate:
    """Return a score with the interval of its resamples.

    Args:
        score: the score.
        n: what it was counted over.
        method: how it was resampled, for people.
        limits: the lowest and the highest possible value, which cut the interval.
    """
    if score.value is None or not np.isfinite(score.drawn).any():
        return unknown(f"{method}: undefined")
    return bootstrapped(score.value, np.clip(score.drawn, *limits), n, method)


def method_of(what: str, n_seeds: int) -> str:
    """Describe what was drawn.

    >>> method_of("40 clusters", 1)
    'bootstrap over 40 clusters, percentile 95 %; 1 training seed, so nothing of other seeds'
    """
    if n_seeds >= ENOUGH_SEEDS:
        return (
            f"bootstrap over {what} and {n_seeds} training seeds (their mean by Student's t, "
            f"{n_seeds - 1} degrees of freedom), percentile 95 %"
        )
    seeds = "1 training seed" if n_seeds == 1 else f"{n_seeds} training seeds"
    return f"bootstrap over {what}, percentile 95 %; {seeds}, so nothing of other seeds"


@lru_cache(maxsize=8)
def _weights(n_draws: int, n_seeds: int) -> Drawn:
    """Weights of the seeds, shape (n_draws, n_seeds); every row sums to 1.

    A direction drawn at right angles to (1, ..., 1), over the root of a chi-square variable: the
    weighted mean of any values then deviates from their mean by s / sqrt(S) t.
    """
    rng = random_stream(1)
    normal = rng.standard_normal((n_draws, n_seeds))
    normal -= normal.mean(1, keepdims=True)
    chi_square = rng.chisquare(n_seeds - 1, size=(n_draws, 1))
    found: Drawn = 1 / n_seeds + normal / np.sqrt(n_seeds * chi_square)
    found.setflags(write=False)
    return found
