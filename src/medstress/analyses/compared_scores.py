"""Scores of whole data sets of A and of B, on the same sentences or pairs, resampled together.

F1 of tagged texts and correlations of pairs, until `analyses.scores` hands out samples: then
`scored` is built from these, and this module goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from medstress.analyses.run import Cell, Pairs, Run
from medstress.core.outcomes import Verdict
from medstress.core.trials import Answer, Trial
from medstress.stats.estimate import Ends, Estimate, unknown
from medstress.stats.paired import Difference
from medstress.stats.resampling import RESAMPLES, bootstrapped
from medstress.stats.shares import Numbers

SUFFIXES = ("_after", "_drop", "")
"""Of the perturbed copy, how much it falls, of the clean data."""


class Sample(Protocol):
    """Answers about one data set, from which scores are computed.

    The resamples depend only on the units, so two samples over the same units are drawn together.
    """

    def value(self, name: str) -> float | None:
        """Return a score; None where it is undefined."""

    def draws(self, name: str) -> Numbers:
        """Return it in every resample, shape (RESAMPLES,)."""

    def n(self, name: str) -> int:
        """Return what it is counted over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """The samples of A and of B on what both hold."""

    names: Sequence[str]
    main: str
    units: str
    """What is drawn as a whole, for people: `documents`, `pairs`."""
    n_units: int
    least: int
    """Of fewer units there is no interval (METHODS 1.5)."""
    n_items: int
    clean: tuple[Sample, Sample]
    after: tuple[Sample, Sample] | None
    """Of the perturbed copies; None for a search, which perturbs every part apart."""

    def shown(self, wanted: str) -> list[str]:
        """Return the measures that are compared: the main score, and the one that is asked for."""
        suffixes = SUFFIXES if self.after is not None else ("",)
        known = {f"{name}{suffix}" for name in self.names for suffix in suffixes}
        main = [self.main] if self.after is None else [f"{self.main}_after", self.main]
        return [*main, *([wanted] if wanted in known and wanted not in main else [])]

    def contrast(self, metric: str) -> tuple[Estimate, Estimate, Difference]:
        """Return a measure of A, of B, and B minus A; `metric` is one of `shown`."""
        (a, draws_a, n), (b, draws_b, _) = (self._measured(side, metric) for side in (0, 1))
        method = (
            f"bootstrap over {self.n_units} {self.units}, {RESAMPLES} resamples, percentile 95 %"
        )
        if a is None or b is None:
            nothing = unknown(f"{method}: undefined")
            return nothing, nothing, Difference(estimate=nothing, p=None)
        if self.n_units < self.least:
            few = f"too few {self.units} for an interval: {self.n_units} of {self.least}"
            value_a, value_b, change = (
                Estimate(value=x, n=n, low=None, high=None, method=few) for x in (a, b, b - a)
            )
            return value_a, value_b, Difference(estimate=change, p=None)
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

    def _measured(self, side: int, metric: str) -> tuple[float | None, Numbers, int]:
        suffix = next(s for s in SUFFIXES if metric.endswith(s))
        name = metric.removesuffix(suffix)
        clean, after = self.clean[side], None if self.after is None else self.after[side]
        sample = clean if suffix != "_after" or after is None else after
        value = sample.value(name)
        if suffix != "_drop" or after is None or value is None:
            return value, np.zeros(0) if value is None else sample.draws(name), sample.n(name)
        fallen = after.value(name)
        drop = None if fallen is None else value - fallen
        return drop, clean.draws(name) - after.draws(name), after.n(name)


def scored(first: Run, a: Cell, second: Run, b: Cell, pairs: Pairs) -> Scored | None:
    """Return the samples of two arms on the sentences or pairs that both hold; None for questions.

    Args:
        first: the run of A.
        a: its arm.
        second: the run of B.
        b: its arm.
        pairs: the trials of both on the same item, part and seed.
    """
    kind = _KINDS.get(type(a.trials[0].item).__name__)
    if kind is None or not len(pairs):
        return None
    shared: dict[tuple[int | None, str], tuple[tuple[int | None, str], str]] = {}
    for i, j in zip(pairs.first, pairs.second, strict=True):
        one, other = a.trials[i], b.trials[j]
        seed = one.arm.seed if one.arm.seed is not None else other.arm.seed
        key = seed, one.item.id
        shared.setdefault(key, ((other.arm.seed, other.item.id), one.cluster))
    clean, after = zip(_answers(first, a), _answers(second, b), strict=True)
    keys = [k for k, (other, _) in shared.items() if _at(clean[0], k) and _at(clean[1], other)]
    whole = [k for k in keys if _at(after[0], k) and _at(after[1], shared[k][0])]
    keys = whole or keys
    if not keys:
        return None
    clusters = {k: shared[k][1] for k in keys}

    def samples(answers: Sequence[Mapping[Any, _Said]]) -> tuple[Sample, Sample]:
        one = {k: _at(answers[0], k) for k in keys}
        other = {k: _at(answers[1], shared[k][0]) for k in keys}
        return kind.sample(one, clusters), kind.sample(other, clusters)

    return Scored(
        names=kind.names,
        main=kind.names[kind.main],
        units=kind.units,
        n_units=len(set(clusters.values())),
        least=kind.least,
        n_items=len({item for _, item in keys}),
        clean=samples(clean),
        after=samples(after) if whole else None,
    )


