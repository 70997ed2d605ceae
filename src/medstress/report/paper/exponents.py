"""Which n of PDWS, and learning rate of DiscreteZOO, a table reports, and on which items."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from medstress.metrics.counts import is_answered
from medstress.metrics.estimates import Estimate, read_share
from medstress.metrics.success import asr_at
from medstress.metrics.tuning import split_position
from medstress.report.paper.arms import Arm
from medstress.rows import TrialRow

SHARE = 0.2
"""Share of the items on which n is chosen."""
EXPONENT, LEARNING_RATE = "n", "learning_rate"
"""Parameters that are chosen among several arms of one method."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The exponent of one regime, or the learning rate of DiscreteZOO, and its success."""

    n: float
    """The value."""
    tried: tuple[float, ...]
    """All values there are, ascending."""
    rule: str
    """`given` (there was one), `tuned` (on other items), or `same items` (optimistic)."""
    estimate: Estimate
    """Success on the items that are reported."""
    tuning: Estimate | None
    """Success of n on the items it was chosen on; None where there was no choice."""
    key: str = EXPONENT
    """Which parameter it is."""


def searches_of(arms: Iterable[Arm]) -> list[list[Arm]]:
    """DiscreteZOO's arms: those that differ in the learning rate alone stand together."""
    found: dict[str, list[Arm]] = defaultdict(list)
    for arm in arms:
        if arm.method == "discrete_zoo":
            others = {key: value for key, value in arm.spec.items() if key != LEARNING_RATE}
            same = LEARNING_RATE in arm.spec
            found[json.dumps(others, sort_keys=True) if same else arm.attack].append(arm)
    return list(found.values())


def has_rate(arm: Arm) -> bool:
    """Whether an arm has a learning rate that matters: answers alone give no gradient."""
    return LEARNING_RATE in arm.spec and arm.spec.get("answers") != "hard"


def tuning_items(rows: Iterable[TrialRow], share: float = SHARE) -> frozenset[str]:
    """Draw the items on which n is chosen: a share of those answered at baseline.

    Drawn by a hash of the item, so that they are the same for every arm, seed and order.

    Args:
        rows: trials; every distinct item that was answered counts once.
        share: of the items, rounded to the nearest number; at least 1 of 2 and more.

    Returns:
        Hashes of items.
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
    """Choose the exponent with the greatest success, and say how it does.

    By default n is chosen on one part of the items and reported on the others. With
    `as_published` both happen on the same items, as in the paper's tables: the maximum over a
    grid is optimistic. Ties go to the exponent nearest to 0, which is random sampling.

    Args:
        rows: trials of PDWS with one or more exponents, of one place and regime; or of
            DiscreteZOO with one or more learning rates.
        share: of the items to choose on.
        budget: success within so many queries.
        choices: `default` or `as_published`.
        split: hashes of the items to choose on; default: `tuning_items(rows, share)`.
        key: the parameter that is chosen: `EXPONENT` or `LEARNING_RATE`.

    Returns:
        The choice; None without rows. A single exponent is no choice and keeps all items.

    References:
        Xian et al., TMLR 2025, section 4.3: grid search over n in [-50, 50].
    """
    by_n: dict[float, list[TrialRow]] = defaultdict(list)
    for row in rows:
        by_n[float(json.loads(row.attack_spec)[key])].append(row)
    if not by_n:
        return None
    tried = tuple(sorted(by_n))
    chosen_on = tuning_items(rows, share) if split is None else split
    same_items = len(tried) == 1 or choices == "as_published"
    on = {
        n: _asr([r for r in by_n[n] if same_items or r.item_hash in chosen_on], budget)
        for n in tried
    }
    n = _best(on)
    tuning, rule, estimate = on[n], "same items", on[n]
    if len(tried) == 1:
        return Choice(n=n, tried=tried, rule="given", estimate=estimate, tuning=None, key=key)
    if not same_items:
        rest = [row for row in by_n[n] if row.item_hash not in chosen_on]
        rule, estimate = "tuned", _asr(rest, budget)
    return Choice(n=n, tried=tried, rule=rule, estimate=estimate, tuning=tuning, key=key)


def _asr(rows: Sequence[TrialRow], budget: int) -> Estimate:
    return read_share(asr_at(rows, budget)[-1])


def _best(found: dict[float, Estimate]) -> float:
    return min(found, key=lambda n: (-(found[n].value or 0.0), abs(n), n))
