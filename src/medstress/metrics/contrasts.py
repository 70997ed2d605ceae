"""Compare two ways to attack the same items: differences in success, diversity and similarity."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from medstress.core.rows import TrialRow
from medstress.metrics.bounds import is_open, possibly_flipped, settled, surely_flipped
from medstress.metrics.counts import (
    flipped_within,
    is_eligible,
    is_flipped,
    seed_order,
    success_name,
    unit_of,
)
from medstress.metrics.diversity import gini_simpson
from medstress.metrics.old_stats.estimates import Estimate, unknown
from medstress.metrics.old_stats.paired import Difference, unite
from medstress.metrics.old_stats.resampling import (
    RESAMPLES,
    bootstrapped,
    item_weights,
    resampled_ratio,
    resampled_sums,
)
from medstress.metrics.old_stats.shares import rate
from medstress.metrics.pairs import pair_trials

LEAST = 10
"""The fewest items, or successes per side, for which an interval is given."""

Side: TypeAlias = Sequence[Sequence[TrialRow]]
"""Trials of one attack or more; a side's value is the mean over its attacks."""

Score: TypeAlias = Callable[[TrialRow], float]
Rule: TypeAlias = Callable[[TrialRow, int], bool]
"""(trial, budget) -> whether the trial counts as a success within the budget."""

WORST = "unreadable and failed answers at their worst"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """An effect that a claim is judged by."""

    estimate: Estimate
    """The effect; if it has no value, its method says why."""
    p: float | None = None
    """Two-sided p-value of no effect, if there is a test."""


def success_difference(first: Side, second: Side, budget: int) -> Effect:
    """Estimate ASR of one side minus that of another, on the same items, with Tango's interval.

    Every attack of one side is paired with every attack of the other. Unreadable and failed
    answers count at their worst: the lower end holds even if none of the first side's and all of
    the second's were successes, the upper end for the opposite, and p is the largest of the three.

    Args:
        first: attacks of the first side.
        second: attacks of the second; only items eligible under every attack of both count.
        budget: queries per item within which success counts.
    """
    shared = set(_shared_items(first, second))
    if len(shared) < LEAST:
        return Effect(estimate=_too_few_items(len(shared)))
    sides = [[[r for r in trials if r.item_id in shared] for trials in s] for s in (first, second)]

    hit = partial(flipped_within, budget=budget)

    def compared(first: Side, second: Side) -> Difference:
        every = ((one, other) for one in first for other in second)
        return unite([pair for one, other in every for pair in pair_trials(one, other, hit, hit)])

    observed = compared(*sides)
    rows = [row for side in sides for trials in side for row in trials]
    if not any(is_open(row, budget) for row in rows) or observed.p is None:
        return Effect(estimate=observed.estimate, p=observed.p)
    least, most = (compared(*_extreme(*sides, for_first=for_first)) for for_first in (False, True))
    method = f"{observed.estimate.method}, {WORST}"
    low, high = least.estimate.low, most.estimate.high
    ends = replace(observed.estimate, low=low, high=high, method=method)
    # If open answers can reverse the sign, there is no evidence of a difference.
    is_reversible = (least.estimate.value or 0.0) <= 0 <= (most.estimate.value or 0.0)
    p = max(each.p or 0.0 for each in (observed, least, most))
    return Effect(estimate=ends, p=1.0 if is_reversible else p)


def _extreme(first: Side, second: Side, *, for_first: bool) -> tuple[Side, Side]:
    """Return both sides with open answers as successes of one side and failures of the other."""
    return (
        [settled(trials, hits=for_first) for trials in first],
        [settled(trials, hits=not for_first) for trials in second],
    )


def at_worst(effect: Callable[[Side, Side], Estimate], first: Side, second: Side) -> Estimate:
    """Estimate an effect of two sides that holds whatever unreadable and missing answers were.

    This assumes that the effect is extreme if all open answers favour one side.

    Args:
        effect: computes the effect of two sides.
        first: attacks of one side.
        second: attacks of the other.

    Returns:
        The effect with the hull of its three intervals; unknown if one of the three is.
    """
    observed = effect(first, second)
    if not any(is_open(row, 1) for side in (first, second) for trials in side for row in trials):
        return observed
    extremes = (effect(*_extreme(first, second, for_first=one)) for one in (False, True))
    return hull(observed, *extremes)


def hull(observed: Estimate, *extremes: Estimate) -> Estimate:
    """Return an effect with the hull of its interval and the extremes'; unknown if one of them is.

    If none has an interval, it goes from the least to the largest value.
    """
    for each in (observed, *extremes):
        if each.value is None:
            return unknown(f"{each.method} ({WORST})", each.n)
    method = f"{observed.method}, {WORST}"
    ends = [(each.low, each.high) for each in (observed, *extremes)]
    if all(low is None for low, _ in ends):
        values = [each.value for each in (observed, *extremes) if each.value is not None]
        return replace(observed, low=min(values), high=max(values), method=method)
    known = [(low, high) for low, high in ends if low is not None and high is not None]
    if len(known) < len(ends):
        return replace(observed, low=None, high=None, method=method)
    lows, highs = zip(*known, strict=True)
    return replace(observed, low=min(lows), high=max(highs), method=method)


