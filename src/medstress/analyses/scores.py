"""Scores of a whole data set, clean and perturbed: F1 of tagged texts, correlations of pairs.

A kind of item says how answers become a *sample* that can be scored; what is estimated, compared
and shown is the same for all. Clusters (documents, pairs that share a sentence) are drawn whole,
before and after together, so that the difficulty of a document cancels in their difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from medstress.analyses.run import Cell, Pairs, Run
from medstress.analyses.shown import FLAT, HIDDEN, takes_more
from medstress.analyses.success import UNSEEN
from medstress.core.arms import NOISE_CONTROL
from medstress.core.items import QUESTIONS
from medstress.core.outcomes import Verdict
from medstress.core.text import Edit
from medstress.core.trials import Answer, Trial
from medstress.core.words import listed
from medstress.stats.estimate import Ends, Estimate, unknown
from medstress.stats.paired import Difference
from medstress.stats.resampling import (
    RESAMPLES,
    ROUNDING,
    Drawn,
    percentiles,
    swap_p,
    unit_weights,
)
from medstress.stats.shares import Mask, Numbers
from medstress.stats.trainings import Measured, estimated, minus
from medstress.tasks.scores import Resamples, Scoring

SUFFIXES = ("_after", "_drop", "")
"""Of the perturbed copy, how much it falls, of the clean data."""
COPY_FAILED = "more than a tenth of the answers under attack failed"
CHANCE = 0.05
"""A difference whose p-value lies above it may be chance."""
Key: TypeAlias = tuple[int | None, str]
"""Seed and id of an item."""


def is_nothing(change: Estimate | None) -> bool:
    """Return whether a score is the same number on both sides, but for rounding."""
    return change is not None and change.value is not None and abs(change.value) < ROUNDING


def _plain(metric: str) -> str:
    return metric.removesuffix("_after").removesuffix("_drop")


class Response(NamedTuple):
    """What the model answered about a whole item: a sentence with all its entities, a pair."""

    item: Any
    cluster: str
    seed: int | None
    answer: Answer
    edits: tuple[Edit, ...] = ()
    """Of the perturbed copy; none for the clean item."""


class _Columns(NamedTuple):
    """The answers of one seed."""

    gold: list[Any]
    predicted: list[Any]
    at: list[int]
    """The number of the cluster of each."""


class Sample:
    """Answers of one arm about whole items, from which the scores of their kind are computed."""

    def __init__(self, scoring: Scoring, answers: Sequence[Response]) -> None:
        """Arrange answers, those of several seeds if there are; `scoring` says how they count."""
        self.scoring = scoring
        clusters = sorted({one.cluster for one in answers})
        self.n_clusters = m = len(clusters)
        self.units = scoring.units[any(one.cluster != one.item.id for one in answers)]
        """What the clusters are, for people."""
        few = f"too few {self.units} for an interval: {m}, and {scoring.enough} needed"
        self.few = few if m < scoring.enough else ""
        """Why there is no interval; empty where there are enough clusters."""
        place = {cluster: i for i, cluster in enumerate(clusters)}
        by_seed: dict[int | None, dict[str, tuple[Any, Any, int]]] = {}
        for i, one in enumerate(answers):
            pair = scoring.read(one.item, one.edits, one.answer)
            if pair is None:
                continue
            seed, name = (one.seed, one.item.id) if scoring.by_seed else (None, str(i))
            by_seed.setdefault(seed, {})[name] = *pair, place[one.cluster]
        of_all = set.intersection(*map(set, by_seed.values())) if by_seed else set()
        self._seeds: list[_Columns] = []
        self._seed_names = sorted(by_seed, key=lambda seed: (seed is not None, seed or 0))
        for seed in self._seed_names:
            rows = by_seed[seed]
            kept = [rows[name] for name in (sorted(of_all) if scoring.by_seed else rows)]
            self._seeds.append(_Columns(*([row[i] for row in kept] for i in range(3))))
        self._seeds = self._seeds or [_Columns([], [], [])]
        self.counted = scoring.n(*self._seeds[0][:2])
        """What each score is counted over."""

    @property
    def gold(self) -> Sequence[Any]:
        """The gold value of every answer."""
        return [gold for seed in self._seeds for gold in seed.gold]

    @property
    def names(self) -> Sequence[str]:
        """The scores that are worth showing."""
        return self.scoring.names(self.counted)

    def value(self, name: str) -> float | None:
        """Return a score; None where it is undefined."""
        value = float(self._values[name][0])
        return value if np.isfinite(value) else None

    def measured(self, name: str) -> Measured:
        """Return a score with its resamples; without these where there are too few clusters."""
        drawn = np.zeros(0) if self.few else self.draws[name]
        return Measured(value=self.value(name), drawn=drawn, limits=self.scoring.limits)

    def among(self, score: Measured) -> Drawn:
        """Return what is drawn, and the limits of a score or a difference of scores."""
        return Drawn(self.n_clusters, f"{self.n_clusters} {self.units}", score.limits)

    def estimate(self, score: Measured, name: str, how: str = "bootstrap") -> Estimate:
        """Estimate a score, or a difference of scores, that is counted over these answers."""
        if score.value is None:
            return unknown(f"undefined: {self.why_undefined}")
        among = self.among(score)
        over = f"{how} over {among.what}, {RESAMPLES} resamples, percentile 95 %"
        return estimated(score, self.counted[name], self.few or over, among=among)

    @property
    def why_undefined(self) -> str:
        """Why a score has no value: the first reason, and the seeds that have it if not all do."""
        reasons = self._why_undefined
        why = next((one for one in reasons if one != self.scoring.undefined), reasons[0])
        own = [str(x) for x, one in zip(self._seed_names, reasons, strict=False) if one == why]
        if len(own) == len(reasons) or not own:
            return why
        return f"{why} in seed{'s' * (len(own) > 1)} {listed(own)}"

    @property
    def is_undefined(self) -> bool:
        """Whether there is a reason in every seed why the scores have no value."""
        return self.scoring.undefined not in self._why_undefined

    def fall(self, after: Sample, name: str) -> Estimate:
        """Estimate a score minus that of another sample of the same clusters."""
        change = minus(self.measured(name), after.measured(name))
        undefined = self if self.value(name) is None else after
        return undefined.estimate(change, name, "paired bootstrap")

    @cached_property
    def draws(self) -> Mapping[str, Numbers]:
        """Every score in every resample of clusters; samples of the same clusters agree."""
        if not self.n_clusters:
            return dict.fromkeys(self.scoring.words, np.full(RESAMPLES, np.nan))
        return self._measure(self._seeds, unit_weights(self.n_clusters))

    def swapped(self, other: Sample, swaps: Mask) -> Mapping[str, Numbers]:
        """Return the differences to another sample of the same clusters where some are swapped.

        Of the answers of both, one after the other, each cluster's first or second has weight 1 and
        the other weight 0, so that ranks are those of the mixed answers.

        Args:
            other: the other sample.
            swaps: shape (n, n_clusters).
        """
        m, of_other = self.n_clusters, swaps.astype(np.uint8)
        scaled = self.scoring.swappable
        both = [
            _Columns(
                a.gold + b.gold,
                [*scaled(a.predicted), *scaled(b.predicted)],
                a.at + [at + m for at in b.at],
            )
            for a, b in zip(self._seeds, other._seeds, strict=True)
        ]
        mixed = np.hstack([1 - of_other, of_other])
        scores = self._measure(both, np.vstack([mixed, 1 - mixed]))
        halves = {name: np.split(values, 2) for name, values in scores.items()}
        return {name: first - rest for name, (first, rest) in halves.items()}

    @cached_property
    def _why_undefined(self) -> list[str]:
        return [self.scoring.why_undefined(*seed[:2]) for seed in self._seeds]

    @cached_property
    def _values(self) -> Mapping[str, Numbers]:
        return self._measure(self._seeds, np.ones((1, self.n_clusters)))

    def _measure(self, seeds: Sequence[_Columns], drawn: NDArray[Any]) -> dict[str, Numbers]:
        """Return the mean over seeds of every score in every resample."""
        made = [
            self.scoring.scores(gold, predicted, Resamples(drawn, np.array(at, dtype=np.int64)))
            for gold, predicted, at in seeds
        ]
        return {name: np.mean([one[name] for one in made], axis=0) for name in self.scoring.words}


@dataclass(frozen=True, kw_only=True)
class Score:
    """One score of the clean data and of the perturbed copy, and how much it falls."""

    before: Estimate
    after: Estimate
    drop: Estimate
    """Before minus after, paired."""
    net_drop: Estimate
    """The control's after minus the attack's: what the attack takes and the control does not."""
    swap: Callable[[], float | None] = field(repr=False, compare=False)

    @cached_property
    def p(self) -> float | None:
        """Two-sided p-value of the drop: before and after swapped within clusters.

        References:
            Yeh, "More accurate tests for the statistical significance of result differences", 2000.
        """
        return self.swap()

    @property
    def may_be_chance(self) -> bool:
        """Whether before and after differ no more than chance makes them differ."""
        low, high = self.drop.low, self.drop.high
        holds_0 = low is not None and high is not None and low <= 0 <= high
        return holds_0 or self.p is None or self.p > CHANCE


@dataclass(frozen=True, kw_only=True)
class Scores(Mapping[str, Score]):
    """The scores of one cell by name."""

    scoring: Scoring = field(metadata=HIDDEN)
    scores: Mapping[str, Score] = field(metadata=HIDDEN)
    parts: Sequence[str] = field(metadata=HIDDEN)
    """Types of the gold entities."""
    n_clusters: int = field(metadata=HIDDEN)
    clusters: str = field(metadata=HIDDEN)
    """What the clusters are: documents, sentences, pairs."""
    has_copy: bool = field(metadata=HIDDEN)
    """Whether the perturbed copy of the data was answered."""
    is_open: bool = field(default=False, metadata=HIDDEN)
    """Whether more than a tenth of the answers about the copy failed."""
    columns: Mapping[str, Any] = field(init=False, metadata=FLAT)
    """As a row of JSON has them: `f1`, `f1_after`, `f1_drop`, `f1_net_drop`."""

    def __post_init__(self) -> None:
        row: dict[str, Estimate] = {}
        for name, score in self.scores.items():
            row |= {name: score.before, f"{name}_after": score.after, f"{name}_drop": score.drop}
            row[f"{name}_net_drop"] = score.net_drop
        object.__setattr__(self, "columns", row)

    def __getitem__(self, name: str) -> Score:
        return self.scores[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    def doubt(self, metric: str) -> str | None:
        """Say that answers about the copy failed, or that noise outside entities surely takes more
        of a score; None where neither is so."""
        score = None if metric in self.scores else self.scores.get(_plain(metric))
        if score is not None and self.is_open:
            return COPY_FAILED
        high = None if score is None else score.net_drop.high
        return takes_more(NOISE_CONTROL) if high is not None and high < 0 else None

    @property
    def main(self) -> Score:
        """The main score."""
        return self.scores[self.scoring.main]

    @property
    def are_few(self) -> bool:
        """Whether there are too few clusters for an interval."""
        return self.n_clusters < self.scoring.enough


class Responses(NamedTuple):
    """The responses of one cell by seed and item."""

    clean: Mapping[Key, Response]
    after: Mapping[Key, Response]
    n_missing: int
    """Items and seeds without a clean answer, in this arm or another."""


def _scoring(cell: Cell) -> Scoring | None:
    """Return how the items of a cell are scored; None for questions: right or wrong says all."""
    kind = cell.trials[0].item.kind
    if kind == QUESTIONS:
        return None
    from medstress.tasks.kinds import kind_named

    return kind_named(kind).scores


def _has_copy(cell: Cell) -> bool:
    attack = cell.attack
    return (attack.whole_copy or not attack.judged) and not attack.asks_clean_only


def scores(run: Run, cell: Cell) -> Scores | None:
    """Score the clean data and the perturbed copy; None for items that have no scores.

    Clean scores are of the items that have an answer about their copy too, so that the two can be
    compared; of all items where there is no copy.
    """
    scoring = _scoring(cell)
    if scoring is None:
        return None
    ours = responses(run, cell)
    both = [key for key in ours.clean if key in ours.after]
    before = [ours.clean[key] for key in both or ours.clean]
    after = [ours.after[key] for key in both]
    control = next(iter(run.controls(cell).values()), None)
    net = None if control is None else _with_control(responses(run, control).after, ours.after)
    missing = "" if both or not ours.n_missing else f"; {ours.n_missing} without a clean answer"
    no_copy = "no perturbed copy was answered" if _has_copy(cell) else scoring.no_copy
    sample = Sample(scoring, before)
    return Scores(
        scoring=scoring,
        scores=_score(scoring, before, after, net, missing, no_copy),
        parts=scoring.parts(sample.gold),
        n_clusters=sample.n_clusters,
        clusters=sample.units,
        has_copy=bool(both),
        is_open=_has_copy(cell) and len(ours.clean) - len(both) > UNSEEN * len(ours.clean),
    )


def responses(run: Run, cell: Cell) -> Responses:
    """Return what a cell's model answered about whole items, clean and perturbed.

    The entities of a sentence share their queries. A search asks nothing of sentences without
    entities: their clean answers come from other arms of the same place. An item in which nothing
    can be perturbed keeps its clean answer.
    """
    has_copy = _has_copy(cell)
    clean: dict[Key, Response] = {}
    after: dict[Key, Response] = {}
    for trial in cell.trials:
        key = (trial.arm.seed, trial.item.id)
        if trial.before is not None and key not in clean:
            clean[key] = _response(trial, trial.before)
        last = trial.last or (trial.before if trial.verdict is Verdict.MEASURED else None)
        if has_copy and last is not None and key not in after:
            after[key] = _response(trial, last)._replace(edits=trial.edits)
    shared, missing = run.clean.get(cell.place, {}), set()
    for trial in cell.trials:
        key = (trial.arm.seed, trial.item.id)
        other = shared.get(trial.item.id)
        if key in clean:
            continue
        if other is None or other.before is None:
            missing.add(key)
        else:
            clean[key] = _response(trial, other.before)
    return Responses(clean, after, len(missing))


def _response(trial: Trial, answer: Answer) -> Response:
    return Response(trial.item, trial.cluster, trial.arm.seed, answer)


_Net: TypeAlias = tuple[Sequence[Response], Sequence[Response]]
"""Responses about the control's copies and the attack's, of the same seeds and items."""


def _with_control(control: Mapping[Key, Response], ours: Mapping[Key, Response]) -> _Net:
    """Pair responses by seed and item; an attack without random numbers counts for every seed."""
    shared = [
        (other_response, ours[key]._replace(seed=other_response.seed))
        for (seed, item), other_response in control.items()
        for key in dict.fromkeys(((seed, item), (None, item)))
        if key in ours
    ]
    return [other_response for other_response, _ in shared], [own for _, own in shared]


def _score(
    scoring: Scoring,
    before: Sequence[Response],
    after: Sequence[Response],
    net: _Net | None,
    missing: str,
    no_copy: str,
) -> dict[str, Score]:
    first = Sample(scoring, before)
    second = Sample(scoring, after) if after else None
    no_net = "there is no control" if net is None else "the control shares no item and seed"
    control = Sample(scoring, net[0]) if net and net[0] else None
    own = Sample(scoring, net[1]) if net and control else None
    differences: dict[str, Numbers] = {}  # of all scores, once one of them is asked for

    def p_of(name: str) -> float | None:
        """Return the p-value of the difference of both samples; None where it is undefined."""
        value, other = first.value(name), second.value(name) if second else None
        if second is None or value is None or other is None:
            return None

        def swapped(swaps: Mask) -> Numbers:
            if not differences:
                differences.update(first.swapped(second, swaps))
            return differences[name]

        return swap_p(value - other, swapped, first.n_clusters, scoring.seed)

    rows = {}
    names = {*first.names, *(second.names if second else ())}
    for name in (name for name in scoring.words if name in names):
        clean = first.estimate(first.measured(name), name)
        rows[name] = Score(
            before=replace(clean, method=clean.method + missing),
            after=second.estimate(second.measured(name), name) if second else unknown(no_copy),
            drop=first.fall(second, name) if second else unknown(no_copy),
            net_drop=control.fall(own, name) if control and own else unknown(no_net),
            swap=partial(p_of, name),
        )
    return rows


# Two arms on the same sentences or pairs -------------------------------------------------------


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

    def words(self, metric: str) -> str:
        """Return a measure in words."""
        name = _plain(metric)
        return f"{self.scoring.words[name]}{metric.removeprefix(name).replace('_', ' ')}"

    def contrast(self, metric: str) -> tuple[Estimate, Estimate, Difference]:
        """Return a measure of A, of B, and B minus A; `metric` is one of `shown`."""
        (first, a), (second, b) = (self._measured(sample, metric) for sample in (0, 1))
        name = _plain(metric)
        value_a, value_b = first.estimate(a, name), second.estimate(b, name)
        gap = minus(b, a)
        if gap.value is None:
            (undefined, is_b) = (first, False) if a.value is None else (second, True)
            why = f"undefined in {'B' if is_b else 'A'}: {undefined.why_undefined}"
            # Scores that are constant say as little as a correlation of 0: B lacks all of A's.
            lacks = is_b and second.is_undefined and self.scoring.is_signed
            p = _test(a, first)[0] if lacks and not metric.endswith("_drop") else None
            why += ", so p tests A against 0" * (p is not None)
            return value_a, value_b, Difference(estimate=unknown(why), p=p)
        change = first.estimate(gap, name, "paired bootstrap")
        p, ends = _test(gap, first)
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


def _test(score: Measured, sample: Sample) -> tuple[float | None, Ends]:
    """Return the p-value of a score of 0, and its 90 % interval; None without resamples."""
    drawn = score.drawn[np.isfinite(score.drawn)]
    if score.value is None or not drawn.size:
        return None, (None, None)
    fewer = min(int((drawn <= 0).sum()), int((drawn >= 0).sum()))
    p = min(1.0, 2 * (1 + fewer) / (1 + len(drawn)))
    low, high = percentiles(drawn)
    if high - low < ROUNDING:
        among = sample.among(score)
        return max(p, among.p(score.value)), among.ends(score.value, 0.9)
    low, high = np.quantile(drawn, (0.05, 0.95))
    return p, (float(low), float(high))


def scored(first: Run, a: Cell, second: Run, b: Cell, pairs: Pairs) -> Scored | None:
    """Return the samples of two arms on the sentences or pairs that both hold; None for questions.

    Args:
        first: the run of A.
        a: its arm.
        second: the run of B.
        b: its arm.
        pairs: the trials of both on the same item, part and seed.
    """
    scoring = _scoring(a)
    if scoring is None or not len(pairs):
        return None
    ours, others = responses(first, a), responses(second, b)
    shared: dict[tuple[Key, Key], str] = {}
    clusters: dict[int, str] = {}
    for i, j, unit in zip(pairs.first, pairs.second, pairs.units[0].tolist(), strict=True):
        one, other = a.trials[i], b.trials[j]
        key = (one.arm.seed, one.item.id), (other.arm.seed, other.item.id)
        shared[key] = clusters.setdefault(unit, one.cluster)
    clean = _both(shared, ours.clean, others.clean)
    after = _both(shared, ours.after, others.after)
    if keys := [key for key in clean if key in after]:
        clean = {key: clean[key] for key in keys}
    if not clean:
        return None

    def samples(some: Iterable[tuple[Response, Response]]) -> tuple[Sample, Sample]:
        one, other = (Sample(scoring, side) for side in zip(*some, strict=True))
        return one, other

    return Scored(
        scoring=scoring,
        n_items=len({one.item.id for one, _ in clean.values()}),
        clean=samples(clean.values()),
        after=samples(after[key] for key in keys) if keys else None,
    )


_Shared = Mapping[tuple[Key, Key], str]
"""Items that A and B share -> the cluster."""


def _both(
    shared: _Shared, ours: Mapping[Key, Response], others: Mapping[Key, Response]
) -> dict[tuple[Key, Key], tuple[Response, Response]]:
    """Return the responses of both under A's item, the shared cluster and a seed of either."""
    both = {}
    for key, cluster in shared.items():
        if key[0] in ours and key[1] in others:
            one, other = ours[key[0]], others[key[1]]
            seed = other.seed if one.seed is None else one.seed
            one = one._replace(cluster=cluster, seed=seed)
            both[key] = one, other._replace(item=one.item, cluster=cluster, seed=seed)
    return both
