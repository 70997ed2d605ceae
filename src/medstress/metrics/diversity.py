"""How many different replacements succeed: the Gini-Simpson index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from medstress.metrics.bootstrap import RESAMPLES, percentiles, resample
from medstress.metrics.counts import is_flipped
from medstress.metrics.estimates import WILSON, Estimate, unknown, wilson_ends
from medstress.rows import TrialRow


def gini_simpson(counts: ArrayLike, *, unbiased: bool = False) -> NDArray[np.float64]:
    """Return the probability that two successes used different replacements.

    eta = 1 - sum_j (c_j / n)^2, drawing the two with replacement, or in the unbiased form
    1 - sum_j c_j (c_j - 1) / (n (n - 1)), drawing them without.

    Args:
        counts: `(..., n_names)` successes by name; at least 1 in all, 2 if `unbiased`.
        unbiased: which of the two forms.

    Returns:
        `(...)` indices in [0, 1].

    >>> float(gini_simpson([3, 1])), float(gini_simpson([3, 1], unbiased=True))
    (0.375, 0.5)

    References:
        Simpson, "Measurement of diversity", Nature 1949 (both forms).
        Xian et al., 2025 (the plain form, as eta).
    """
    c = np.asarray(counts, dtype=np.float64)
    n = c.sum(axis=-1)
    taken = 1 if unbiased else 0
    same = (c * (c - taken)).sum(axis=-1) / (n * (n - taken))
    return np.asarray(1 - same, dtype=np.float64)


def replacement_diversity(trials: Sequence[TrialRow], *, unbiased: bool = False) -> Estimate:
    """Estimate eta over the names that successes put in; `n` is the number of successes.

    The plain form grows with the number of successes, the unbiased one does not.
    """
    return name_diversity(_successes(trials), unbiased=unbiased)


def both_diversities(trials: Sequence[TrialRow]) -> tuple[Estimate, Estimate]:
    """Estimate eta in the plain and in the unbiased form, from the same resamples."""
    names = _by_item(_successes(trials))
    drawn = _drawn(names.values()) if names else None
    return _diversity(names, drawn, unbiased=False), _diversity(names, drawn, unbiased=True)


def _successes(trials: Iterable[TrialRow]) -> list[tuple[str, str]]:
    """Item identifier and name of every success."""
    return [
        (row.item_id, name)
        for row in trials
        # The first success, as in the paper, also where the search went on after it.
        if (name := row.first_success_replacement or row.replacement) is not None
        and is_flipped(row)
    ]


def name_diversity(successes: Iterable[tuple[str, str]], *, unbiased: bool) -> Estimate:
    """Estimate the Gini-Simpson index of names, drawing whole items for its interval.

    The interval holds the 2.5 % to 97.5 % quantiles of the resamples, shifted by the
    difference of the index and their mean: a resample repeats names, so its index is lower
    by a factor 1 - 1/n on average, and unshifted quantiles would often lie below the value
    (with 15 successes over 20 equally likely names they cover the truth in 30 % of
    simulations, shifted ones in more than 95 %). Where the interval has no width it takes in
    what m items that all look alike leave open: with L the lower Wilson end for m of m, both
    of two successes look like these with probability L^2, so it is [L^2 eta, 1 - L^2 (1 - eta)].

    Args:
        successes: item identifier and name of the replacement, case ignored.
        unbiased: which form.

    Returns:
        The index with a 95 % interval; null without successes, or with one if `unbiased`.

    References:
        Davison and Hinkley, "Bootstrap Methods and their Application", 1997, chapter 5.
    """
    names = _by_item(successes)
    return _diversity(names, _drawn(names.values()) if names else None, unbiased=unbiased)


def _by_item(successes: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The names, case ignored, that succeeded on each item."""
    names: dict[str, list[str]] = {}
    for item, name in successes:
        names.setdefault(item, []).append(name.casefold())
    return names


def _diversity(
    names: Mapping[str, list[str]], drawn: NDArray[np.float64] | None, *, unbiased: bool
) -> Estimate:
    """`name_diversity` from names by item and the counts of names in every resample."""
    counts = Counter(name for group in names.values() for name in group)
    n, m = counts.total(), len(names)
    if drawn is None or n < (2 if unbiased else 1):
        return unknown("needs at least 2 successes" if unbiased else "needs a success", n)
    value = float(gini_simpson(list(counts.values()), unbiased=unbiased))
    resampled = gini_simpson(drawn, unbiased=unbiased)
    low, high = percentiles(resampled)
    what = "successes" if m == n else f"the successes of {m} items"
    method = f"bootstrap over {what}, {RESAMPLES} resamples, recentred percentile 95 %"
    if low == high:
        both = wilson_ends(m, m)[0] ** 2
        low, high = both * value, 1 - both * (1 - value)
        method = f"{WILSON} over {m} items that look alike (their bootstrap interval has no width)"
    else:
        shift = value - float(resampled.mean())
        low, high = max(0.0, low + shift), min(1.0, high + shift)
    return Estimate(value=value, n=n, low=low, high=high, method=method)


def _drawn(items: Iterable[list[str]]) -> NDArray[np.float64]:
    """How often each name occurs in every resample of items, each of which has one or more."""
    kinds, drawn = resample(Counter(tuple(sorted(names)) for names in items))
    if all(len(kind) == 1 for kind in kinds):  # kinds are names: nothing to add up
        return drawn.astype(np.float64)
    columns = {name: j for j, name in enumerate(sorted({name for kind in kinds for name in kind}))}
    rows = [i for i, kind in enumerate(kinds) for _ in kind]
    cells = [columns[name] for kind in kinds for name in kind]
    by_kind = csr_array((np.ones(len(cells)), (rows, cells)), shape=(len(kinds), len(columns)))
    found: NDArray[np.float64] = drawn @ by_kind
    return found
