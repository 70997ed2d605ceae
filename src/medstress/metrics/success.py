"""How often an attack succeeds, how soon, and with what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.core.validity import VARIANT_CLASSES
from medstress.metrics.arms import EVERY_BUDGET
from medstress.metrics.counts import (
    is_eligible,
    is_flipped,
    is_never_asked,
    unit_of,
)
from medstress.metrics.old_stats.estimates import Estimate
from medstress.metrics.old_stats.shares import rate


def asr(trials: Sequence[TrialRow]) -> Estimate:
    """Estimate the attack success rate ASR = n_flipped / n_eligible.

    Trials that failed or were cut short stay in the denominator as not flipped.

    References:
        Xian et al., "Assessing biomedical knowledge robustness in large language models by
        query-efficient sampling attacks", TMLR 2025, Table 1.
    """
    return rate((unit_of(row), is_flipped(row)) for row in trials if is_eligible(row))


def asr_decided(trials: Sequence[TrialRow]) -> Estimate:
    """Estimate n_flipped / (n_flipped + n_held), over searches that came to an end."""
    decided = (Verdict.FLIPPED, Verdict.HELD)
    return rate((unit_of(row), is_flipped(row)) for row in trials if row.verdict in decided)


def asr_asked(trials: Sequence[TrialRow]) -> Estimate:
    """Estimate n_flipped / (n_eligible - n_never_asked), over trials that tried an edit."""
    return rate(
        (unit_of(row), is_flipped(row))
        for row in trials
        if is_eligible(row) and not is_never_asked(row)
    )


def asr_by_variant(trials: Sequence[TrialRow]) -> dict[str, Estimate]:
    """Split ASR by the class of the replacement at the first success.

    Each class is over n_eligible, so the five values sum to `asr`.
    """
    eligible = [row for row in trials if is_eligible(row)]
    return {
        name: rate(
            (unit_of(row), is_flipped(row) and row.variant_class == name) for row in eligible
        )
        for name in VARIANT_CLASSES
    }


def asr_at(trials: Sequence[TrialRow], budget: int) -> list[dict[str, Any]]:
    """Read the success rate at every smaller budget off one run.

    ASR(B) = #{eligible, first success <= B} / n_eligible for B = 1..`budget`. An attack's
    queries do not depend on its budget, so a run with budget 8 holds the runs with 1 to 7.
    Beyond 1,000 queries only budgets at which the rate changes are listed, and the last.

    Args:
        trials: trials of one attack.
        budget: perturbed queries per item.

    Returns:
        One estimate per budget, as JSON with `budget` first; never falling.
    """
    return _curve([(row, row.first_success if is_flipped(row) else None) for row in trials], budget)


def at_budget(points: Sequence[Mapping[str, Any]], budget: int) -> Mapping[str, Any] | None:
    """Return the estimate at a budget from the points of `asr_at`.

    Args:
        points: what `asr_at` returned.
        budget: perturbed queries per item.

    Returns:
        The last point up to this budget; None below the first and beyond the last point.

    >>> at_budget([{"budget": 1, "value": 0.0}, {"budget": 2331, "value": 0.25}], 2)["value"]
    0.0
    """
    if not points or budget > points[-1]["budget"]:
        return None
    return next((point for point in reversed(points) if point["budget"] <= budget), None)


def _curve(firsts: Sequence[tuple[TrialRow, int | None]], budget: int) -> list[dict[str, Any]]:
    """Return the share of eligible trials with a first success within 1..`budget` queries."""
    eligible = [(unit_of(row), first) for row, first in firsts if is_eligible(row)]
    steps = {first for _, first in eligible if first is not None}
    curve = []
    estimate = rate((item, False) for item, _ in eligible)
    within = {b for b in steps if b <= budget}
    shown = range(1, budget + 1) if budget <= EVERY_BUDGET else sorted({1, budget, *within})
    for b in shown:
        if b in steps:
            estimate = rate((item, first is not None and first <= b) for item, first in eligible)
        curve.append({"budget": b, **estimate.as_json()})
    return curve


def queries_to_success(trials: Sequence[TrialRow]) -> dict[str, float | None]:
    """Return the median and mean number of perturbed queries up to the first success.

    Only successes count; both are None without any.
    """
    queries = [
        row.first_success for row in trials if is_flipped(row) and row.first_success is not None
    ]
    if not queries:
        return {"median": None, "mean": None}
    return {"median": float(median(queries)), "mean": fmean(queries)}
