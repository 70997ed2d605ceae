"""A difference for names like these: items and names are resampled together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.stats import t

from medstress.comparison.pairing import Pair
from medstress.core.rows import TrialRow
from medstress.metrics.counts import cluster_of, is_flipped, success_name
from medstress.stats.estimates import Estimate
from medstress.stats.resampling import RESAMPLES, ROUNDING, item_weights, random_stream

SENTENCE = "for names like these, not only for those that were drawn"
Asked = Mapping[str, Collection[str]]
"""Trial -> the names it asked, case-folded."""

_NAMES = 1
"""Number of the random stream that draws names; stream 0 draws items."""
_BLOCK = 50


def names_of(pair: Pair, asked: tuple[Asked, Asked]) -> list[str]:
    """Return the names that decided a pair: those of its successes, else all that were asked."""
    decided = [success_name(row) for row in (pair.a, pair.b) if is_flipped(row)]
    if any(decided):
        return sorted({name for name in decided if name})
    rows: tuple[tuple[TrialRow, Asked], ...] = ((pair.a, asked[0]), (pair.b, asked[1]))
    return sorted({name for row, known in rows for name in known.get(row.trial_id, ())})


def for_names_like_these(
    clusters: Sequence[str], names: Sequence[Sequence[str]], differences: Sequence[int]
) -> tuple[Estimate | None, str | None]:
    """Estimate a mean difference by the pigeonhole bootstrap over clusters of items and names.

    Each resample draws as many clusters and, independently, as many names with replacement; a
    pair counts as often as its cluster times the mean of its names. The interval is the mean
    +- t s with s the standard deviation of the resamples and min(clusters, names) - 1 degrees of
    freedom: percentiles are too narrow with few names. A pair without a name (both victims were
    wrong before any attack) counts as often as its cluster.

    Args:
        clusters: the cluster of each pair.
        names: the names that decided each pair.
        differences: B minus A of each pair: -1, 0 or 1.

    Returns:
        The estimate, or None and the reason.

    References:
        Owen, "The pigeonhole bootstrap", Annals of Applied Statistics 2007.
    """
    units = {name: i for i, name in enumerate(sorted(set(clusters)))}
    known = {name: i for i, name in enumerate(sorted({each for row in names for each in row}))}
    if len(known) < 2:
        return None, "fewer than two names were drawn"
    if len(units) < 2:
        return None, "fewer than two items have pairs"
    d = np.array(differences, dtype=np.float64)
    drawn = _resampled(np.array([units[c] for c in clusters]), _shares(names, known), d)
    value, n = float(d.mean()), len(d)
    spread = float(np.nanstd(drawn))
    if spread < ROUNDING:
        return None, "all resamples agree, so that an interval would have no width"
    half = float(t.ppf(0.975, min(len(units), len(known)) - 1)) * spread
    method = (
        f"pigeonhole bootstrap over {len(units)} items (documents where known) and {len(known)} "
        f"names together, {RESAMPLES} resamples, t interval 95 %: {SENTENCE}"
    )
    low, high = max(value - half, -1.0), min(value + half, 1.0)
    return Estimate(value=value, n=n, low=low, high=high, method=method), None


def _shares(names: Sequence[Sequence[str]], known: Mapping[str, int]) -> csr_array:
    """Return each pair's share in each name: rows that sum to 1, or to 0 without a name."""
    rows = [i for i, of_pair in enumerate(names) for _ in of_pair]
    columns = [known[name] for of_pair in names for name in of_pair]
    values = [1 / len(of_pair) for of_pair in names for _ in of_pair]
    return csr_array((values, (rows, columns)), shape=(len(names), len(known)))


def _resampled(
    units: NDArray[np.int64], shares: csr_array, d: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the mean difference of every resample, nan where nothing was drawn."""
    weights, rng = item_weights(int(units.max()) + 1), random_stream(_NAMES)
    n_names = shares.shape[1]
    nameless = np.asarray(shares.sum(axis=1) == 0, dtype=np.float64)[:, None]
    found = []
    for start in range(0, RESAMPLES, _BLOCK):
        of_names = rng.multinomial(n_names, np.full(n_names, 1 / n_names), size=_BLOCK)
        of_pairs = (shares @ of_names.T.astype(np.float64)) + nameless
        counted = of_pairs * weights[start : start + _BLOCK, units].T
        with np.errstate(invalid="ignore"):
            found.append((d @ counted) / counted.sum(axis=0))
    return np.concatenate(found)


def cluster_names(pairs: Sequence[Pair]) -> list[str]:
    """Return the cluster of each pair."""
    return [cluster_of(pair.a) for pair in pairs]
