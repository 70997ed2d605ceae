"""The statistic T of the significance test: how likely the victim is to answer the key."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from medstress.core.outcomes import Outcome, Prediction
from medstress.metrics.old_stats.estimates import WILSON, Estimate, wilson_ends


class Statistic(StrEnum):
    """The statistics that can estimate T, in order of preference."""

    KEY_PROBABILITY = "key_probability"
    """Mean P(key), normalised over the options, over sampled reasonings."""
    SHARE_CORRECT = "share_correct"
    """Share of sampled answers that are the key."""

    @property
    def n_samples(self) -> int:
        """S: sampled conversations behind one estimate; a share needs more than a mean."""
        return 20 if self is Statistic.SHARE_CORRECT else 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """What one conversation says about the key."""

    outcome: Outcome
    """Right, wrong or unreadable."""
    probability: float | None = None
    """P(key) over the options; None without scores."""

    def value(self, statistic: Statistic) -> float | None:
        """Return this conversation's contribution to T; None if it has none."""
        if statistic is Statistic.KEY_PROBABILITY:
            return self.probability
        return None if self.outcome is Outcome.UNREADABLE else float(self.outcome is Outcome.RIGHT)


def sampled(prediction: Prediction, key: int) -> Sampled:
    """Read one conversation.

    Args:
        prediction: how the conversation ended.
        key: position of the key, from 0.
    """
    probability = None if prediction.scores is None else math.exp(prediction.scores[key])
    return Sampled(outcome=prediction.outcome, probability=probability)


def usable(seen: Sequence[Sampled]) -> Statistic:
    """Return the statistic that a victim allows, from conversations about the clean item."""
    if any(one.probability is not None for one in seen):
        return Statistic.KEY_PROBABILITY
    return Statistic.SHARE_CORRECT


def hardness(samples: Sequence[Sampled], statistic: Statistic) -> float | None:
    """Return T of one candidate, the mean over its samples; None if no sample has a value.

    The sum is exact, so that the same samples in another order give the same T.

    >>> right, wrong = Sampled(outcome=Outcome.RIGHT), Sampled(outcome=Outcome.WRONG)
    >>> hardness([right, wrong, right, right], Statistic.SHARE_CORRECT)
    0.75
    """
    values = readable_values(samples, statistic)
    return math.fsum(values) / len(values) if values else None


def readable_values(samples: Sequence[Sampled], statistic: Statistic) -> list[float]:
    """Return the values of the samples that have one; unreadable answers are left out."""
    return [value for one in samples if (value := one.value(statistic)) is not None]


def effect(original: Sequence[float], fuzz: Sequence[float]) -> Estimate:
    """Estimate T(original) - T(fuzz) from the samples of both.

    Among values in [0, 1] with a given mean, zeros and ones vary most. So Wilson's interval of a
    share, with the sum of the samples as hits, covers the mean of any such values at least as
    often. Newcombe's rule joins the two intervals: with means s and t and intervals [l, u] and
    [v, w], from s - t - sqrt((s - l)^2 + (w - t)^2) to s - t + sqrt((u - s)^2 + (t - v)^2). With
    five samples a side it is wide, but never without width; a bootstrap of so few samples covers
    86 % instead of 95 %.

    Returns:
        The difference of means in [-1, 1] with a 95 % interval; `n` counts the fuzz's samples.

    >>> found = effect([1.0, 1.0, 1.0], [0.0, 0.0, 0.0])
    >>> found.value, round(found.low, 2), found.high
    (1.0, 0.21, 1.0)

    References:
        Newcombe, "Interval estimation for the difference between independent proportions:
        comparison of eleven methods", Statistics in Medicine 1998, method 10.
    """
    s, (low, high) = _mean_and_ends(original)
    t, (least, most) = _mean_and_ends(fuzz)
    return Estimate(
        value=s - t,
        n=len(fuzz),
        low=s - t - math.hypot(s - low, most - t),
        high=s - t + math.hypot(high - s, t - least),
        method=f"{WILSON} of each mean over sampled conversations, joined by Newcombe's rule",
    )


def _mean_and_ends(values: Sequence[float]) -> tuple[float, tuple[float, float]]:
    n = len(values)
    # Normalised probabilities may exceed 1 by rounding.
    total = min(max(math.fsum(values), 0.0), float(n))
    return total / n, wilson_ends(total, n)
