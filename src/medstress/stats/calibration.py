"""How well confidence tells right from wrong answers: calibration, and risk against coverage."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import digamma

from medstress.stats.estimates import Estimate, unknown
from medstress.stats.resampling import RESAMPLES, around, bootstrapped, resampled_sums
from medstress.stats.shares import rate

Answer: TypeAlias = tuple[tuple[str, ...], float, bool]
"""(its unit, the widest part first; probability of the chosen option; whether it was right)."""

BINS = 10
"""Bins of equal width over [0, 1] behind every calibration error."""
GROUPS = 100
"""Most groups of answers by confidence behind the area under a risk-coverage curve."""
DIGITS = 9
"""Confidences are rounded to this number of decimals."""
POINTS = 20
"""Most points of a risk-coverage curve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How far confidence lies from accuracy."""

    error: Estimate
    """The expected calibration error."""
    by_chance: float | None
    """How far chance alone moves the bins together, on average over resamples: about the error
    that a calibrated victim shows at this n."""


def calibration(answers: Sequence[Answer]) -> Calibration:
    """Estimate the expected calibration error over `BINS` bins of equal width.

    ECE = sum over bins of |right answers - sum of confidences| / answers. A confidence of 1 is in
    the last bin. The value is above the truth by up to `by_chance`, and so are its resamples: a
    percentile interval never holds the 0 of a calibrated victim. Here the lower end is
    ECE - q, at least 0, with q the 95 % quantile over resamples of the sum over bins of
    |resampled gap - gap|, which no error of ECE exceeds; the upper end is the 97.5 % quantile of
    the resampled ECE. How often it holds the truth: docs, results/statistics.

    Args:
        answers: answers of items that are resampled whole, by the first part of the unit.

    References:
        Naeini, Cooper and Hauskrecht, "Obtaining well calibrated probabilities using Bayesian
        binning", AAAI 2015; Guo et al., "On calibration of modern neural networks", ICML 2017.

    >>> sure = [((f"q{i}",), 0.9, i % 2 == 0) for i in range(100)]
    >>> round(calibration(sure).error.value, 6)
    0.4
    """
    if not answers:
        return Calibration(error=unknown("no answer with a confidence"), by_chance=None)
    units, confidences, right = _arrays(answers)
    bins = np.minimum((confidences * BINS).astype(np.int64), BINS - 1)
    n, m = len(answers), int(units.max()) + 1
    table = np.zeros((m, BINS + 1))
    np.add.at(table, (units, bins), right - confidences)
    table[:, BINS] = np.bincount(units, minlength=m)
    sums = resampled_sums(table)
    gaps = table[:, :BINS].sum(axis=0) / n
    drawn = sums[:, :BINS] / sums[:, BINS:]
    value = float(np.abs(gaps).sum())
    moved = np.abs(drawn - gaps).sum(axis=1)
    low = max(0.0, value - float(np.quantile(moved, 0.95)))
    high = max(value, float(np.quantile(np.abs(drawn).sum(axis=1), 0.975)))
    method = (
        f"{BINS} bins of equal width; bootstrap over {m} items (documents where known), "
        f"{RESAMPLES} resamples, conservative 95 %"
    )
    error = Estimate(value=value, n=n, low=low, high=min(high, 1.0), method=method)
    if m < 2:
        alone = f"{BINS} bins of equal width; one item gives no interval"
        error = Estimate(value=value, n=n, low=None, high=None, method=alone)
    return Calibration(error=error, by_chance=float(moved.mean()))


def brier(answers: Sequence[Answer]) -> Estimate:
    """Estimate the mean of (confidence - right)^2, right being 1 or 0.

    It is the Brier score of the chosen option alone, not summed over all options.

    References:
        Brier, "Verification of forecasts expressed in terms of probability", 1950.

    >>> brier([(("q",), 0.75, True), (("r",), 0.75, False)]).value
    0.3125
    """
    if not answers:
        return unknown("no answer with a confidence")
    units, confidences, right = _arrays(answers)
    m = int(units.max()) + 1
    squares = np.bincount(units, weights=(confidences - right) ** 2, minlength=m)
    table = np.stack([squares, np.bincount(units, minlength=m)], axis=1)
    total, n = table.sum(axis=0)
    sums = resampled_sums(table)
    return bootstrapped(float(total / n), sums[:, 0] / sums[:, 1], len(answers), _over(m))


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """The most confident answers up to one coverage."""

    coverage: float
    """Their share of all answers; the most confident first, equal confidences together."""
    error: Estimate
    """The share of wrong ones among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskCoverage:
    """The error among the most confident answers, for every coverage."""

    points: tuple[Selected, ...]
    """By ascending coverage, at most `POINTS`; the last has all answers."""
    area: Estimate
    """The mean error over all coverages, between 0 and 1: the smaller, the better confidence
    tells right from wrong. At equal accuracy a random order gives the error of all answers."""


