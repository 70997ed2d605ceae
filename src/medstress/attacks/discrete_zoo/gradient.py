"""The mathematics of zeroth-order attacks on names: scores, the gradient estimate, neighbours.

References:
    Nathaniel Berger et al., "Don't search for a search method: simple heuristics suffice for
    adversarial text attacks", EMNLP 2021 (DiscreteZOO).
    R. Patrick Xian et al., "Assessing biomedical knowledge robustness in large language models
    by query-efficient sampling attacks", TMLR 2025, section 3.3, Eqs. 4-6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Similarities: TypeAlias = NDArray[np.float32]
Indices: TypeAlias = NDArray[np.int64]

HARD_FLOOR = 1e-8
"""Probability that a hard answer gives the options not chosen."""


def margin_score(
    log_probs: Sequence[float], key: int, *, sought: int | None = None, kappa: float = 0.0
) -> float:
    """Return the score that the attack wants to be large; 0 is reached where it succeeds.

    Untargeted: -max(log p_key - max_{j != key} log p_j + kappa, 0). Targeted at option t:
    -max(max_{j != t} log p_j - log p_t + kappa, 0).

    Args:
        log_probs: log probabilities over the options.
        key: position of the right option.
        sought: position of the option aimed at; None: any wrong one.
        kappa: how far beyond the border the score still grows, >= 0.

    >>> round(margin_score([math.log(0.7), math.log(0.2), math.log(0.1)], 0), 4)
    -1.2528
    >>> margin_score([math.log(0.2), math.log(0.8)], 0)
    -0.0
    """
    against = key if sought is None else sought
    rest = max(value for j, value in enumerate(log_probs) if j != against)
    margin = log_probs[against] - rest if sought is None else rest - log_probs[against]
    return -max(margin + kappa, 0.0)


def hard_log_probs(n_options: int, chosen: int) -> tuple[float, ...]:
    """Return the log probabilities assumed for a victim that gives only its answer.

    log(one-hot + 1e-8), so the score is 0 where the answer is wrong and about -18.42 where it
    is right: no value between them, and nothing to follow before the attack has succeeded.
    """
    return tuple(math.log(HARD_FLOOR + (j == chosen)) for j in range(n_options))


def estimate_gradient(
    origin: Floats,
    points: Floats,
    changes: Floats,
    *,
    normalise_displacements: bool = True,
    normalise_differences: bool = True,
    aggregate: str = "sum",
) -> Floats:
    """Estimate the gradient of a score from its changes at a few points (Xian et al., Eq. 5).

    g = sum_i (s_i - s_0)/|d_i| * d_i/|d_i| with d_i = c_i - e_0. Where s is linear with gradient
    w, and M directions are drawn isotropically in d dimensions, cos(g, w) is about
    1/sqrt(1 + (d - 1)/M); M = d orthonormal directions give w itself.

    Args:
        origin: e_0, shape (n_dimensions,).
        points: c_i, none equal to e_0, shape (n_points, n_dimensions).
        changes: s_i - s_0, shape (n_points,).
        normalise_displacements: take d_i/|d_i|, else d_i.
        normalise_differences: take (s_i - s_0)/|d_i|, else s_i - s_0.
        aggregate: `sum` (the released code) or `mean` (Eq. 5); it scales the learning rate by M.

    Returns:
        Shape (n_dimensions,); exactly zero where no change differs from zero.

    >>> estimate_gradient(np.zeros(2), np.eye(2), np.array([0.5, -2.0])).tolist()
    [0.5, -2.0]
    """
    displacements = points - origin
    lengths = np.linalg.norm(displacements, axis=1)
    weights = changes / lengths if normalise_differences else changes
    directions = displacements / lengths[:, None] if normalise_displacements else displacements
    gradient: Floats = weights @ directions
    return gradient / len(points) if aggregate == "mean" else gradient


def most_similar(similarities: Similarities, among: Indices, k: int) -> Indices:
    """Return up to k of the indices `among`, in descending similarity.

    >>> most_similar(np.array([0.1, 0.9, 0.5], np.float32), np.array([0, 2]), 1).tolist()
    [2]
    """
    values = similarities[among]
    top = np.argpartition(-values, k)[:k] if k < len(among) else np.arange(len(among))
    # By index among equals, so that the order depends on nothing else.
    return among[top[np.lexsort((top, -values[top]))]]
