"""Scores of whole data sets of A and of B, on the same sentences or pairs, resampled together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medstress.analyses.run import Cell, Pairs, Run
from medstress.analyses.scores import Key, Response, Sample, responses
from medstress.kinds import scoring_of
from medstress.kinds.scores import Scoring
from medstress.stats.estimate import Ends, Estimate
from medstress.stats.paired import Difference
from medstress.stats.trainings import Measured, minus

SUFFIXES = ("_after", "_drop", "")
"""Of the perturbed copy, how much it falls, of the clean data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """The samples of A and of B on what both hold."""

    scoring: Scoring
    n_items: int
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
        (first, a), (second, b) = (self._measured(sample, metric) for sample in (0, 1))
        name = metric.removesuffix("_after").removesuffix("_drop")
        value_a, value_b = first.estimate(a, name), second.estimate(b, name)
        change = first.estimate(minus(b, a), name, "paired bootstrap")
        if change.value is None:
            return change, change, Difference(estimate=change, p=None)
        p: float | None = None if first.few else 1.0
        ends: Ends = (None, None)
        if change.low is not None:
            gap = b.drawn - a.drawn
            gap = gap[np.isfinite(gap)]
            fewer = min(int((gap <= 0).sum()), int((gap >= 0).sum()))
            p = min(1.0, 2 * (1 + fewer) / (1 + len(gap)))
            low, high = np.quantile(gap, (0.05, 0.95))
            ends = float(low), float(high)
        return value_a, value_b, Difference(estimate=change, p=p, interval90=ends)

    def _measured(self, side: int, metric: str) -> tuple[Sample, Measured]:
        """Return a measure of one side, and the sample that it is counted over."""
        clean = self.clean[side]
        after = clean if self.after is None else self.after[side]
        if metric.endswith("_drop"):
            name = metric.removesuffix("_drop")
            return after, minus(clean.measured(name), after.measured(name))
        sample = after if metric.endswith("_after") else clean
        return sample, sample.measured(metric.removesuffix("_after"))


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
