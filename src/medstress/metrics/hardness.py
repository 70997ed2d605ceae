"""The statistic T of the significance test: how likely the victim is to answer the key."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.stats import bootstrap

from medstress.metrics.estimates import Estimate
from medstress.outcomes import Outcome, Prediction

RESAMPLES = 2_000
_SEED = 20_260_701


class Statistic(StrEnum):
    """What T is estimated by; the first that the victim allows."""

    KEY_PROBABILITY = "key_probability"
    """Mean P(key), normalised over the options, over sampled reasonings."""
    SHARE_CORRECT = "share_correct"
    """Share of sampled answers that are the key."""
    CONFIDENCE = "confidence"
    """Mean of the stated confidence in the key over the sum of all."""

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
    confidence: float | None = None
    """Stated confidence in the key over the sum of all; None where none was stated."""

    def value(self, statistic: Statistic) -> float | None:
        """This conversation's share of T; None where it does not tell."""
        if statistic is Statistic.KEY_PROBABILITY:
            return self.probability
        if statistic is Statistic.CONFIDENCE:
            return self.confidence
        return None if self.outcome is Outcome.UNREADABLE else float(self.outcome is Outcome.RIGHT)


def sampled(
    prediction: Prediction, key: int, confidences: Sequence[float] | None = None
) -> Sampled:
    """Read one conversation.

    Args:
        prediction: how it ended.
        key: position of the key, from 0.
        confidences: stated score of every option, where the conversation asked for them.
    """
    total = sum(confidences) if confidences else 0.0
    return Sampled(
        outcome=prediction.outcome,
        probability=None if prediction.scores is None else math.exp(prediction.scores[key]),
        confidence=confidences[key] / total if confidences and total > 0 else None,
    )


def usable(wanted: Statistic, seen: Sequence[Sampled]) -> Statistic:
    """The statistic that a victim allows: the wanted one, else the next that it answers.

    Args:
        wanted: as the experiment asks.
        seen: conversations about the clean item.

    Returns:
        `wanted` where any conversation tells it; the last resort is the share of right answers.
    """
    order = [wanted, Statistic.KEY_PROBABILITY, Statistic.SHARE_CORRECT, Statistic.CONFIDENCE]
    for statistic in order:
        if any(one.value(statistic) is not None for one in seen):
            return statistic
    return Statistic.SHARE_CORRECT


def hardness(samples: Sequence[Sampled], statistic: Statistic) -> float | None:
    """T of one candidate: the mean over its samples; None where none of them tells.

    The sum is exact, so that equal samples in another order make a tie.

    >>> right, wrong = Sampled(outcome=Outcome.RIGHT), Sampled(outcome=Outcome.WRONG)
    >>> hardness([right, wrong, right, right], Statistic.SHARE_CORRECT)
    0.75
    """
    values = told(samples, statistic)
    return math.fsum(values) / len(values) if values else None


def told(samples: Sequence[Sampled], statistic: Statistic) -> list[float]:
    """The values of the samples that tell; unreadable answers count on neither side."""
    return [value for one in samples if (value := one.value(statistic)) is not None]


def effect(original: Sequence[float], fuzz: Sequence[float]) -> Estimate:
    """Estimate T(original) - T(fuzz) from the samples of both.

    Returns:
        The difference of means in [-1, 1] with a percentile bootstrap interval over samples;
        `n` counts the fuzz's samples.

    >>> found = effect([1.0, 1.0, 1.0], [0.0, 0.0, 0.0])
    >>> found.value, found.low, found.high
    (1.0, 1.0, 1.0)
    """
    value = math.fsum(original) / len(original) - math.fsum(fuzz) / len(fuzz)
    if len(set(original)) == 1 and len(set(fuzz)) == 1:
        method = "no interval: all samples of a text are alike"
        return Estimate(value=value, n=len(fuzz), low=value, high=value, method=method)
    found = bootstrap(
        (np.asarray(original), np.asarray(fuzz)),
        lambda a, b, axis: a.mean(axis=axis) - b.mean(axis=axis),
        n_resamples=RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    )
    low, high = found.confidence_interval
    method = f"bootstrap over sampled conversations, {RESAMPLES} resamples, percentile 95 %"
    return Estimate(value=value, n=len(fuzz), low=float(low), high=float(high), method=method)
