"""Scores over several trainings: training seeds are resampled together with items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import numpy as np

from medstress.stats.estimate import Estimate, unknown
from medstress.stats.resampling import Drawn, bootstrapped, random_stream
from medstress.stats.shares import Numbers

ENOUGH_SEEDS = 3
"""The fewest trainings of a kind that say something of other trainings."""
_TIMES = 8
"""Draws of the seeds for every resample of the items; many, as Student's t has long tails."""
_CLEAR = 0.975
"""The recovered share is given if the attack takes something in this share of resamples."""
ASSUMED = (0.01, 0.03)
"""Standard deviations over training seeds that are assumed of a gain before any is seen. Gains in
F1 of three seeds (studies/araujo) had .004 to .03."""
_SIMULATED = 20_000
_STEPS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A score and its resamples; scores that are compared share their clusters."""

    value: float | None
    """The score; None if it is undefined."""
    drawn: Numbers
    """The score of every resample, shape (n,), nan where it is undefined; empty where there are too
    few clusters for an interval."""
    limits: tuple[float, float] = (-np.inf, np.inf)
    """The lowest and the highest score there can be."""


NOTHING = Measured(value=None, drawn=np.zeros(0))


def over_seeds(scores: Sequence[Measured]) -> Measured:
    """Average over trainings, with resamples that allow for other trainings.

    With scores x_1, ..., x_S of S trainings, their mean m and standard deviation s, the mean of all
    trainings is drawn from m + s / sqrt(S) t, t from Student's t with S - 1 degrees of freedom:
    three trainings say little of others, and resampling three values with replacement leaves a
    third of the variance out. The draws are weights of the trainings that sum to 1, the same for
    all scores of S trainings: differences and ratios are taken draw by draw, and what makes a seed
    good on all scores cancels. Each draw of the weights meets a resample of the items. Below
    `ENOUGH_SEEDS` trainings seeds are not drawn.

    Args:
        scores: one for each training, the same items resampled in the same way.

    References:
        Gelman et al., Bayesian Data Analysis, section 3.2: the mean of normal values, nothing known
        beforehand.

    >>> two = [Measured(value=x, drawn=np.array([x, x])) for x in (0.25, 0.75)]
    >>> over_seeds(two).value, over_seeds(two).drawn.tolist()
    (0.5, [0.5, 0.5])
    """
    values = [score.value for score in scores if score.value is not None]
    if not values or len(values) < len(scores):
        return NOTHING
    drawn = np.stack([score.drawn for score in scores], axis=1)
    if len(scores) >= ENOUGH_SEEDS and len(drawn):
        drawn = np.tile(drawn, (_TIMES, 1))
        drawn = (drawn * _weights(*drawn.shape)).sum(1)
    else:
        drawn = drawn.mean(1)
    return Measured(value=float(np.mean(values)), drawn=drawn)


@lru_cache(maxsize=8)
def _weights(n_draws: int, n_seeds: int) -> Numbers:
    """Return weights of the seeds, shape (n_draws, n_seeds); every row sums to 1.

    A direction at right angles to (1, ..., 1), over the root of a chi-square variable: the weighted
    mean of any values deviates from their mean by s / sqrt(S) t.
    """
    rng = random_stream(1)
    normal = rng.standard_normal((n_draws, n_seeds))
    normal -= normal.mean(1, keepdims=True)
    chi_square = rng.chisquare(n_seeds - 1, size=(n_draws, 1))
    weights = np.asarray(1 / n_seeds + normal / np.sqrt(n_seeds * chi_square))
    weights.setflags(write=False)
    return weights


def minus(first: Measured, second: Measured) -> Measured:
    """Return the difference of two scores, draw by draw; undefined if one of them is."""
    if first.value is None or second.value is None:
        return NOTHING
    (low, high), (least, most) = first.limits, second.limits
    return Measured(
        value=first.value - second.value,
        drawn=first.drawn - second.drawn,
        limits=(low - most, high - least),
    )


def estimated(
    score: Measured,
    n: int,
    method: str,
    limits: tuple[float, float] = (-np.inf, np.inf),
    among: Drawn | None = None,
) -> Estimate:
    """Return a score with the interval of its resamples; without one where there are none.

    Args:
        score: the score.
        n: what it is counted over.
        method: how it was resampled, or why it was not.
        limits: the lowest and the highest possible value, which cut the interval.
        among: what is drawn; None: no interval where all resamples agree.
    """
    if score.value is None or (score.drawn.size and not np.isfinite(score.drawn).any()):
        return unknown(f"{method}: undefined")
    if not score.drawn.size:
        return Estimate(value=score.value, n=n, low=None, high=None, method=method)
    return bootstrapped(score.value, np.clip(score.drawn, *limits), n, method, among)


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


def least_gain(
    n_seeds: int,
    seed_deviation: float,
    standard_error: float,
    *,
    n_kinds: int = 1,
    power: float = 0.8,
) -> float:
    """Return the gain whose interval lies above 0 with the given power, by simulation.

    The gain of a seed is normal around that of all trainings; that of the items is normal around
    that of all items, the same for every seed. The interval is that of `over_seeds`. Of the best of
    several kinds of models it is Sidak's.

    Args:
        n_seeds: training seeds, at least 2.
        seed_deviation: standard deviation of the gain over training seeds.
        standard_error: of the gain, over items.
        n_kinds: kinds of models among which the best is picked.
        power: in (0, 1).

    >>> [round(least_gain(n, 0.02, 0.0), 2) for n in (3, 5)]
    [0.06, 0.03]
    """
    rng, step = random_stream(2), seed_deviation / sqrt(n_seeds)
    student = rng.standard_t(n_seeds - 1, _SIMULATED)
    normal = rng.standard_normal(_SIMULATED)
    # How wide the interval is, by the standard deviation that the seeds happen to show.
    shown = step * np.sqrt(rng.chisquare(n_seeds - 1, _SIMULATED) / (n_seeds - 1))
    grid = np.linspace(0, shown.max(), _STEPS)
    level = 0.95 ** (1 / n_kinds)
    widths = [np.quantile(np.abs(standard_error * normal + at * student), level) for at in grid]
    noise = rng.standard_normal(_SIMULATED) * np.hypot(standard_error, step)
    return float(np.quantile(np.interp(shown, grid, widths) - noise, power))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """How much of one model's loss under attack another model avoids."""

    clean: Estimate
    attacked: Estimate
    trained_clean: Estimate
    trained_attacked: Estimate
    clean_loss: Estimate
    """clean - trained_clean."""
    gain: Estimate
    """trained_attacked - attacked."""
    recovered: Estimate
    """gain / (clean - attacked)."""


