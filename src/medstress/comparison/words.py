"""A comparison in sentences."""

from __future__ import annotations

from medstress.comparison.factors import OF_ATTACKS
from medstress.comparison.rows import Row
from medstress.comparison.verdicts import NOTHING
from medstress.results.formats import decimal, plural, probability
from medstress.stats.estimates import Estimate
from medstress.stats.verdicts import (
    BETTER,
    DIFFERENT_BUT_WITHIN,
    EQUIVALENT,
    NO_WORSE,
    UNDECIDED,
    WORSE,
)


def sentence_of(row: Row, factor: str, margin: float | None) -> str:
    """Return a row in words: what is shown of B, by which numbers, and what n could have seen."""
    if row.verdict == NOTHING:
        return f"nothing to compare: no pair has {row.label}"
    told = _shown(row, factor, margin)
    p = "" if row.p is None else f", p = {probability(row.p_adjusted)}".replace("= <", "<")
    a, b = (decimal(each.value) for each in row.values)
    found = (
        f"{told}: {row.label} {b} in B, {a} in A, difference {_with_interval(row.difference)}{p}; "
        f"{_pairs(row)}"
    )
    return f"{found}. {_limit(row)}" if row.verdict in (UNDECIDED, NO_WORSE, EQUIVALENT) else found


def _shown(row: Row, factor: str, margin: float | None) -> str:
    under = "the victim is" if factor in OF_ATTACKS else "B is"
    over = "under B than under A" if factor in OF_ATTACKS else "than A"
    within = "" if margin is None else f" of {decimal(margin)}"
    if row.verdict in (BETTER, WORSE):
        return f"{under} {row.verdict} {over}"
    if row.verdict == DIFFERENT_BUT_WITHIN:
        side = "better" if any(BETTER in claim for claim in row.claims) else "worse"
        return f"{under} {side} {over}, but by less than the margin{within}"
    if row.verdict == EQUIVALENT:
        return f"equivalent within the margin{within}"
    if row.verdict == NO_WORSE:
        return f"{under} no worse {over} by the margin{within}"
    return "undecided"


def _with_interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return decimal(estimate.value)
    ends = f"[{decimal(estimate.low)}, {decimal(estimate.high)}]"
    return f"{decimal(estimate.value)} {ends}"


def _pairs(row: Row) -> str:
    n = plural(row.n_items, "item")
    pairs = len(row.pairs)
    told = n if pairs == row.n_items else f"{pairs:,} pairs of {n}"
    return f"{told}, {row.n_lost:,} of them open because a call failed" if row.n_lost else told


def _limit(row: Row) -> str:
    if row.smallest_effect is None:
        return "So few items can find no difference with 80 % power"
    return (
        f"The smallest difference that this many find with 80 % power is "
        f"{decimal(row.smallest_effect)}"
    )