def success_gain(side: Side, budget: int) -> Effect:
    """Estimate ASR within a budget minus ASR of one query, which is a share of the same trials.

    Unreadable and failed answers count at their worst, as in `success_difference`.
    """
    shared = set(_shared_items(side, side))
    if len(shared) < LEAST:
        return Effect(estimate=_too_few_items(len(shared)))
    rows = [r for trials in side for r in trials if r.item_id in shared and is_eligible(r)]

    def gained(late: Rule, early: Rule) -> Estimate:
        return rate((unit_of(row), late(row, budget) and not early(row, 1)) for row in rows)

    found = gained(flipped_within, flipped_within)
    if not any(is_open(row, 1) for row in rows):
        return Effect(estimate=found)
    least = gained(surely_flipped, possibly_flipped)
    most = gained(possibly_flipped, surely_flipped)
    method = f"{found.method}, {WORST}"
    return Effect(estimate=replace(found, low=least.low, high=most.high, method=method))


def within(budget: int) -> Score:
    """Return a score: 1 if the first success came within `budget` queries, else 0."""

    def score(row: TrialRow) -> float:
        return float(flipped_within(row, budget))

    return score


def side_means(side: Side, score: Score) -> dict[str, float]:
    """Return the mean score, over trials then attacks, of items eligible under all attacks."""
    by_attack = []
    for trials in side:
        found: dict[str, list[float]] = defaultdict(list)
        for row in trials:
            if is_eligible(row):
                found[row.item_id].append(score(row))
        by_attack.append({item: fmean(values) for item, values in found.items()})
    shared = set.intersection(*(set(found) for found in by_attack)) if by_attack else set()
    return {item: fmean(found[item] for found in by_attack) for item in sorted(shared)}


def diversity_difference(first: Side, second: Side, budget: int) -> Effect:
    """Estimate the difference of diversity: the unbiased Gini-Simpson index, mean over attacks.

    The index is taken within each seed and averaged: for n < 0 the seeds of one item insert the
    same names, which would look like reuse between items if pooled. The same items are drawn for
    both sides. A resample repeats items, so its index is too low; the interval is shifted by the
    difference of the estimate and the mean of the resamples, as in `name_diversity`.

    Args:
        first: attacks of the first side.
        second: attacks of the second.
        budget: queries per item within which a first success counts.
    """
    items = _shared_items(first, second)
    sides = [[_names_by_seed(trials, items, budget) for trials in side] for side in (first, second)]
    counts = [int(sum(seed.sum() for arm in arms for seed in arm)) for arms in sides]
    if (lack := _lack(len(items), counts)) is not None:
        return Effect(estimate=lack)
    if not all(arm for arms in sides for arm in arms):
        return Effect(estimate=unknown("an attack has fewer than 2 successes", sum(counts)))
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = [
            np.mean([_mean_index([resampled_sums(seed) for seed in arm]) for arm in arms], axis=0)
            for arms in sides
        ]
    observed = [
        fmean(float(_mean_index([seed.sum(axis=0) for seed in arm])) for arm in arms)
        for arms in sides
    ]
    return _difference(observed, drawn, sum(counts), len(items), recentred=True)


def similarity_difference(first: Side, second: Side, budget: int) -> Effect:
    """Estimate the difference of prompt similarity over successes, mean over attacks.

    Args:
        first: attacks of the first side.
        second: attacks of the second; the same items are drawn for both.
        budget: queries per item within which a first success counts.
    """
    items = _shared_items(first, second)
    sides = [[_similarities(trials, items, budget) for trials in side] for side in (first, second)]
    counts = [int(sum(arm[1].sum() for arm in arms)) for arms in sides]
    if (lack := _lack(len(items), counts)) is not None:
        return Effect(estimate=lack)
    if any(not arm[1].any() for arms in sides for arm in arms):
        return Effect(estimate=unknown("an attack has no success", sum(counts)))
    observed = [fmean(float(arm[0].sum() / arm[1].sum()) for arm in arms) for arms in sides]
    drawn = [np.mean([resampled_ratio(*arm) for arm in arms], axis=0) for arms in sides]
    return _difference(observed, drawn, sum(counts), len(items), recentred=False)


def length_correlation(trials: Sequence[TrialRow]) -> Effect:
    """Estimate Spearman's correlation of a prompt's length in words and its similarity.

    It uses successes whose prompts were embedded. Ties share their mean rank; whole items are
    drawn, and every resample is ranked anew.
    """
    rows = [
        row
        for row in trials
        if is_flipped(row) and row.prompt_similarity is not None and row.listing_before
    ]
    items = sorted({row.item_id for row in rows})
    if len(items) < LEAST:
        return Effect(estimate=_too_few_items(len(items), "with an embedded success"))
    place = {item: i for i, item in enumerate(items)}
    lengths = np.array([len((row.listing_before or "").split()) for row in rows])
    values = np.array([row.prompt_similarity for row in rows], dtype=np.float64)
    columns = np.array([place[row.item_id] for row in rows])
    observed = float(_spearman(lengths, values, np.ones((1, len(rows))))[0])
    if not np.isfinite(observed):
        return Effect(estimate=unknown("lengths or similarities are all the same", len(rows)))
    weights = item_weights(len(items))
    blocks = (weights[i : i + 100][:, columns] for i in range(0, RESAMPLES, 100))
    drawn = np.concatenate([_spearman(lengths, values, each.astype(float)) for each in blocks])
    method = f"Spearman's rank correlation; {_clusters(len(items))}"
    return Effect(estimate=bootstrapped(observed, drawn, len(rows), method))


