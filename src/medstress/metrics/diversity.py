"""How many different replacements succeed: the Gini-Simpson index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from medstress.core.rows import TrialRow
from medstress.metrics.counts import cluster_of, seed_order, success_name
from medstress.metrics.old_stats.estimates import WILSON, Estimate, unknown, wilson_ends
from medstress.metrics.old_stats.resampling import RESAMPLES, percentiles, resample


def gini_simpson(counts: ArrayLike, *, unbiased: bool = False) -> NDArray[np.float64]:
    """Return the probability that two successes used different replacements.

    eta = 1 - sum_j (c_j / n)^2, drawing the two with replacement, or in the unbiased form
    1 - sum_j c_j (c_j - 1) / (n (n - 1)), drawing them without.

    Args:
        counts: `(..., n_names)` successes by name; at least 1 in total, 2 if `unbiased`.
        unbiased: True for the unbiased form.

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
    """Estimate eta over the names inserted by successes: within each seed, then averaged.

    If n is far from 0, the seeds of one item insert the same few names. Pooled, they would look
    like reuse between items, or hide it. The plain form grows with the number of successes of a
    seed, the unbiased one does not.

    Returns:
        The mean over the seeds (and repeats) that have enough successes: 1, or 2 if `unbiased`;
        `n` counts their successes.
    """
    seeds = names_by_seed(trials)
    return _diversity(seeds, _resampled(seeds), unbiased=unbiased)


def both_diversities(trials: Sequence[TrialRow]) -> tuple[Estimate, Estimate]:
    """Estimate eta in the plain and in the unbiased form, from the same resamples."""
    seeds = names_by_seed(trials)
    drawn = _resampled(seeds)
    return _diversity(seeds, drawn, unbiased=False), _diversity(seeds, drawn, unbiased=True)


def names_by_seed(trials: Iterable[TrialRow]) -> list[dict[str, list[str]]]:
    """Return for every seed and repeat, in order, the names that succeeded by item, folded."""
    found: dict[tuple[tuple[bool, int], int], dict[str, list[str]]] = {}
    for row in trials:
        # The first success, as in the paper, even if the search went on for a valid one.
        if (name := success_name(row)) is not None:
            seed = found.setdefault((seed_order(row.seed), row.repeat), {})
            seed.setdefault(cluster_of(row), []).append(name)
    return [found[key] for key in sorted(found)]


def name_diversity(successes: Iterable[tuple[str, str]], *, unbiased: bool) -> Estimate:
    """Estimate the Gini-Simpson index of names, drawing whole items for its interval.

    The interval goes from the 2.5 % to the 97.5 % quantile of the resamples, shifted by the
    difference of the index and their mean. A resample repeats names, so its index is lower by a
    factor 1 - 1/n on average, and unshifted quantiles would often lie below the value (with 15
    successes over 20 equally likely names they cover the truth in 30 % of simulations, shifted
    ones in more than 95 %). If that interval has no width, all m items look alike. Then, with L
    the lower Wilson end for m of m, two successes both look like these with probability L^2, and
    the interval is [L^2 eta, 1 - L^2 (1 - eta)].

    Args:
        successes: item identifier and name of the replacement, case ignored.
        unbiased: True for the unbiased form.

    Returns:
        The index with a 95 % interval; no value without successes, or with one if `unbiased`.

    References:
        Davison and Hinkley, "Bootstrap Methods and their Application", 1997, chapter 5.
    """
    names: dict[str, list[str]] = {}
    for item, name in successes:
        names.setdefault(item, []).append(name.casefold())
    seeds = [names] if names else []
    return _diversity(seeds, _resampled(seeds), unbiased=unbiased)


def _diversity(
    seeds: Sequence[Mapping[str, Sequence[str]]],
    drawn: Sequence[Mapping[bool, NDArray[np.float64]]],
    *,
    unbiased: bool,
) -> Estimate:
    """`name_diversity` within each seed, then averaged.

    Args:
        seeds: names by item, for each seed.
        drawn: for each seed the index of every resample, by form.
        unbiased: True for the unbiased form.
    """
    least = 2 if unbiased else 1
    counts = [Counter(name for group in names.values() for name in group) for names in seeds]
    enough = [i for i, each in enumerate(counts) if each.total() >= least]
    if not enough:
        total = sum(each.total() for each in counts)
        return unknown("needs at least 2 successes" if unbiased else "needs a success", total)
    n = sum(counts[i].total() for i in enough)
    m = len({item for i in enough for item in seeds[i]})
    indices = [gini_simpson(list(counts[i].values()), unbiased=unbiased) for i in enough]
    value = float(np.mean(indices))
    resampled = _mean_of_known(np.stack([drawn[i][unbiased] for i in enough]))
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
    if len(enough) > 1:
        method = f"mean over {len(enough)} seeds, within each; {method}"
    return Estimate(value=value, n=n, low=low, high=high, method=method)


def _mean_of_known(indices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average over the seeds that have an index in a resample; leave out resamples without any."""
    known = np.isfinite(indices)
    n = known.sum(axis=0)
    totals = np.where(known, indices, 0).sum(axis=0)
    found: NDArray[np.float64] = totals[n > 0] / n[n > 0]
    return found


def _resampled(
    seeds: Sequence[Mapping[str, Sequence[str]]],
) -> list[dict[bool, NDArray[np.float64]]]:
    """Compute both forms of the index of each seed in every resample of the items of all seeds.

    Returns:
        For each seed the index by `unbiased`, shape (RESAMPLES,); nan if a resample has too few
        successes of the seed.
    """
    items = sorted({item for names in seeds for item in names})
    if not items:
        return []
    looks = [tuple(tuple(sorted(names.get(item, ()))) for names in seeds) for item in items]
    kinds, drawn = resample(Counter(looks))
    found = []
    with np.errstate(divide="ignore", invalid="ignore"):
        for i in range(len(seeds)):
            counts = _counted([kind[i] for kind in kinds], drawn)
            found.append({form: gini_simpson(counts, unbiased=form) for form in (False, True)})
    return found


def _counted(kinds: Sequence[Sequence[str]], drawn: NDArray[np.int64]) -> NDArray[np.float64]:
    """Count each name in every resample, given the names of each kind of item, (n, n_names)."""
    columns = {name: j for j, name in enumerate(sorted({name for kind in kinds for name in kind}))}
    rows = [i for i, kind in enumerate(kinds) for _ in kind]
    cells = [columns[name] for kind in kinds for name in kind]
    by_kind = csr_array((np.ones(len(cells)), (rows, cells)), shape=(len(kinds), len(columns)))
    found: NDArray[np.float64] = drawn @ by_kind
    return found
