"""Scores of whole data sets of A and of B, on the same sentences or pairs, resampled together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medstress.analyses.run import Cell, Pairs, Run
from medstress.analyses.scores import Key, Response, Sample, clusters_named, responses
from medstress.kinds import scoring_of
from medstress.kinds.scores import Scoring
from medstress.stats.estimate import Ends, Estimate, unknown
from medstress.stats.paired import Difference
from medstress.stats.resampling import RESAMPLES, bootstrapped
from medstress.stats.shares import Numbers

SUFFIXES = ("_after", "_drop", "")
"""Of the perturbed copy, how much it falls, of the clean data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """The samples of A and of B on what both hold."""

    scoring: Scoring
    n_items: int
    clusters: str
    """What is drawn as a whole, for people."""
    clean: tuple[Sample, Sample]
    after: tuple[Sample, Sample] | None
    """Of the perturbed copies; None for a search, which perturbs every part apart."""

    def shown(self, wanted: str) -> list[str]:
        """Return the measures that are compared: the main score, and the one that is asked for."""
        suffixes = ("",) if self.after is None else SUFFIXES
        main = [f"{self.scoring.main}{suffix}" for suffix in suffixes if suffix != "_drop"]
        every = (f"{name}{suffix}" for name in self.scoring.words for suffix in suffixes)
        return [*main, *([wanted] if wanted in every and wanted not in main else [])]

    def contrast(self, metric: str) -> tuple[Estimate, Estimate, Difference]:
        """Return a measure of A, of B, and B minus A; `metric` is one of `shown`."""
        suffix = next(ending for ending in SUFFIXES if metric.endswith(ending))
        name = metric.removesuffix(suffix)
        (a, draws_a, n), (b, draws_b, _) = (self._measured(i, name, suffix) for i in (0, 1))
        m = self.clean[0].n_clusters
        if a is None or b is None:
            nothing = unknown(f"undefined: {self.scoring.undefined}")
            return nothing, nothing, Difference(estimate=nothing, p=None)
        if m < self.scoring.enough:
            few = f"too few {self.clusters} for an interval: {m}, and {self.scoring.enough} needed"
            value_a, value_b, change = (
                Estimate(value=x, n=n, low=None, high=None, method=few) for x in (a, b, b - a)
            )
            return value_a, value_b, Difference(estimate=change, p=None)
        method = f"bootstrap over {m} {self.clusters}, {RESAMPLES} resamples, percentile 95 %"
        gap = draws_b - draws_a
        gap = gap[np.isfinite(gap)]
        change = bootstrapped(b - a, gap, n, f"paired {method}")
        p: float = 1.0
        ends: Ends = (None, None)
        if change.low is not None:
            fewer = min(int((gap <= 0).sum()), int((gap >= 0).sum()))
            p = min(1.0, 2 * (1 + fewer) / (1 + len(gap)))
            low, high = np.quantile(gap, (0.05, 0.95))
            ends = float(low), float(high)
        value_a, value_b = bootstrapped(a, draws_a, n, method), bootstrapped(b, draws_b, n, method)
        return value_a, value_b, Difference(estimate=change, p=p, interval90=ends)

    def _measured(self, side: int, name: str, suffix: str) -> tuple[float | None, Numbers, int]:
        clean = self.clean[side]
        after = clean if self.after is None else self.after[side]
        sample = after if suffix == "_after" else clean
        value, draws = sample.value(name), sample.draws[name]
        if suffix != "_drop":
            return value, draws, sample.n(name)
        fallen = after.value(name)
        drop = None if value is None or fallen is None else value - fallen
        return drop, draws - after.draws[name], after.n(name)


def scored(first: Run, a: Cell, second: Run, b: Cell, pairs: Pairs) -> Scored | None:
    """Return the samples of two arms on the sentences or pairs that both hold; None for questions.

    Args:
        first: the run of A.
        a: its arm.
        second: the run of B.
        b: its arm.
        pairs: the trials of both on the same item, part and seed.
    """
    scoring = scoring_of(a.trials[0].item)
    if scoring is None or not len(pairs):
        return None
    ours, others = responses(first, a), responses(second, b)
    shared: dict[tuple[Key, Key], None] = {}
    for i, j in zip(pairs.first, pairs.second, strict=True):
        one, other = a.trials[i], b.trials[j]
        shared[(one.arm.seed, one.item.id), (other.arm.seed, other.item.id)] = None
    clean = _both(shared, ours.clean, others.clean)
    after = _both(shared, ours.after, others.after)
    if keys := [key for key in clean if key in after]:
        clean = {key: clean[key] for key in keys}
    if not clean:
        return None
    clusters = sorted({one.cluster for one, _ in clean.values()})

    def samples(some: Sequence[tuple[Response, Response]]) -> tuple[Sample, Sample]:
        one, other = ([responses[i] for responses in some] for i in (0, 1))
        return Sample(scoring, one, clusters), Sample(scoring, other, clusters)

    return Scored(
        scoring=scoring,
        n_items=len({one.item.id for one, _ in clean.values()}),
        clusters=clusters_named(scoring, [one for one, _ in clean.values()]),
        clean=samples(list(clean.values())),
        after=samples([after[key] for key in keys]) if keys else None,
    )


_Shared = Mapping[tuple[Key, Key], object]


def _both(
    shared: _Shared, ours: Mapping[Key, Response], others: Mapping[Key, Response]
) -> dict[tuple[Key, Key], tuple[Response, Response]]:
    """Return the responses of both; those of B under A's item, cluster and a seed of either."""
    both = {}
    for key in shared:
        if key[0] in ours and key[1] in others:
            one, other = ours[key[0]], others[key[1]]
            seed = other.seed if one.seed is None else one.seed
            one = one._replace(seed=seed)
            both[key] = one, other._replace(item=one.item, cluster=one.cluster, seed=seed)
    return both
