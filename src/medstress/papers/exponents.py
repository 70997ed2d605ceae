"""Choose the n of PDWS and the learning rate of DiscreteZOO that a table reports."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from medstress.core.rows import TrialRow
from medstress.metrics.counts import is_answered
from medstress.metrics.old_stats.estimates import Estimate, read_share
from medstress.metrics.success import asr_at
from medstress.papers.arms import Arm
from medstress.tuning.choice import split_position

SHARE = 0.2
"""Share of the items that are used for tuning."""
EXPONENT, LEARNING_RATE = "n", "learning_rate"
"""Parameters that are tuned over several arms of one method."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The chosen exponent of one regime, or learning rate of DiscreteZOO, and its success."""

    value: float
    """The chosen value."""
    tried: tuple[float, ...]
    """All values in the run, ascending."""
    rule: str
    """`given` (a single value), `tuned` (on other items), or `same items` (optimistic)."""
    estimate: Estimate
    """Success on the items that are reported."""
    tuning: Estimate | None
    """Success on the tuning items; None if there was only one value."""
    key: str = EXPONENT
    """Name of the parameter: `EXPONENT` or `LEARNING_RATE`."""


def zoo_searches(arms: Iterable[Arm]) -> list[list[Arm]]:
    """Group DiscreteZOO's arms; arms that differ only in the learning rate form one group."""
    groups: dict[str, list[Arm]] = defaultdict(list)
    for arm in arms:
        if arm.method == "discrete_zoo":
            others = {key: value for key, value in arm.spec.items() if key != LEARNING_RATE}
            key = json.dumps(others, sort_keys=True) if LEARNING_RATE in arm.spec else arm.attack
            groups[key].append(arm)
    return list(groups.values())


def has_learning_rate(arm: Arm) -> bool:
    """Return True if the arm's learning rate matters; hard answers give no gradient."""
    return LEARNING_RATE in arm.spec and arm.spec.get("answers") != "hard"


def tuning_items(rows: Iterable[TrialRow], share: float = SHARE) -> frozenset[str]:
    """Draw the tuning items: a share of the items answered at baseline.

    They are drawn by a hash of the item, so they are the same for every arm, seed and order.

    Args:
        rows: trials; every distinct answered item counts once.
        share: share of the items, rounded to the nearest number; at least one item of two.

    Returns:
        Hashes of the items.
    """
    items = {row.item_hash for row in rows if is_answered(row)}
    ranked = sorted(items, key=lambda item: split_position([item]))
    n = max(1, round(share * len(ranked))) if len(ranked) > 1 else 0
    return frozenset(ranked[:n])


def best_exponent(
    rows: Sequence[TrialRow],
    share: float = SHARE,
    *,
    budget: int = 1,
    choices: str = "default",
    split: Collection[str] | None = None,
    key: str = EXPONENT,
) -> Choice | None:
    """Choose the exponent with the greatest success, and report its success.

    By default n is chosen on the tuning items and reported on the others. With `as_published`
    both happen on the same items, as in the paper's tables; the maximum over a grid is
    optimistic. Ties go to the exponent nearest to 0, which is random sampling.

    Args:
        rows: trials of PDWS with one or more exponents, of one place and regime; or of
            DiscreteZOO with one or more learning rates.
        share: share of tuning items.
        budget: queries per item within which success counts.
        choices: `default` or `as_published`.
        split: hashes of the tuning items; default: `tuning_items(rows, share)`.
        key: the parameter to choose: `EXPONENT` or `LEARNING_RATE`.

    Returns:
        The choice; None without rows. A single exponent needs no tuning and keeps all items.

    References:
        Xian et al., TMLR 2025, section 4.3: grid search over n in [-50, 50].
    """
    by_n: dict[float, list[TrialRow]] = defaultdict(list)
    for row in rows:
        by_n[float(json.loads(row.attack_spec)[key])].append(row)
    if not by_n:
        return None
    tried = tuple(sorted(by_n))
    tuned_on = tuning_items(rows, share) if split is None else split
    same_items = len(tried) == 1 or choices == "as_published"
    success = {
        n: _asr([r for r in by_n[n] if same_items or r.item_hash in tuned_on], budget)
        for n in tried
    }
    n = _best(success)
    tuning, rule, estimate = success[n], "same items", success[n]
    if len(tried) == 1:
        return Choice(value=n, tried=tried, rule="given", estimate=estimate, tuning=None, key=key)
    if not same_items:
        rest = [row for row in by_n[n] if row.item_hash not in tuned_on]
        rule, estimate = "tuned", _asr(rest, budget)
    return Choice(value=n, tried=tried, rule=rule, estimate=estimate, tuning=tuning, key=key)


def _asr(rows: Sequence[TrialRow], budget: int) -> Estimate:
    return read_share(asr_at(rows, budget)[-1])


def _best(success: dict[float, Estimate]) -> float:
    return min(success, key=lambda n: (-(success[n].value or 0.0), abs(n), n))
