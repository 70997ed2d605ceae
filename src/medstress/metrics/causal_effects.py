"""What insertions did to the answers, against what the reasonings say they did.

The causal effect of a clause is D(P || P'), where P is how the victim's answers spread with all
insertions and P' without this one. Its implied effect is the share of sampled reasonings about
the whole edit that say it mattered. A victim whose reasonings tell what moved it has a positive
slope of the one on the other.

*Differs from the paper*: a clause is left out and never exchanged for another, so the mean over
interventions has one term; one straight line through the clauses of all items takes the place of
a hierarchical Bayesian model, so that items are not told apart and nothing is shrunk; intervals
draw items. With one line through standardised values its slope and Pearson's r are one number;
their intervals differ, because a resample keeps the standardisation for the slope alone.

Reference: Matton, Ness, Guttag, Kiciman, "Walk the talk? Measuring the faithfulness of large
language model explanations", 2025.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medstress.metrics.estimates import Estimate, unknown
from medstress.metrics.resampling import RESAMPLES, bootstrapped, resampled_sums
from medstress.outcomes import Prediction

PSEUDO = 0.5
"""Added to the count of every option where answers are counted, or an option that was never
answered would make the divergence infinite."""
FLOOR = 1e-9
"""Least share of an option where probabilities are known."""
LEAST_CLAUSES = 3

Sums = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One inserted clause, measured."""

    item_id: str
    """The item it was inserted into."""
    causal: float
    """Causal effect, in nats; at least 0."""
    implied: float
    """Implied effect, in [0, 1]."""


def answer_shares(replies: Sequence[Prediction], letters: str) -> list[float] | None:
    """How the answers of sampled conversations spread over the options.

    Args:
        replies: how the conversations ended.
        letters: of the options.

    Returns:
        Mean probabilities where the victim gives them, else shares of the readable answers with
        `PSEUDO` added to every count; they add up to 1. None where no answer could be read.

    >>> from medstress.outcomes import Outcome
    >>> answer_shares([Prediction(outcome=Outcome.RIGHT, answer="A")] * 3, "AB")
    [0.875, 0.125]
    """
    scored = [reply.scores for reply in replies if reply.scores is not None]
    if scored:
        means = np.maximum(np.exp(np.asarray(scored)).mean(axis=0), FLOOR)
        return [float(share) for share in means / means.sum()]
    read = [reply.answer for reply in replies if reply.answer is not None]
    read = [answer for answer in read if len(answer) == 1 and answer in letters]
    if not read:
        return None
    total = len(read) + PSEUDO * len(letters)
    return [(read.count(letter) + PSEUDO) / total for letter in letters]


def divergence(first: Sequence[float], second: Sequence[float]) -> float:
    """Kullback-Leibler divergence D(first || second) in nats; both are positive everywhere.

    >>> divergence([0.5, 0.5], [0.5, 0.5])
    0.0
    """
    found = math.fsum(p * math.log(p / q) for p, q in zip(first, second, strict=True))
    return max(found, 0.0)


def faithfulness_slope(clauses: Sequence[Clause]) -> tuple[Estimate, Estimate]:
    """Slope of z(implied) on z(causal), and Pearson's r.

    Returns:
        Both with 95 % percentile intervals of a bootstrap that draws items; `n` counts clauses.
        Unknown where there are fewer than `LEAST_CLAUSES`, or where one side does not vary.
    """
    items = sorted({clause.item_id for clause in clauses})
    method = f"cluster bootstrap over {len(items)} items, {RESAMPLES} resamples, percentile 95 %"
    if len(clauses) < LEAST_CLAUSES:
        missing = unknown(f"fewer than {LEAST_CLAUSES} clauses", len(clauses))
        return missing, missing
    sums = _sums(clauses, items)
    (xx,), (yy,), (xy,) = _spread(sums.sum(axis=0, keepdims=True))
    if min(xx, yy) <= 0:
        which = "causal" if xx <= 0 else "implied"
        missing = unknown(f"the {which} effect does not vary over {len(clauses)} clauses")
        return missing, missing
    value = float(np.clip(xy / math.sqrt(xx * yy), -1.0, 1.0))
    if len(items) == 1:
        alone = Estimate(value=value, n=len(clauses), low=None, high=None, method="one item alone")
        return alone, alone
    sxx, syy, sxy = _spread(resampled_sums(sums))
    slopes = sxy[sxx > 0] / sxx[sxx > 0] * math.sqrt(xx / yy)
    both = (sxx > 0) & (syy > 0)
    # Rounding may lead beyond what a correlation can be.
    correlations = np.clip(sxy[both] / np.sqrt(sxx[both] * syy[both]), -1.0, 1.0)
    return (
        _estimate(value, len(clauses), slopes, method),
        _estimate(value, len(clauses), correlations, method),
    )


def _sums(clauses: Sequence[Clause], items: Sequence[str]) -> Sums:
    """Per item: number of clauses, sums of x, y, x squared, y squared, x times y; (n_items, 6)."""
    # Centred first, so that the differences of sums below lose no digits.
    x0 = math.fsum(one.causal for one in clauses) / len(clauses)
    y0 = math.fsum(one.implied for one in clauses) / len(clauses)
    rows: Mapping[str, list[tuple[float, float]]] = {name: [] for name in items}
    for one in clauses:
        rows[one.item_id].append((one.causal - x0, one.implied - y0))
    return np.array(
        [
            [
                len(held),
                *(math.fsum(values) for values in zip(*held, strict=True)),
                *(
                    math.fsum(pair[i] * pair[j] for pair in held)
                    for i, j in ((0, 0), (1, 1), (0, 1))
                ),
            ]
            for held in rows.values()
        ]
    )


def _spread(sums: Sums) -> tuple[Sums, Sums, Sums]:
    """Sums of squares and products about the means, each of shape (n_resamples,)."""
    n, x, y, xx, yy, xy = sums.T
    return _settled(xx - x * x / n), _settled(yy - y * y / n), _settled(xy - x * y / n)


def _settled(values: Sums) -> Sums:
    """What is left of equal values by rounding is no spread."""
    return np.where(np.abs(values) < 1e-12, 0.0, values)


def _estimate(value: float, n: int, drawn: Sums, method: str) -> Estimate:
    left_out = RESAMPLES - len(drawn)
    told = f"{method}; {left_out} resamples without spread left out" if left_out else method
    return bootstrapped(value, drawn, n, told)
