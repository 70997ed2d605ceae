"""Query-scaling curves: where they level off, and where two cross or differ most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medstress.core.rows import TrialRow
from medstress.metrics.arms import Arms, Hits, Place, hits, items_of, place_fields
from medstress.metrics.curves.plateau import bend, plateau, slopes
from medstress.metrics.old_stats.estimates import Estimate, unknown, wilson_ends
from medstress.metrics.old_stats.resampling import RESAMPLES, around, bootstrapped, resampled_ratio


def inflection(arm: Hits) -> dict[str, Any]:
    """Estimate from which budget on a scaling curve levels off (see `plateau`).

    Returns:
        `inflection`, that budget with a bootstrap interval over items, and the same as
        `recommended_budget`; the slopes per unit of ln(budget) before and after it and their
        difference, in the resamples at the same budget. None has a value if there is no plateau
        beyond chance.
    """
    n = int(arm.counts.sum())
    names = ("inflection", "slope_before", "slope_after", "slope_change")
    found = plateau(arm.successes)
    if isinstance(found, Estimate):
        empty = unknown(found.method, n).as_json()
        return {**dict.fromkeys(names, empty), "recommended_budget": None}
    curve = arm.successes.sum(axis=0) / n
    drawn = resampled_ratio(arm.successes, arm.counts)
    drawn = drawn[np.isfinite(drawn).all(axis=1)]
    bends = bend(drawn)
    before, after = slopes(curve, found)
    again = slopes(drawn, found)
    values: dict[str, tuple[Any, NDArray[np.float64]]] = {
        "inflection": (found, bends[bends > 1]),
        "slope_before": (before, again[0]),
        "slope_after": (after, again[1]),
        "slope_change": (after - before, again[1] - again[0]),
    }
    method = f"farthest above the chord over ln(budget); {_bootstrap(arm)}"
    estimates = {name: _estimate(*values[name], n, method).as_json() for name in names}
    return {**estimates, "recommended_budget": found}


def crossing(difference: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the budget from which the trailing method leads for good; nan if none overtakes.

    Args:
        difference: difference of two curves at budgets 1..B, shape (..., B).

    Returns:
        The first budget of the last run of one sign (zeros allowed), if an earlier budget has the
        other sign; shape (...).

    >>> float(crossing(np.array([0.2, 0.1, 0.0, -0.1, -0.2])))
    4.0
    >>> float(crossing(np.array([0.2, 0.1, 0.0])))
    nan
    """
    sign = _sign(difference)
    last = _last_sign(difference)[..., None]
    opposed = sign[..., ::-1] == -last
    opposed &= last != 0
    # Seen from the end, the last run stops at the first opposite sign.
    start = difference.shape[-1] - _first(opposed)
    crosses = opposed.any(axis=-1)
    budgets = np.arange(1, difference.shape[-1] + 1)
    within = (sign == last) & (budgets > start[..., None])
    return np.where(crosses, _first(within) + 1.0, np.nan)


def compare_curves(
    first: Hits,
    second: Hits,
    known: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
) -> dict[str, Any]:
    """Compare two methods over the items that both met.

    Args:
        first: successes of one method.
        second: successes of another, with rows for the same items.
        known: the resampled curves of both, if available; used if both met the same items.

    Returns:
        `crossover` with `crossing_share` (of the resamples in which the same method overtakes),
        `gap`, the largest difference of success rates (first minus second) with a simultaneous
        interval that allows for its being the largest, and `gap_budget`, the budget of the gap.
    """
    both = (first.counts > 0) & (second.counts > 0)
    n = int(both.sum())
    budget = min(first.budget, second.budget)
    names = ("crossover", "gap", "gap_budget")
    head = {"budget": budget, "n_items": n}
    if n == 0:
        empty = unknown("no item in common").as_json()
        return {**head, **dict.fromkeys(names, empty), "crossing_share": None, "leads_after": None}
    observed, drawn = np.zeros(budget), np.zeros((RESAMPLES, budget))
    same = bool(((first.counts > 0) == (second.counts > 0)).all())
    for i, (arm, sign) in enumerate(((first, 1), (second, -1))):
        above, below = arm.successes[both, :budget], arm.counts[both]
        observed += sign * above.sum(axis=0) / below.sum()
        if same and known is not None:
            drawn += sign * known[i][:, :budget]
        else:
            drawn += sign * resampled_ratio(above, below)
    drawn = drawn[np.isfinite(drawn).all(axis=1)]
    return {**head, **_crossover(observed, drawn, n), **_gap(observed, drawn, n)}