def _spearman(
    x: NDArray[np.int64], y: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the rank correlation; every row of `weights` says how often each pair occurs."""
    n = weights.sum(axis=1, keepdims=True)
    centred = [_ranks(values, weights) - (n + 1) / 2 for values in (x, y)]
    covariance, first, second = (
        (weights * a * b).sum(axis=1)
        for a, b in (centred, (centred[0], centred[0]), (centred[1], centred[1]))
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        found: NDArray[np.float64] = covariance / np.sqrt(first * second)
    return found


def _ranks(
    values: NDArray[np.int64] | NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return mean ranks of values that occur `weights` times, shape of `weights`."""
    _, kinds = np.unique(values, return_inverse=True)
    cells = (np.ones(len(values)), (np.arange(len(values)), kinds))
    by_kind = weights @ csr_array(cells, shape=(len(values), int(kinds.max()) + 1))
    ranks: NDArray[np.float64] = by_kind.cumsum(axis=1) - (by_kind - 1) / 2
    return ranks[:, kinds]


def _shared_items(first: Side, second: Side) -> list[str]:
    """Return the items eligible under every attack of both sides, sorted."""
    met = [{row.item_id for row in t if is_eligible(row)} for side in (first, second) for t in side]
    return sorted(set.intersection(*met)) if met else []


def _mean_index(seeds: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Average the index over seeds, given counts of names `(..., n_names)`."""
    found: NDArray[np.float64] = np.mean([gini_simpson(s, unbiased=True) for s in seeds], axis=0)
    return found


def _names_by_seed(
    trials: Sequence[TrialRow], items: Sequence[str], budget: int
) -> list[csr_array]:
    """Return the names of every seed (and repeat) with two or more successes."""
    seeds: dict[tuple[bool, int, int], list[TrialRow]] = defaultdict(list)
    for row in trials:
        seeds[(*seed_order(row.seed), row.repeat)].append(row)
    found = [_names(seeds[key], items, budget) for key in sorted(seeds)]
    return [names for names in found if names.sum() >= 2]


def _names(trials: Sequence[TrialRow], items: Sequence[str], budget: int) -> csr_array:
    """Count how often each name was the first success, shape (n_items, n_names)."""
    place, hit = {item: i for i, item in enumerate(items)}, within(budget)
    found = [
        (place[row.item_id], name)
        for row in trials
        if row.item_id in place and hit(row) and (name := success_name(row)) is not None
    ]
    columns = {name: j for j, name in enumerate(sorted({name for _, name in found}))}
    cells = ([i for i, _ in found], [columns[name] for _, name in found])
    return csr_array((np.ones(len(found)), cells), shape=(len(items), max(len(columns), 1)))


def _similarities(
    trials: Sequence[TrialRow], items: Sequence[str], budget: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sum of similarities and the number of successes, item by item."""
    place, hit = {item: i for i, item in enumerate(items)}, within(budget)
    totals, counts = np.zeros(len(items)), np.zeros(len(items))
    for row in trials:
        if row.item_id in place and hit(row) and row.prompt_similarity is not None:
            totals[place[row.item_id]] += row.prompt_similarity
            counts[place[row.item_id]] += 1
    return totals, counts


def _difference(
    observed: Sequence[float],
    drawn: Sequence[NDArray[np.float64]],
    n: int,
    m: int,
    *,
    recentred: bool,
) -> Effect:
    value, again = observed[0] - observed[1], drawn[0] - drawn[1]
    how = "recentred percentile" if recentred else "percentile"
    method = f"difference of means over attacks, paired; {_clusters(m, how)}"
    found = bootstrapped(value, again, n, method)
    if recentred and found.low is not None and found.high is not None:
        shift = value - float(again[np.isfinite(again)].mean())
        low, high = max(found.low + shift, -1.0), min(found.high + shift, 1.0)
        found = replace(found, low=low, high=high)
    return Effect(estimate=found)


def _clusters(m: int, how: str = "percentile") -> str:
    return f"cluster bootstrap over {m} items, {RESAMPLES} resamples, {how} 95 %"


def _too_few_items(m: int, which: str = "in common") -> Estimate:
    return unknown(f"needs {LEAST} items {which}, has {m}", m)


def _lack(m: int, counts: Sequence[int]) -> Estimate | None:
    if m < LEAST:
        return _too_few_items(m)
    if min(counts) < LEAST:
        text = f"needs {LEAST} successes a side, has {counts[0]} and {counts[1]}"
        return unknown(text, sum(counts))
    return None
