"""Samplers: the order in which names are drawn from a perturbation set, by their distances alone.

Reference: Xian et al., "Assessing biomedical knowledge robustness in large language models by
query-efficient sampling attacks", TMLR 2025, Eqs. 2-3 and section 4.2.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

SMALLEST_DISTANCE = 1e-12


def log_weights(distances: Floats, n: float) -> Floats:
    """Return log weights of powerscaled distance-weighted sampling (Xian et al., Eq. 2).

    p_j = h_j^n / sum_m h_m^n, in log space: n * log(max(h_j, 1e-12)), so that it stays finite
    for |n| <= 200, where plain powers overflow.

    Args:
        distances: h(key, e_j) >= 0, shape (n_names,).
        n: the exponent; 0 is uniform, n < 0 favours near names, n > 0 far ones.

    Returns:
        Unnormalised log probabilities, shape (n_names,).

    >>> np.exp(log_weights(np.array([0.1, 0.2, 0.4]), 1.0) - np.log(0.7)).round(4).tolist()
    [0.1429, 0.2857, 0.5714]
    """
    # In place, here and below: a run makes hundreds of thousands of arrays of a whole vocabulary.
    weights: Floats = np.maximum(distances, SMALLEST_DISTANCE)
    np.log(weights, out=weights)
    weights *= n
    return weights


def gumbel_noise(rng: Generator, n_names: int) -> Floats:
    """Return standard Gumbel noise, shape (n_names,): minus the logarithm of exponential draws.

    Takes half the time of `Generator.gumbel`, which computes two logarithms per draw.
    """
    draws: Floats = rng.standard_exponential(n_names)
    np.maximum(draws, np.finfo(np.float64).tiny, out=draws)
    np.log(draws, out=draws)
    return np.negative(draws, out=draws)


def gumbel_top_k(weights: Floats, noise: Floats, k: int) -> Indices:
    """Draw k names without replacement, all at once.

    The k largest of log weight + standard Gumbel noise, in descending order, are distributed as
    successive draws without replacement with probabilities proportional to the weights (Yellott
    1977; Kool et al. 2019). A smaller k gives a prefix of a larger one.

    Args:
        weights: log weights, shape (n_names,).
        noise: standard Gumbel noise, shape (n_names,).
        k: number of draws; more than n_names gives all.

    Returns:
        Indices in drawing order, shape (min(k, n_names),).
    """
    values = weights + noise
    if k >= values.shape[0]:
        return np.argsort(-values, kind="stable")
    top = np.argpartition(values, -k)[-k:]
    return top[np.argsort(-values[top], kind="stable")]


def draw(
    sampler: str, distances: Floats, allowed: Indices, rng: Generator, k: int, n: float | None
) -> Indices:
    """Draw up to k names in the order in which they are to be asked.

    Args:
        sampler: one of `SUMMARIES`.
        distances: h(key, e_j) for the whole vocabulary, shape (n_names,).
        allowed: indices that may be drawn, shape (n_allowed,), ascending.
        rng: the trial's generator; the noise covers the whole vocabulary, so that arms and
            exclusion rules share their random numbers.
        k: the budget; `exhaustive` has none.
        n: the exponent of `pdws`.

    Returns:
        Indices into the vocabulary, shape (min(k, n_allowed),), all of them for `exhaustive`.
    """
    if sampler in ("random", "pdws"):
        noise = _select(allowed, gumbel_noise(rng, distances.shape[0]))
        weights = np.zeros(allowed.shape[0])
        if sampler == "pdws":
            assert n is not None
            weights = log_weights(_select(allowed, distances), n)
        return allowed[gumbel_top_k(weights, noise, k)]
    near = distances[allowed]
    order = np.argsort(-near if sampler == "farthest" else near, kind="stable")
    return allowed[order if sampler == "exhaustive" else order[:k]]


IGNORE_DISTANCES = frozenset({"random"})
"""Samplers that ignore distances: any array of the right shape will do."""
SUMMARIES = {
    "random": "uniform over the perturbation set (RandS; the same as pdws with n = 0)",
    "pdws": "powerscaled distance-weighted: probability proportional to h^n (Xian et al., Eq. 2)",
    "nearest": "ascending distance to the right answer (B-nearest); deterministic",
    "farthest": "descending distance to the right answer (B-farthest); deterministic",
    "exhaustive": "every name once, ascending distance, no early stop; deterministic, no budget",
}


def _select(allowed: Indices, values: Floats) -> Floats:
    """Return the values of the allowed names, without a copy if all are allowed."""
    return values if allowed.shape == values.shape else values[allowed]
