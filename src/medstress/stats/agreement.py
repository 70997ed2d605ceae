"""How far raters agree beyond chance, with an interval.

Krippendorff's alpha is 1 - (observed disagreement) / (disagreement by chance), for any number of
raters and with gaps. Categories have no order. A case is the tuple of its raters' categories; cases
that look alike are one *kind*, so that a coefficient is a formula of how often each kind was drawn,
for all resamples at once.

References:
    Krippendorff, "Content analysis", 4th edition 2018, chapter 12.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from medstress.stats.estimate import Estimate, unknown
from medstress.stats.resampling import RESAMPLES, bootstrapped, draw_kinds
from medstress.stats.shares import Numbers

Ratings: TypeAlias = tuple[int, ...]
"""One case: the number of each rater's category, from 0; `MISSING` where a rater gave none."""
MISSING = -1
_Kinds: TypeAlias = NDArray[np.int64]
"""Categories of each kind of case, shape (n_kinds, n_raters)."""
_Coefficient: TypeAlias = Callable[[_Kinds, Numbers], Numbers]
"""(kinds, how often each is drawn, shape (n, n_kinds)) -> the coefficient, shape (n,)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Agreement of raters about one judgement."""

    n_raters: int
    """Raters with a case that another one judged too."""
    raw: Estimate
    """Share of pairs of ratings of one case that agree."""
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
        Coefficients that cannot be computed have no value, and their method says why.

    >>> two = agreement([(0, 0), (0, 1), (1, 1), (1, 1)], "abcd")
    >>> two.raw.value, round(two.krippendorff.value, 3)
    (0.75, 0.533)
    """
    pairs = [
        (row, unit)
        for row, unit in zip(ratings, units, strict=True)
        if sum(one != MISSING for one in row) > 1
    ]
    used = [
        i for i, marks in enumerate(zip(*(r for r, _ in pairs), strict=True)) if max(marks) >= 0
    ]
    cases = [(tuple(row[i] for i in used), unit) for row, unit in pairs]
    return Agreement(
        n_raters=len(used),
        raw=_estimate(cases, _raw, "share of agreeing pairs", beyond_chance=False),
        krippendorff=_estimate(cases, _krippendorff, "Krippendorff's alpha, nominal"),
    )


def _estimate(
    cases: Sequence[tuple[Ratings, Hashable]],
    coefficient: _Coefficient,
    name: str,
    *,
    beyond_chance: bool = True,
) -> Estimate:
    n = len(cases)
    if n == 0:
        return unknown(f"{name}: no case was judged by two raters or more")
    if beyond_chance and n == 1:
        return unknown(f"{name}: one case says nothing of chance", n)
    if beyond_chance and len({one for row, _ in cases for one in row} - {MISSING}) == 1:
        return unknown(f"{name}: all ratings are alike, so chance alone would agree as well", n)
    of_unit: dict[Hashable, list[Ratings]] = defaultdict(list)
    for row, unit in cases:
        of_unit[unit].append(row)
    # Units with the same ratings are exchangeable: only how often each look is drawn counts.
    looks, times = draw_kinds(Counter(tuple(sorted(rows)) for rows in of_unit.values()))
    kinds = sorted({row for look in looks for row in look})
    of_look = np.array([[look.count(kind) for kind in kinds] for look in looks])
    counts = Counter(row for row, _ in cases)
    drawn = np.vstack([[counts[kind] for kind in kinds], times @ of_look]).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = coefficient(np.array(kinds, dtype=np.int64), drawn)
    method = f"{name}; bootstrap over {len(of_unit)} items, {RESAMPLES} resamples, percentile 95 %"
    return bootstrapped(float(values[0]), values[1:], n, method)


def _chosen(kinds: _Kinds) -> Numbers:
    """Return how many raters chose each category, shape (n_kinds, n_categories)."""
    by_category = [(kinds == one).sum(axis=1) for one in range(int(kinds.max()) + 1)]
    return np.stack(by_category, axis=1).astype(np.float64)


def _raw(kinds: _Kinds, times: Numbers) -> Numbers:
    chosen = _chosen(kinds)
    rated = chosen.sum(axis=1)
    agreeing = times @ (chosen * (chosen - 1)).sum(axis=1)
    return np.asarray(agreeing / (times @ (rated * (rated - 1))))


def _krippendorff(kinds: _Kinds, times: Numbers) -> Numbers:
    chosen = _chosen(kinds)
    rated = chosen.sum(axis=1, keepdims=True)
    n, totals = times @ rated[:, 0], times @ chosen
    observed = times @ (chosen * (chosen - 1) / (rated - 1)).sum(axis=1) / n
    chance = (totals * (totals - 1)).sum(axis=1) / (n * (n - 1))
    return np.where(chance < 1 - 1e-12, (observed - chance) / (1 - chance), np.nan)
