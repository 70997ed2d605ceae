"""Compute p-values of one observation against controls drawn under a null hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LEAST = 30
"""Number of controls in the paper; `p_paper` and `p_plus1` of an adaptive test use the first 30."""
MOST = 999
"""The most controls that an adaptive test draws."""
TOLERANCE = 1e-9
"""Statistics that differ by no more than this are ties."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlan:
    """How many controls a test draws."""

    fixed: int | None = None
    """Fixed number of controls; None for an adaptive number up to `limit`."""
    stop_at: int = 10
    """Adaptive: stop once this many controls are at least as hard."""
    limit: int = MOST
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
        """Return True if the controls drawn so far are enough.

        >>> ControlPlan(stop_at=2).is_done([True, False])
        False
        >>> ControlPlan(stop_at=2).is_done([True, True])
        True
        """
        if len(as_hard) >= self.most:
            return True
        return self.fixed is None and sum(as_hard) >= self.stop_at


@dataclass(frozen=True, slots=True, kw_only=True)
class PValues:
    """The p-values of one observation."""

    p: float
    """For the decision: `p_plus1` for a fixed number of controls, Besag and Clifford's for an
    adaptive one; never below 1 / (distinct controls + 1)."""
    p_paper: float
    """Share of controls at least as hard, without the +1: never valid at 0; of the first
    `n_counted` controls."""
    p_plus1: float
    """(1 + count) / (n_counted + 1)."""
    n_counted: int
    """Controls behind `p_paper` and `p_plus1`: all of a fixed number, the first `LEAST` of an
    adaptive one (or all, if it stopped earlier)."""
    n_controls: int
    """Controls drawn."""
    n_as_hard: int
    """Controls at least as hard as the observation."""

    @property
    def paper_text(self) -> str:
        """`p_paper` as the paper prints it: `< 1/30` if no control was as hard.

        >>> p_values([False] * 30, ControlPlan(fixed=30)).paper_text
        '< 1/30'
        """
        return f"{self.p_paper:.3g}" if self.p_paper else f"< 1/{self.n_counted}"


def is_as_hard(control: float, observed: float) -> bool:
    """Return True if a control's statistic is no larger; ties count against significance.

    >>> is_as_hard(0.5, 0.5), is_as_hard(0.6, 0.5)
    (True, False)
    """
    return control <= observed + TOLERANCE


def p_values(as_hard: Sequence[bool], plan: ControlPlan, n_distinct: int | None = None) -> PValues:
    """Compute the p-values of one observation.

    Adaptive: controls are drawn one after the other until h = `stop_at` of them are at least as
    hard. If the h-th is the l-th control, p = h / l; if `limit` = N controls have fewer,
    p = (1 + count) / (N + 1). Controls drawn after the l-th change nothing.

    Controls with repeated texts are not new evidence: p is at least 1 / (n_distinct + 1).

    Differs from the paper: it reports count / 30, which can be 0 and then is not a p-value.

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
    n_counted = min(LEAST, len(as_hard)) if plan.fixed is None else plan.fixed
    count = sum(as_hard[:n_counted])
    plus1 = (1 + count) / (n_counted + 1)
    p = plus1 if plan.fixed is not None else _sequential(as_hard, plan.stop_at)
    least = 1 / (n_distinct + 1) if n_distinct is not None else 0.0
    return PValues(
        p=max(p, least),
        p_paper=count / n_counted,
        p_plus1=max(plus1, least),
        n_counted=n_counted,
        n_controls=len(as_hard),
        n_as_hard=sum(as_hard),
    )


def _sequential(as_hard: Sequence[bool], stop_at: int) -> float:
    count = 0
    for drawn, hard in enumerate(as_hard, start=1):
        count += hard
        if count == stop_at:
            return stop_at / drawn
    return (1 + count) / (len(as_hard) + 1)
