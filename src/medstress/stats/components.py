"""Components of variance of crossed random factors, and what more of one factor would buy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from medstress.stats.estimates import Z

REST = "rest"
"""What no factor explains: interactions, and chance within an answer."""
_ROUNDING = 1e-9
"""Components below this share of the variance of all values are rounding."""
_WORST = 1e10
"""Systems with a larger condition number cannot tell their factors apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """The variance of an observation, by its sources."""

    variances: Mapping[str, float]
    """Factor -> its component, then `REST`; negative estimates are cut to 0."""
    weights: Mapping[str, float]
    """Factor -> sum of squared shares of its levels among the observations; of `REST` 1 / n. A
    component times its weight is its part of the variance of the mean."""
    levels: Mapping[str, int]
    """Factor -> number of its levels."""
    n: int
    """Observations."""

    def half_width(self, **times: float) -> float:
        """Return the half-width of the normal 95 % interval of the mean.

        Args:
            times: factor -> how many times as many levels of it are drawn, the observations
                growing alike; levels of other factors stay, and so do their weights.

        >>> found = Components(
        ...     variances={"items": 0.2, "rest": 0.0}, weights={"items": 0.01, "rest": 0.005},
        ...     levels={"items": 100}, n=200,
        ... )
        >>> round(found.half_width() / found.half_width(items=4), 6)
        2.0
        """
        growth = float(np.prod(list(times.values()))) if times else 1.0
        total = sum(
            variance * self.weights[name] / (growth if name == REST else times.get(name, 1.0))
            for name, variance in self.variances.items()
        )
        return Z * sqrt(total)


def components(values: ArrayLike, factors: Mapping[str, Sequence[object]]) -> Components | None:
    """Estimate variance components of y = mean + one effect of each factor + rest.

    Henderson's first method: the sums of squares of all factors, of the whole and of the mean,
    each uncorrected, are set equal to their expectations, which are linear in the components. It
    needs no distribution, so it serves 0/1 flips, and no balance; with balanced data it is the
    analysis of variance. Interactions are part of the rest. Negative components are cut to 0, as
    usual, which biases small ones upwards.

    Args:
        values: y, shape (n,).
        factors: name -> the level of each observation, n of them.

    Returns:
        The components; None if the design cannot tell them apart, such as a factor with one
        level, or with a level for each observation.

    >>> y = [0, 0, 1, 1]  # two items, two seeds: all of it lies between items
    >>> found = components(y, {"items": "aabb", "seeds": "xyxy"})
    >>> {name: round(each, 6) for name, each in found.variances.items()}
    {'items': 0.5, 'seeds': 0.0, 'rest': 0.0}

    References:
        Henderson, "Estimation of variance and covariance components", Biometrics 1953, method 1;
        Searle, Casella and McCulloch, "Variance components", 1992, chapter 5.
    """
    y = np.asarray(values, dtype=np.float64)
    n = y.shape[0]
    coded = {name: np.unique(_texts(of), return_inverse=True)[1] for name, of in factors.items()}
    levels = {name: int(of.max()) + 1 if n else 0 for name, of in coded.items()}
    if n < 2 or any(each < 2 or each == n for each in levels.values()):
        return None
    names = list(coded)
    sizes = {name: np.bincount(of).astype(np.float64) for name, of in coded.items()}
    # Unknowns: mean^2, each factor's component, the rest. Rows: whole, each factor, mean.
    left = [[float(n), *(float(n) for _ in names), float(n)]]
    right = [float(y @ y)]
    for name in names:
        totals = np.bincount(coded[name], weights=y)
        right.append(float((totals**2 / sizes[name]).sum()))
        shared = [
            float(n) if other == name else _shared(coded[name], coded[other], sizes[name])
            for other in names
        ]
        left.append([float(n), *shared, float(levels[name])])
    right.append(float(y.sum()) ** 2 / n)
    left.append([float(n), *(float((sizes[name] ** 2).sum()) / n for name in names), 1.0])
    system = np.array(left)
    if np.linalg.cond(system) > _WORST:
        return None
    found = np.linalg.solve(system, np.array(right))[1:]
    weights = {name: float((sizes[name] ** 2).sum()) / n**2 for name in names}
    return Components(
        variances=dict(zip([*names, REST], (_cut(float(v), y) for v in found), strict=True)),
        weights={**weights, REST: 1 / n},
        levels=levels,
        n=n,
    )


def _texts(levels: Sequence[object]) -> NDArray[np.str_]:
    return np.array([repr(each) for each in levels])


def _shared(one: NDArray[np.int64], other: NDArray[np.int64], sizes: NDArray[np.float64]) -> float:
    """Return the sum over levels i of one factor and j of another of n_ij^2 / n_i."""
    pairs, counts = np.unique(np.stack([one, other]), axis=1, return_counts=True)
    return float((counts**2 / sizes[pairs[0]]).sum())


def _cut(component: float, y: NDArray[np.float64]) -> float:
    """Return a component, 0 where it is negative or nothing but rounding."""
    return component if component > _ROUNDING * float(y.var()) else 0.0