def recovery(
    clean: Measured,
    attacked: Measured,
    trained_clean: Measured,
    trained_attacked: Measured,
    n: int,
    method: str,
    limits: tuple[float, float] = (0.0, 1.0),
) -> Recovery:
    """Compare two models under attack; all scores are resampled together.

    The recovered share is unknown unless the attack takes something in 97.5 % of the resamples,
    because otherwise its denominator is too close to zero.

    Args:
        clean: the first model, on clean data.
        attacked: the first model, on perturbed data.
        trained_clean: the second model, on clean data.
        trained_attacked: the second model, on perturbed data.
        n: clusters or pairs.
        method: how they were resampled, or why they were not.
        limits: the lowest and the highest possible score.
    """
    loss, gain = minus(clean, attacked), minus(trained_attacked, attacked)
    taken = np.nan_to_num(loss.drawn, nan=0.0) > 0
    if loss.value is None or gain.value is None:
        recovered = unknown(f"{method}: a score is undefined")
    elif loss.value <= 0 or not taken.size or taken.mean() < _CLEAR:
        recovered = unknown(f"{method}: what the attack takes is not clear of zero")
    else:
        share = Measured(value=gain.value / loss.value, drawn=gain.drawn[taken] / loss.drawn[taken])
        recovered = estimated(share, n, method)

    def score(one: Measured) -> Estimate:
        return estimated(one, n, method, limits)

    return Recovery(
        clean=score(clean),
        attacked=score(attacked),
        trained_clean=score(trained_clean),
        trained_attacked=score(trained_attacked),
        clean_loss=estimated(minus(clean, trained_clean), n, method),
        gain=estimated(gain, n, method),
        recovered=recovered,
    )
