"""How far raters agree beyond chance, with an interval.

Krippendorff's alpha is 1 - (observed disagreement) / (disagreement by chance), for any number of
raters and with gaps. Categories have no order. Both are sums over cases, so a coefficient is a
formula of sums that are resampled with the units.

References:
    Krippendorff, "Content analysis", 4th edition 2018, chapter 12.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from medstress.stats.estimate import Estimate, unknown
from medstress.stats.resampling import RESAMPLES, bootstrapped, resampled_sums
from medstress.stats.shares import Numbers

Ratings: TypeAlias = tuple[int, ...]
"""One case: the number of each rater's category, from 0; `MISSING` where a rater gave none."""
MISSING = -1


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
    cases = [
        (row, unit)
        for row, unit in zip(ratings, units, strict=True)
        if sum(one != MISSING for one in row) > 1
    ]
    names = "share of agreeing pairs", "Krippendorff's alpha, nominal"
    if not cases:
        none = [unknown(f"{name}: no case was judged by two raters or more") for name in names]
        return Agreement(n_raters=0, raw=none[0], krippendorff=none[1])
    rows = np.array([row for row, _ in cases])
    places = {unit: i for i, unit in enumerate(dict.fromkeys(unit for _, unit in cases))}
    # How many raters chose each category, and so how many pairs of them agree.
    chosen = np.stack([(rows == one).sum(axis=1) for one in range(int(rows.max()) + 1)], axis=1)
    rated, agreeing = chosen.sum(axis=1), (chosen * (chosen - 1)).sum(axis=1)
    of_case = np.column_stack([agreeing, rated * (rated - 1), agreeing / (rated - 1), chosen])
    of_unit = np.zeros((len(places), of_case.shape[1]))
    np.add.at(of_unit, [places[unit] for _, unit in cases], of_case)
    drawn = np.vstack([of_unit.sum(axis=0), resampled_sums(of_unit)])
    alike, pairs, observed, totals = *drawn[:, :3].T, drawn[:, 3:]
    n = totals.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        chance = (totals * (totals - 1)).sum(axis=1) / (n * (n - 1))
        alpha = np.where(chance < 1 - 1e-12, (observed / n - chance) / (1 - chance), np.nan)

    def estimate(name: str, values: Numbers) -> Estimate:
        over = f"{name}; bootstrap over {len(places)} items, {RESAMPLES} resamples, percentile 95 %"
        return bootstrapped(float(values[0]), values[1:], len(cases), over)

    if len(cases) == 1:
        beyond = unknown(f"{names[1]}: one case says nothing of chance", 1)
    elif np.isnan(alpha[0]):
        why = "all ratings are alike, so chance alone would agree as well"
        beyond = unknown(f"{names[1]}: {why}", len(cases))
    else:
        beyond = estimate(names[1], alpha)
    n_raters = int((rows != MISSING).any(axis=0).sum())
    return Agreement(n_raters=n_raters, raw=estimate(names[0], alike / pairs), krippendorff=beyond)
