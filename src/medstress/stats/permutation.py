"""Randomisation tests: two arms swapped at random within units."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from medstress.stats.shares import Mask, Numbers

PERMUTATIONS = 2_000
_TOLERANCE = 1e-12


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
