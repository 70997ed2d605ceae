"""Randomisation tests: arms swapped within units, and one observation against its controls."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from medstress.stats.shares import Mask, Numbers

PERMUTATIONS = 2_000
_TOLERANCE = 1e-12
TIE = 1e-9
"""Statistics that differ by no more than this are ties."""


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
    as_large = np.nan_to_num(np.abs(swapped(swaps)), nan=np.inf) >= abs(observed) - _TOLERANCE
    return float((1 + int(as_large.sum())) / (1 + PERMUTATIONS))


def is_as_hard(control: float, observed: float) -> bool:
    """Return whether a control's statistic is no larger; ties count against significance.

    >>> is_as_hard(0.5, 0.5), is_as_hard(0.6, 0.5)
    (True, False)
    """
    return control <= observed + TIE


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
