"""How far raters agree beyond chance: three coefficients, by libraries, with intervals.

All three are 1 - (observed disagreement) / (disagreement by chance); they differ in what chance is.
Categories have no order.

References:
    Cohen, "A coefficient of agreement for nominal scales", Educational and Psychological
    Measurement 1960.
    Fleiss, "Measuring nominal scale agreement among many raters", Psychological Bulletin 1971.
    Krippendorff, "Content analysis", 4th edition 2018, chapter 12.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from medstress.metrics.old_stats.estimates import Estimate, unknown
from medstress.metrics.old_stats.resampling import RESAMPLES, bootstrapped, resample

Ratings: TypeAlias = tuple[int, ...]
"""One case: the number of each rater's category, from 0; -1 where a rater has not judged it."""
MISSING = -1
NOT_INSTALLED = "needs the extra `review`: pip install 'medstress[review]'"

_Table: TypeAlias = NDArray[np.int64]
_Coefficient: TypeAlias = Callable[[_Table, _Table], float]
"""(categories by case and rater, how often each case is drawn) -> the coefficient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Agreement of raters about one judgement."""

    n_raters: int
    """Raters with a case that another one judged as well."""
    raw: Estimate
    """Share of pairs of ratings of one case that agree."""
    cohen: Estimate
    """Cohen's kappa; without a value unless there are two raters."""
    fleiss: Estimate
    """Fleiss' kappa over cases that all raters judged; without a value for fewer than three."""
    krippendorff: Estimate
    """Krippendorff's alpha, nominal, over cases that two or more judged."""


def agreement(ratings: Sequence[Ratings], units: Sequence[Hashable]) -> Agreement:
    """Estimate how far raters agree.

    Intervals are percentiles of the bootstrap over units (items with all their cases). A resample
    in which all ratings are alike has no coefficient and is left out.

    Args:
        ratings: one tuple a case, each with one entry a rater.
        units: the item of each case, as many.

    Returns:
        Coefficients that cannot be told have no value, and their method says why.
    """
    kept = [(row, unit) for row, unit in zip(ratings, units, strict=True) if _n_rated(row) > 1]
    used = [at for at in range(len(ratings[0]) if ratings else 0) if _judged(kept, at)]
    cases = [(tuple(row[at] for at in used), unit) for row, unit in kept]
    of_all = [(row, unit) for row, unit in cases if MISSING not in row]
    n = len(used)
    not_two = unknown(f"Cohen's kappa is of two raters, and there are {n}")
    not_three = unknown(f"Fleiss' kappa is of three raters or more, and there are {n}")
    return Agreement(
        n_raters=n,
        raw=_estimate(cases, _raw, "share of agreeing pairs", needs_two=False),
        cohen=_estimate(of_all, _cohen, "Cohen's kappa") if n == 2 else not_two,
        fleiss=_estimate(of_all, _fleiss, "Fleiss' kappa") if n > 2 else not_three,
        krippendorff=_estimate(cases, _krippendorff, "Krippendorff's alpha, nominal"),
    )


def _n_rated(row: Ratings) -> int:
    return sum(one != MISSING for one in row)


def _judged(cases: Sequence[tuple[Ratings, Hashable]], rater: int) -> bool:
    return any(row[rater] != MISSING for row, _ in cases)


def _estimate(
    cases: Sequence[tuple[Ratings, Hashable]],
    coefficient: _Coefficient,
    name: str,
    *,
    needs_two: bool = True,
) -> Estimate:
    n = len(cases)
    categories = {one for row, _ in cases for one in row} - {MISSING}
    if n == 0:
        return unknown(f"{name}: no case was judged by two raters or more")
    if needs_two and n == 1:
        return unknown(f"{name}: one case says nothing of chance", n)
    if needs_two and len(categories) == 1:
        return unknown(f"{name}: all ratings are alike, so chance alone would agree as well", n)
    kinds, drawn, n_units = _resampled(cases)
    table = np.array(kinds, dtype=np.int64)
    try:
        value = coefficient(table, _counts(cases, kinds))
        # Few cases give few different resamples; each is computed once.
        found, which = np.unique(drawn, axis=0, return_inverse=True)
        values = np.array([coefficient(table, each) for each in found])
    except ImportError:
        return unknown(NOT_INSTALLED, n)
    method = f"{name}; bootstrap over {n_units} items, {RESAMPLES} resamples, percentile 95 %"
    return bootstrapped(value, values[which.ravel()], n, method)


def _resampled(
    cases: Sequence[tuple[Ratings, Hashable]],
) -> tuple[list[Ratings], _Table, int]:
    """Return the kinds of cases, and how often each occurs in every resample of the units."""
    of_unit: dict[Hashable, list[Ratings]] = defaultdict(list)
    for row, unit in cases:
        of_unit[unit].append(row)
    looks = Counter(tuple(sorted(rows)) for rows in of_unit.values())
    units, times = resample(looks)
    kinds = sorted({row for look in units for row in look})
    of_look = np.array([[look.count(kind) for kind in kinds] for look in units])
    return kinds, times @ of_look, len(of_unit)


def _counts(cases: Sequence[tuple[Ratings, Hashable]], kinds: Sequence[Ratings]) -> _Table:
    found = Counter(row for row, _ in cases)
    return np.array([found[kind] for kind in kinds], dtype=np.int64)


def _by_category(table: _Table) -> _Table:
    """Return how many raters chose each category, one row a case."""
    return np.stack([(table == one).sum(axis=1) for one in range(table.max() + 1)], axis=1)


def _raw(table: _Table, times: _Table) -> float:
    chosen = _by_category(table)
    rated = chosen.sum(axis=1)
    pairs = float((times * rated * (rated - 1)).sum())
    agreeing = float((times[:, None] * chosen * (chosen - 1)).sum())
    return agreeing / pairs if pairs else np.nan


def _is_uniform(chosen: _Table) -> bool:
    return bool((chosen.sum(axis=0) > 0).sum() < 2)


def _cohen(table: _Table, times: _Table) -> float:
    from statsmodels.stats.inter_rater import cohens_kappa

    if _is_uniform(np.repeat(_by_category(table), times, axis=0)):
        return np.nan
    n = int(table.max()) + 1
    both = np.zeros((n, n))
    np.add.at(both, (table[:, 0], table[:, 1]), times)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(cohens_kappa(both, return_results=False))


def _fleiss(table: _Table, times: _Table) -> float:
    from statsmodels.stats.inter_rater import fleiss_kappa

    chosen = np.repeat(_by_category(table), times, axis=0)
    return np.nan if _is_uniform(chosen) else float(fleiss_kappa(chosen))


def _krippendorff(table: _Table, times: _Table) -> float:
    from krippendorff import alpha

    chosen = np.repeat(_by_category(table), times, axis=0)
    if _is_uniform(chosen):
        return np.nan
    return float(alpha(value_counts=chosen, level_of_measurement="nominal"))
