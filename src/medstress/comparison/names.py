"""A difference for names like these: items and names are both taken to be drawn."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import sqrt

import numpy as np
from scipy.sparse import csr_array
from scipy.stats import t

from medstress.comparison.pairing import Pair
from medstress.core.rows import TrialRow
from medstress.metrics.counts import cluster_of, success_name
from medstress.metrics.old_stats.estimates import Estimate

SENTENCE = "for names like these, not only for those that were drawn"
Names = Collection[str]
Asked = Mapping[str, Names]
"""Trial -> the names it asked, case-folded."""


def names_of(row: TrialRow, asked: Asked) -> frozenset[str]:
    """Return the names that a trial asked: each of them could have decided it."""
    success = success_name(row)
    return frozenset(asked.get(row.trial_id, ())) | (frozenset({success}) if success else set())


def for_names_like_these(
    clusters: Sequence[str], names: Sequence[tuple[Names, Names]], differences: Sequence[int]
) -> tuple[Estimate | None, str | None]:
    """Estimate a mean difference with a variance over items and names.

    With r_i the difference of pair i of N minus the mean, n clusters of items and K names:

        N^2 V = n / (n - 1) sum over clusters (sum of r)^2
                + K / (K - 1) (sum over names (sum of r)^2 - sum over clusters and names (...)^2)

    where a pair belongs to every name that either trial asked, and the last sum takes out what
    the clusters count already; the part of the names is at least 0. The interval is the mean
    +- t sqrt(V) with min(n, K) - 1 degrees of freedom, K of the side with fewer names. Under
    planted nulls it errs about .05 of the time, more where trials ask many of few names
    (docs: results/statistics).

    Args:
        clusters: the cluster of each pair.
        names: the names that A's and B's trial of each pair asked; empty where the victim was
            wrong before any attack.
        differences: B minus A of each pair: -1, 0 or 1.

    Returns:
        The estimate, or None and the reason.

    References:
        Cameron, Gelbach and Miller, "Robust inference with multiway clustering", Journal of
        Business and Economic Statistics 2011.
    """
    d = np.array(differences, dtype=np.float64)
    of_clusters = _members([(cluster,) for cluster in clusters])
    of_names = _members([{*a, *b} for a, b in names])
    n, k = of_clusters.shape[1], min(len(set().union(*side)) for side in zip(*names, strict=True))
    if k < 2:
        return None, "fewer than two names were drawn"
    if n < 2:
        return None, "fewer than two items have pairs"
    residuals = (d - d.mean())[:, None]
    both = of_clusters.T @ of_names.multiply(residuals)
    variance = n / (n - 1) * float(((of_clusters.T @ residuals) ** 2).sum())
    shared = float(((of_names.T @ residuals) ** 2).sum()) - float(both.multiply(both).sum())
    variance += k / (k - 1) * max(shared, 0.0)
    if variance == 0:
        return None, "all pairs agree, so that an interval would have no width"
    value, half = float(d.mean()), float(t.ppf(0.975, min(n, k) - 1)) * sqrt(variance) / len(d)
    method = (
        f"two-way linearised variance over {n} items (documents where known) and {k} names, t "
        f"interval 95 %: {SENTENCE}"
    )
    low, high = max(value - half, -1.0), min(value + half, 1.0)
    return Estimate(value=value, n=len(d), low=low, high=high, method=method), None


def _members(groups: Sequence[Collection[str]]) -> csr_array:
    """Return which pair (row) belongs to which of the sorted groups (column)."""
    known = {name: i for i, name in enumerate(sorted({name for each in groups for name in each}))}
    rows = [i for i, each in enumerate(groups) for _ in each]
    columns = [known[name] for each in groups for name in each]
    return csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(groups), len(known)))


def cluster_names(pairs: Sequence[Pair]) -> list[str]:
    """Return the cluster of each pair."""
    return [cluster_of(pair.a) for pair in pairs]
