"""A comparison in sentences."""

from __future__ import annotations

from medstress.comparison.contrasts import ASR_NET
from medstress.comparison.factors import NAMES, OF_ATTACKS
from medstress.comparison.rows import Row
from medstress.comparison.verdicts import LEVEL, NOTHING
from medstress.metrics.old_stats.estimates import Estimate
from medstress.metrics.old_stats.power import LEAST_DISCORDANCE
from medstress.metrics.old_stats.verdicts import (
    BETTER,
    DIFFERENT_BUT_WITHIN,
    EQUIVALENT,
    NO_WORSE,
    UNDECIDED,
    WORSE,
)
from medstress.results.formats import decimal, plural, probability


def sentence_of(row: Row, factor: str, margin: float | None) -> str:
    """Return a row in words: what is shown of B, by which numbers, and what n could have seen."""
    if row.verdict == NOTHING:
        return f"nothing to compare: no pair has {row.label}"
    told = _shown(row, factor, margin)
    if factor == NAMES and row.metric != ASR_NET and row.decides:
        told += _of_lists(row)
    a, b = (decimal(each.value) for each in row.values)
    difference = f"difference {_with_interval(row.difference)}{_p(row)}"
    found = f"{told}: {row.label} {b} in B, {a} in A, {difference}; {_pairs(row)}"
    return f"{found}. {_limit(row)}" if row.verdict in (UNDECIDED, NO_WORSE, EQUIVALENT) else found


def _p(row: Row) -> str:
    if row.p is None:
        return ""
    told = f", p = {probability(row.p_adjusted)}".replace("= <", "<")
    is_small = row.p_adjusted is not None and row.p_adjusted < LEVEL
    if row.verdict == UNDECIDED and row.n_lost and is_small:
        return f"{told} as read, but failed answers leave it open"
    return told


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
    return "undecided" if row.why_open is None else f"undecided: {row.why_open}"


def _of_lists(row: Row) -> str:
    """Return what is said where the names themselves are what differs."""
    if row.names is None:
        return f" with these names (no interval over names: {row.names_reason})"
    decides = "the interval for names like these decides about lists like these"
    if row.names_verdict == UNDECIDED:
        return f" with these names, for names like these undecided ({decides})"
    return f" with these names, and {row.names_verdict} for names like these ({decides})"


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
        f"{decimal(row.smallest_effect)} ({_at(row, row.smallest_effect)})"
    )


def _at(row: Row, effect: float) -> str:
    """Return the discordance that the smallest difference rests on."""
    what = "mean squared difference" if row.metric == ASR_NET else "discordance"
    seen = row.discordance or 0.0
    if effect > max(seen, LEAST_DISCORDANCE) and row.metric != ASR_NET:
        return f"at a discordance of {decimal(effect)}, the least that allows it"
    if seen >= LEAST_DISCORDANCE:
        return f"at the {what} that was seen, {decimal(seen)}"
    return (
        f"at a {what} of {decimal(LEAST_DISCORDANCE)}, assumed as in the dry run: "
        f"{decimal(seen)} was seen"
    )