def risk_coverage(answers: Sequence[Answer]) -> RiskCoverage:
    """Estimate the risk-coverage curve and its area.

    The area is the mean over k = 1..n of the error among the k most confident answers, expected
    over all orders of answers with the same confidence. Answers are put into at most `GROUPS`
    groups of about equal size by confidence, equal confidences together, and the order within a
    group is taken as random.

    References:
        El-Yaniv and Wiener, "On the foundations of noise-free selective classification", JMLR
        2010; Geifman, Uziel and El-Yaniv, "Bias-reduced uncertainty estimation for deep neural
        classifiers", ICLR 2019.

    >>> found = risk_coverage([(("a",), 0.9, True), (("b",), 0.6, False)])
    >>> [(each.coverage, each.error.value) for each in found.points], found.area.value
    ([(0.5, 0.0), (1.0, 0.5)], 0.25)
    """
    if not answers:
        return RiskCoverage(points=(), area=unknown("no answer with a confidence"))
    units, confidences, right = _arrays(answers)
    n, m = len(answers), int(units.max()) + 1
    groups = _groups(confidences)
    k = int(groups.max()) + 1
    rows, columns = np.concatenate([units, units]), np.concatenate([groups, groups + k])
    values = np.concatenate([np.ones(n), 1 - right])
    table = csr_array((values, (rows, columns)), shape=(m, 2 * k))
    sums = resampled_sums(table)
    total = np.asarray(table.sum(axis=0)).reshape(1, -1)
    value = float(_area(total[:, :k], total[:, k:])[0])
    area = around(bootstrapped(value, _area(sums[:, :k], sums[:, k:]), n, _over(m)))
    return RiskCoverage(points=_points(answers, confidences), area=area)


def _arrays(
    answers: Sequence[Answer],
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return number of the unit, confidence and right (1 or 0) of each answer."""
    numbers: dict[Hashable, int] = {
        unit: i for i, unit in enumerate(sorted({unit[0] for unit, *_ in answers}))
    }
    units = np.array([numbers[unit[0]] for unit, *_ in answers], dtype=np.int64)
    # A softmax leaves .9 a little above or below .9, which is no difference in confidence.
    given = np.array([confidence for _, confidence, _ in answers], dtype=np.float64)
    confidences = given.round(DIGITS)
    return units, confidences, np.array([right for *_, right in answers], dtype=np.float64)


def _over(m: int) -> str:
    return (
        f"bootstrap over {m} items (documents where known), {RESAMPLES} resamples, percentile 95 %"
    )


def _groups(confidences: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the group of each answer, the most confident in group 0."""
    _, place, counts = np.unique(-confidences, return_inverse=True, return_counts=True)
    before = np.cumsum(counts) - counts
    wanted = before * GROUPS // len(confidences)
    found: NDArray[np.int64] = np.unique(wanted, return_inverse=True)[1][place]
    return found


def _area(counts: NDArray[np.float64], wrong: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the area from answers and wrong answers by group, both of shape (r, k).

    After N answers with E wrong ones, a group of m answers with e wrong ones adds, expected over
    its orders, the sum over j = 1..m of (E + j e / m) / (N + j)
    = e + (E - N e / m) (digamma(N + m + 1) - digamma(N + 1)).
    """
    n_before = np.cumsum(counts, axis=1) - counts
    wrong_before = np.cumsum(wrong, axis=1) - wrong
    share = np.divide(wrong, counts, out=np.zeros_like(wrong), where=counts > 0)
    steps = digamma(n_before + counts + 1) - digamma(n_before + 1)
    parts = wrong + (wrong_before - n_before * share) * steps
    found: NDArray[np.float64] = parts.sum(axis=1) / counts.sum(axis=1)
    return found


def _points(answers: Sequence[Answer], confidences: NDArray[np.float64]) -> tuple[Selected, ...]:
    """Return the points at about every 1 / `POINTS` of coverage, equal confidences together."""
    order = np.argsort(-confidences, kind="stable")
    ranked = confidences[order]
    n = len(ranked)
    ends = [i + 1 for i in range(n) if i + 1 == n or ranked[i + 1] != ranked[i]]
    wanted = [next(e for e in ends if e * POINTS >= step * n) for step in range(1, POINTS + 1)]
    return tuple(
        Selected(
            coverage=end / n,
            error=rate((answers[i][0], not answers[i][2]) for i in order[:end]),
        )
        for end in dict.fromkeys(wanted)
    )