def _crossover(observed: NDArray[np.float64], drawn: NDArray[np.float64], n: int) -> dict[str, Any]:
    value, again = float(crossing(observed)), crossing(drawn)
    if np.isnan(value):
        share = float(np.isfinite(again).mean())
        none = unknown("neither overtakes the other for good within the budget", n)
        return {"crossover": none.as_json(), "crossing_share": share, "leads_after": None}
    # A resample agrees if the same method leads in the end.
    leader = _last_sign(observed)
    same = np.isfinite(again) & (_last_sign(drawn) == leader)
    method = f"bootstrap over {n} items, paired; of the resamples that cross the same way"
    return {
        "crossover": around(bootstrapped(value, again[same], n, method)).as_json(),
        "crossing_share": float(same.mean()),
        "leads_after": "attack" if leader > 0 else "against",
    }


def _gap(observed: NDArray[np.float64], drawn: NDArray[np.float64], n: int) -> dict[str, Any]:
    at = int(np.argmax(np.abs(observed)))
    value = float(observed[at])
    # The largest of many differences is biased upwards; a band over all budgets still covers it.
    band = float(np.quantile(np.abs(drawn - observed).max(axis=1), 0.95))
    if band == 0:  # all items look alike, so use the Wilson end for 0 of n
        band = wilson_ends(0, n)[1]
    gap = Estimate(
        value=value,
        n=n,
        low=max(value - band, -1.0),
        high=min(value + band, 1.0),
        method=f"simultaneous 95 % band over budgets; bootstrap over {n} items, paired",
    )
    places = np.abs(drawn).argmax(axis=1) + 1.0
    where = _estimate(np.float64(at + 1), places, n, f"bootstrap over {n} items, paired")
    return {"gap": gap.as_json(), "gap_budget": where.as_json()}


def curve_rows(arms: Arms, budgets: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return rows of `analysis.curves`: every attack with a budget of 2 or more."""
    rows = []
    for place, attack, arm in _curves(arms, budgets):
        head = {**place_fields(place), "attack": attack, "budget": arm.budget}
        rows.append({**head, "n_items": int((arm.counts > 0).sum()), **inflection(arm)})
    return rows


def pair_rows(arms: Arms, budgets: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return rows of `analysis.pairs`: every two attacks of one place with budgets of 2 or more."""
    by_place: dict[Place, list[tuple[str, Hits]]] = {}
    for place, attack, arm in _curves(arms, budgets):
        by_place.setdefault(place, []).append((attack, arm))
    rows = []
    for place, found in by_place.items():
        drawn = [resampled_ratio(arm.successes, arm.counts) for _, arm in found]
        for i, j in combinations(range(len(found)), 2):
            (first, ours), (second, theirs) = found[i], found[j]
            row = compare_curves(ours, theirs, (drawn[i], drawn[j]))
            leads = {"attack": first, "against": second}.get(row["leads_after"] or "")
            head = {**place_fields(place), "attack": first, "against": second}
            rows.append({**head, **row, "leads_after": leads})
    return rows


def _curves(arms: Arms, budgets: Mapping[str, int]) -> list[tuple[Place, str, Hits]]:
    found = []
    for place, by_attack in arms.items():
        items = items_of(_all(by_attack))
        for attack, trials in by_attack.items():
            if budgets[attack] >= 2:
                found.append((place, attack, hits(trials, items, budgets[attack])))
    return found


def _all(by_attack: Mapping[str, Sequence[TrialRow]]) -> list[TrialRow]:
    return [row for trials in by_attack.values() for row in trials]


def _estimate(
    value: float | np.float64, drawn: NDArray[np.float64], n: int, method: str
) -> Estimate:
    return around(bootstrapped(float(value), drawn, n, method))


def _bootstrap(arm: Hits) -> str:
    return f"bootstrap over {int((arm.counts > 0).sum())} items, {RESAMPLES} resamples"


def _sign(difference: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return -1, 0 or 1; differences from rounding are 0."""
    found: NDArray[np.float64] = np.sign(np.round(difference, 12))
    return found


def _last_sign(difference: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sign at the largest budget at which the two differ; 0 if they never do."""
    sign = _sign(difference)[..., ::-1]
    return np.take_along_axis(sign, _first(sign != 0)[..., None], axis=-1)[..., 0]


def _first(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the index of the first True along the last axis; 0 if there is none."""
    found: NDArray[np.int64] = np.argmax(mask, axis=-1)
    return found