_Key = tuple[int | None, str]
_Said = tuple[Trial, Answer, bool]
"""A trial, an answer of it, and whether that is about the perturbed item."""


def _at(answers: Mapping[_Key, _Said], key: _Key) -> Any:
    """Return the answer of a seed; that of an attack without random numbers serves every seed."""
    return answers.get(key) or answers.get((None, key[1]))


def _answers(run: Run, cell: Cell) -> tuple[dict[_Key, _Said], dict[_Key, _Said]]:
    """Return the clean and the perturbed answers by seed and item: parts of an item share them."""
    clean: dict[_Key, _Said] = {}
    after: dict[_Key, _Said] = {}
    is_whole = cell.attack.whole_copy or not cell.attack.judged
    for t in cell.trials:
        key = t.arm.seed, t.item.id
        before = t.before or getattr(run.clean[cell.place].get(t.item.id), "before", None)
        if before is None:
            continue
        clean.setdefault(key, (t, before, False))
        if is_whole and key not in after:
            # An item in which nothing can be perturbed keeps its clean answer.
            answer = t.last or (before if t.verdict is Verdict.MEASURED else None)
            if answer is not None:
                after[key] = t, answer, True
    return clean, after


@dataclass(frozen=True, slots=True)
class _Kind:
    names: Sequence[str]
    main: int
    units: str
    least: int
    sample: Callable[[Mapping[_Key, _Said], Mapping[_Key, str]], Sample]


class _Entities:
    """Matches by cluster, for every way to match."""

    def __init__(self, answers: Mapping[_Key, _Said], clusters: Mapping[_Key, str]) -> None:
        from medstress.core.sentences import entities_of
        from medstress.metrics.sentences.entity_scores import MATCHES, Reading, sums_of
        from medstress.tasks.entity_tagging import begun_entities, marked_entities

        def readings() -> Iterator[Reading]:
            for key, (trial, answer, is_perturbed) in answers.items():
                labels = str(answer.text).split()
                text = getattr(trial.item, "text", trial.item)
                edits = trial.edits if is_perturbed else ()
                yield Reading(
                    cluster=clusters[key],
                    gold=entities_of(text.candidate(edits).labels),
                    found=marked_entities(labels),
                    begun=begun_entities(labels),
                )

        every, names = list(readings()), sorted(set(clusters.values()))
        self._sums = {end: sums_of(every, names, match) for match, end in MATCHES.items()}

    def value(self, name: str) -> float | None:
        return self._at(name)[0]

    def draws(self, name: str) -> Numbers:
        return self._at(name)[1]

    def n(self, name: str) -> int:
        measure = name.partition("_")[0]
        _, marked, gold = self._sums[name.removeprefix(measure)].sum(0)
        return int({"precision": marked, "recall": gold}.get(measure, marked + gold))

    def _at(self, name: str) -> tuple[float | None, Numbers]:
        from medstress.metrics.sentences.entity_scores import measured

        measure = name.partition("_")[0]
        return measured(self._sums[name.removeprefix(measure)], measure)


class _Correlations:
    """Scores by seed and pair, of the pairs that all seeds have."""

    def __init__(self, answers: Mapping[_Key, _Said], clusters: Mapping[_Key, str]) -> None:
        seeds = sorted(
            {seed for seed, _ in answers}, key=lambda seed: (seed is not None, seed or 0)
        )
        ids = sorted({item for _, item in answers})
        items = [i for i in ids if all((seed, i) in answers for seed in seeds)]
        self._clusters = [clusters[seeds[0], item] for item in items]
        self._gold = np.array([answers[seeds[0], item][0].item.score for item in items])
        self._scores = np.array(
            [[(answers[seed, item][1].scores or (np.nan,))[0] for item in items] for seed in seeds]
        )

    def value(self, name: str) -> float | None:
        return self._at(name)[0]

    def draws(self, name: str) -> Numbers:
        return self._at(name)[1]

    def n(self, name: str) -> int:
        return len(self._gold)

    def _at(self, name: str) -> tuple[float | None, Numbers]:
        from medstress.metrics.sentences.correlations import coefficient

        return coefficient(self._gold, self._scores, name, self._clusters)


_MATCHES = ("", "_relaxed", "_seqeval_strict")
_TAGGED = _Kind(
    tuple(f"{measure}{match}" for match in _MATCHES for measure in ("f1", "precision", "recall")),
    0,
    "documents",
    30,
    _Entities,
)
_KINDS = {
    "TaggedText": _TAGGED,
    "EntityUnit": _TAGGED,
    "SentencePair": _Kind(("pearson", "spearman"), 0, "pairs", 40, _Correlations),
}
