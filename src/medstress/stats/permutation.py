"""Randomisation tests: arms swapped within units, and one observation against its controls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from medstress.stats.shares import Mask, Numbers

PERMUTATIONS = 2_000
LEAST_CONTROLS = 30
"""The paper's number of controls; `p_paper` of an adaptive test is of its first 30."""
MOST_CONTROLS = 999
"""The most controls that an adaptive test draws."""
_TOLERANCE = 1e-12
TIE = 1e-9
"""Statistics that differ by no more than this are ties."""
FLIPS = 4_999
"""Patterns of signs that are drawn where there are too many to list."""
_FLIP_SEED, _FLIP_TOLERANCE = 20_260_102, 1e-9


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlan:
    """How many controls a test draws."""

    fixed: int | None = None
    """Fixed number of controls; None for an adaptive number up to `limit`."""
    stop_at: int = 10
    """Adaptive: stop once this many controls are at least as hard."""
    limit: int = MOST_CONTROLS
    """Adaptive: the most controls that are drawn."""

    @property
    def most(self) -> int:
        """The most controls that are drawn."""
        return self.limit if self.fixed is None else self.fixed

    @property
    def p_min(self) -> float:
        """The smallest possible p-value: 1 / (most + 1)."""
        return 1 / (self.most + 1)

    def is_done(self, as_hard: Sequence[bool]) -> bool:
        """Return whether the controls drawn so far are enough.

        >>> ControlPlan(stop_at=2).is_done([True, False]), ControlPlan(fixed=1).is_done([False])
        (False, True)
        """
        if len(as_hard) >= self.most:
            return True
        return self.fixed is None and sum(as_hard) >= self.stop_at


@dataclass(frozen=True, slots=True, kw_only=True)
class PValues:
    """The p-values of one observation."""

    p: float
    """What decides; never below 1 / (distinct controls + 1)."""
    p_paper: float
    """Share of the first `n_paper` controls at least as hard, without the +1: no p-value at 0."""
    n_paper: int
    """All controls of a fixed number; the first `LEAST_CONTROLS` of an adaptive one."""
    n_controls: int
    """Controls drawn."""
    count: int
    """Controls at least as hard as the observation."""

    @property
    def paper_text(self) -> str:
        """`p_paper` as the paper prints it.

        >>> p_values([False] * 30, ControlPlan(fixed=30)).paper_text
        '< 1/30'
        """
        return f"{self.p_paper:.3g}" if self.p_paper else f"< 1/{self.n_paper}"


def is_as_hard(control: float, observed: float) -> bool:
    """Return whether a control's statistic is no larger; ties count against significance.

    >>> is_as_hard(0.5, 0.5), is_as_hard(0.6, 0.5)
    (True, False)
    """
    return control <= observed + TIE


def p_values(as_hard: Sequence[bool], plan: ControlPlan, n_distinct: int | None = None) -> PValues:
    """Compute the p-values of one observation against controls drawn under the null.

    Fixed number N: p = (1 + count) / (N + 1). Adaptive: controls are drawn until h = `stop_at` of
    them are at least as hard; if the h-th is the l-th control, p = h / l, and if `limit` = N
    controls have fewer, p = (1 + count) / (N + 1). Controls after the l-th change nothing. Repeated
    texts are no new evidence: p is at least 1 / (n_distinct + 1).

    *Differs from the paper*: it prints count / 30, which can be 0 and then is no p-value.

    Args:
        as_hard: for each control, in the order drawn, whether it is at least as hard.
        plan: how many were to be drawn.
        n_distinct: how many controls the distinct texts make up; None for all.

    Raises:
        ValueError: the plan needs more controls.

    >>> p_values([False] * 30, ControlPlan(fixed=30)).p == 1 / 31
    True
    >>> p_values([True, False] * 15, ControlPlan(stop_at=10)).p == 10 / 19
    True
    >>> p_values([False] * 30, ControlPlan(fixed=30), n_distinct=4).p
    0.2

    References:
        Besag and Clifford, "Sequential Monte Carlo p-values", Biometrika 1991.
        Phipson and Smyth, "Permutation p-values should never be zero", 2010.
    """
    if not plan.is_done(as_hard):
        raise ValueError(f"{len(as_hard)} controls are fewer than the test needs")
    hard_at = [drawn for drawn, hard in enumerate(as_hard, start=1) if hard]
    p = (1 + len(hard_at)) / (len(as_hard) + 1)
    if plan.fixed is None and len(hard_at) >= plan.stop_at:
        p = plan.stop_at / hard_at[plan.stop_at - 1]
    n_paper = len(as_hard) if plan.fixed is not None else min(LEAST_CONTROLS, len(as_hard))
    return PValues(
        p=p if n_distinct is None else max(p, 1 / (n_distinct + 1)),
        p_paper=sum(as_hard[:n_paper]) / n_paper,
        n_paper=n_paper,
        n_controls=len(as_hard),
        count=len(hard_at),
    )


def sign_flip_p(differences: Numbers) -> float:
    """Return the two-sided p-value of "paired differences are symmetric about 0", by their sum.

    Over all 2^m patterns of signs where they are few, else (1 + c) / (1 + FLIPS) with c the drawn
    patterns that are at least as extreme.

    Args:
        differences: one a unit, shape (m,).

    >>> sign_flip_p(np.ones(5))
    0.0625

    References:
        Phipson and Smyth, "Permutation p-values should never be zero", 2010.
    """
    moved = differences[differences != 0]
    m, observed = moved.shape[0], abs(float(moved.sum())) - _FLIP_TOLERANCE
    if m == 0:
        return 1.0
    if 2**m <= FLIPS:
        signs = 1 - 2 * ((np.arange(2**m)[:, None] >> np.arange(m)) & 1)
        return float((np.abs(signs @ moved) >= observed).mean())
    rng = np.random.default_rng(_FLIP_SEED)
    signs = 1 - 2 * rng.integers(0, 2, size=(FLIPS, m), dtype=np.int8)
    return float((1 + (np.abs(signs @ moved) >= observed).sum()) / (FLIPS + 1))
