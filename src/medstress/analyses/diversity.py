"""How many different names succeed, and how much of the prompt's meaning a success keeps.

References:
    Xian et al., "Assessing biomedical knowledge robustness in large language models by
    query-efficient sampling attacks", TMLR 2025 (eta; Figure 2).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from medstress.analyses.run import Cell
from medstress.core.trials import Trial
from medstress.stats.estimate import WILSON, Estimate, unknown, wilson_ends
from medstress.stats.resampling import RESAMPLES, draw_kinds, mean_over, percentiles
from medstress.stats.shares import Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Diversity:
    """Diversity of the names that succeeded, within a seed and then averaged."""

    diversity: Estimate
    """eta = 1 - sum_j q_j^2, q_j the share of name j; grows with the number of successes."""
    diversity_unbiased: Estimate
    """1 - sum_j c_j (c_j - 1) / (n (n - 1)), c_j the successes of name j."""
    prompt_similarity: Estimate
    """Mean cosine of the whole prompts before and after first successes."""


def diversity(cell: Cell) -> Diversity:
    """Estimate both forms of the Gini-Simpson index from the same resamples, and similarity.

    If n is far from 0, the seeds of one item put in the same few names. Pooled, they would look
    like reuse between items, or hide it.
    """
    plain, unbiased = both_forms(names_by_seed(cell.trials))
    return Diversity(
        diversity=plain,
        diversity_unbiased=unbiased,
        prompt_similarity=prompt_similarity(cell),
    )


def names_by_seed(trials: Iterable[Trial]) -> list[dict[str, list[str]]]:
    """Return for every seed and repeat the names of first successes by document or item."""
    seeds: dict[tuple[bool, int, int], dict[str, list[str]]] = defaultdict(dict)
    for trial in trials:
        seed = trial.arm.seed
        if trial.first is not None and trial.first.name is not None:
            names = seeds[seed is not None, seed or 0, trial.repeat]
            names.setdefault(trial.cluster, []).append(trial.first.name)
    return [seeds[key] for key in sorted(seeds)]


def gini_simpson(counts: ArrayLike, *, unbiased: bool = False) -> Numbers:
    """Return the probability that two successes put in different names.

    1 - sum_j (c_j / n)^2, drawing the two with replacement, or in the unbiased form
    1 - sum_j c_j (c_j - 1) / (n (n - 1)), drawing them without.

    Args:
        counts: successes by name, shape (..., n_names); 1 in total, 2 for the unbiased form.
        unbiased: True for the unbiased form.

    Returns:
        Shape (...), in [0, 1].

    >>> float(gini_simpson([3, 1])), float(gini_simpson([3, 1], unbiased=True))
    (0.375, 0.5)

    References:
        Simpson, "Measurement of diversity", Nature 1949.
    """
    c, taken = np.asarray(counts, dtype=np.float64), int(unbiased)
    n = c.sum(axis=-1)
    return np.asarray(1 - (c * (c - taken)).sum(axis=-1) / (n * (n - taken)))


def both_forms(seeds: Sequence[Mapping[str, Sequence[str]]]) -> tuple[Estimate, Estimate]:
    """Estimate the plain and the unbiased index, drawing whole items of all seeds together.

    The interval goes from the 2.5 % to the 97.5 % quantile of the resamples, shifted by the
    difference of the index and their mean: a resample repeats names, so that its index is lower by
    a factor 1 - 1/n on average, and unshifted quantiles would often lie below the value (with 15
    successes over 20 equally likely names they cover the truth in 30 % of simulations, shifted
    ones in more than 95 %). If it has no width, all m items look alike. Then, with L the lower
    Wilson end for m of m, two successes both look like these with probability L^2, and the interval
    is [L^2 eta, 1 - L^2 (1 - eta)].

    Args:
        seeds: the names of each seed by item.

    References:
        Davison and Hinkley, "Bootstrap Methods and their Application", 1997, chapter 5.
    """
    drawn = _resampled(seeds)
    plain, unbiased = (
        _mean_over_seeds(seeds, [index[form] for index in drawn], unbiased=form)
        for form in (False, True)
    )
    return plain, unbiased


def _mean_over_seeds(
    seeds: Sequence[Mapping[str, Sequence[str]]], drawn: Sequence[Numbers], *, unbiased: bool
) -> Estimate:
    counts = [Counter(name for group in names.values() for name in group) for names in seeds]
    enough = [i for i, names in enumerate(counts) if names.total() > unbiased]
    if not enough:
        why = "needs at least 2 successes" if unbiased else "needs a success"
        return unknown(why, sum(names.total() for names in counts))
    n, m = sum(counts[i].total() for i in enough), len({x for i in enough for x in seeds[i]})
    value = float(np.mean([gini_simpson([*counts[i].values()], unbiased=unbiased) for i in enough]))
    indices = np.stack([drawn[i] for i in enough])
    # A resample may have too few successes of a seed; the others count then.
    has = np.isfinite(indices)
    some = has.any(axis=0)
    means = np.where(has, indices, 0).sum(axis=0)[some] / has.sum(axis=0)[some]
    low, high = percentiles(means)
    what = "successes" if m == n else f"the successes of {m} items"
    method = f"bootstrap over {what}, {RESAMPLES} resamples, recentred percentile 95 %"
    if low == high:
        both = wilson_ends(m, m)[0] ** 2
        low, high = both * value, 1 - both * (1 - value)
        method = f"{WILSON} over {m} items that look alike (their bootstrap interval has no width)"
    else:
        shift = value - float(means.mean())
        low, high = max(0.0, low + shift), min(1.0, high + shift)
    if len(enough) > 1:
        method = f"mean over {len(enough)} seeds, within each; {method}"
    return Estimate(value=value, n=n, low=low, high=high, method=method)


def _resampled(seeds: Sequence[Mapping[str, Sequence[str]]]) -> list[dict[bool, Numbers]]:
    """Return both forms of each seed's index in every resample of the items of all seeds.

    An index is nan in a resample that has too few successes of the seed.
    """
    items = sorted({item for names in seeds for item in names})
    if not items:
        return []
    looks = Counter(tuple(tuple(sorted(names.get(item, ()))) for names in seeds) for item in items)
    kinds, drawn = draw_kinds(looks)
    indices = []
    with np.errstate(divide="ignore", invalid="ignore"):
        for i in range(len(seeds)):
            # (name, look) in order, so that the columns of one name are next to each other.
            places = sorted((name, row) for row, kind in enumerate(kinds) for name in kind[i])
            starts = [at for at, (name, _) in enumerate(places) if name != places[at - 1][0]] or [0]
            looks_of = [row for _, row in places]
            counts = np.add.reduceat(drawn[:, looks_of], starts, axis=1)
            indices.append({form: gini_simpson(counts, unbiased=form) for form in (False, True)})
    return indices


def prompt_similarity(cell: Cell) -> Estimate:
    """Estimate the mean cosine of prompts over first successes whose prompts were embedded."""
    firsts = [(i, t.first) for i, t in enumerate(cell.trials) if t.first is not None]
    embedded = [(i, f.similarity) for i, f in firsts if f.similarity is not None]
    if not embedded:
        return unknown("not computed")
    n_open = len(firsts) - len(embedded)
    what = "mean cosine of prompts over successes" + (f", {n_open} not embedded" if n_open else "")
    places, values = zip(*embedded, strict=True)
    return mean_over(np.array(values), cell.units[0][list(places)], what)
