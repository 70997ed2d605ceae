"""Scores of a whole data set, clean and perturbed: F1 of tagged texts, correlations of pairs.

A kind of item says how answers become a *sample* that can be scored; what is estimated, compared
and shown is the same for all. Clusters (documents, pairs that share a sentence) are drawn whole,
before and after together, so that the difficulty of a document cancels in their difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from medstress.analyses.as_json import FLAT, HIDDEN
from medstress.analyses.names import control_words
from medstress.analyses.run import Cell, Run
from medstress.analyses.shown import (
    Chart,
    Entry,
    Field,
    Point,
    Remark,
    Table,
    Value,
    column,
    panel,
    table,
    where,
)
from medstress.core.outcomes import Verdict
from medstress.core.text import Edit
from medstress.core.trials import Answer, Trial
from medstress.kinds import scoring_of
from medstress.kinds.scores import Resamples, Scoring
from medstress.stats.estimate import Estimate, unknown
from medstress.stats.permutation import swap_p
from medstress.stats.resampling import RESAMPLES, bootstrapped, unit_weights
from medstress.stats.shares import Mask, Numbers

FAMILY = "before_after"
"""Family of the tests of main scores; every other score has a family of its own."""
CHANCE = 0.05
"""A difference whose p-value lies above it may be chance."""
Key: TypeAlias = tuple[int | None, str]
"""Seed and id of an item."""


class Response(NamedTuple):
    """What the model answered about a whole item: a sentence with all its entities, a pair."""

    item: Any
    cluster: str
    seed: int | None
    answer: Answer
    edits: tuple[Edit, ...] = ()
    """Of the perturbed copy; none for the clean item."""


class Sample:
    """Answers of one arm about whole items, from which the scores of their kind are computed."""

    def __init__(
        self,
        scoring: Scoring,
        answers: Sequence[Response],
        clusters: Sequence[str],
        part: str | None = None,
    ) -> None:
        """Arrange answers.

        Args:
            scoring: how they are scored.
            answers: those of several seeds, if there are.
            clusters: the order of clusters.
            part: the only part that counts (`Scoring.parts`); None for all.
        """
        self.scoring, self.n_clusters = scoring, len(clusters)
        place = {cluster: i for i, cluster in enumerate(clusters)}
        by_seed: dict[int | None, dict[str, tuple[Any, Any, int]]] = {}
        for i, one in enumerate(answers):
            pair = scoring.read(one.item, one.edits, one.answer)
            if pair is None:
                continue
            gold, predicted = (x if part is None else scoring.of_part(x, part) for x in pair)
            seed, name = (one.seed, one.item.id) if scoring.by_seed else (None, str(i))
            by_seed.setdefault(seed, {})[name] = gold, predicted, place[one.cluster]
        of_all = set.intersection(*map(set, by_seed.values())) if by_seed else set()
        seeds = sorted(by_seed, key=lambda seed: (seed is not None, seed or 0))
        self._rows = [
            [by_seed[seed][name] for name in (sorted(of_all) if scoring.by_seed else by_seed[seed])]
            for seed in seeds
        ] or [[]]
        first = self._rows[0]
        self.counted = scoring.n(*([one[i] for one in first] for i in (0, 1)))
        """What each score is counted over."""

    @property
    def gold(self) -> Sequence[Any]:
        """The gold value of every answer."""
        return [gold for rows in self._rows for gold, _, _ in rows]

    @property
    def names(self) -> Sequence[str]:
        """The scores that are worth showing."""
        return self.scoring.names(self.counted)

    def value(self, name: str) -> float | None:
        """Return a score; None where it is undefined."""
        value = float(self._values[name][0])
        return value if np.isfinite(value) else None

    def n(self, name: str) -> int:
        """Return what a score is counted over."""
        return self.counted[name]

    @cached_property
    def draws(self) -> Mapping[str, Numbers]:
        """Every score in every resample of clusters; samples of the same clusters agree."""
        if not self.n_clusters:
            return dict.fromkeys(self.scoring.words, np.full(RESAMPLES, np.nan))
        return self._measure(self._rows, unit_weights(self.n_clusters))

    def swapped(self, other: Sample, swaps: Mask) -> Mapping[str, Numbers]:
        """Return the differences to another sample of the same clusters where some are swapped.

        Of the answers of both, one after the other, each cluster's first or second has weight 1 and
        the other weight 0, so that ranks are those of the mixed answers.

        Args:
            other: the other sample.
            swaps: shape (n, n_clusters).
        """
        m, of_other = self.n_clusters, swaps.astype(np.uint8)
        both = [
            [*ours, *((gold, predicted, at + m) for gold, predicted, at in others)]
            for ours, others in zip(self._rows, other._rows, strict=True)
        ]
        mixed = np.hstack([1 - of_other, of_other])
        scores = self._measure(both, np.vstack([mixed, 1 - mixed]))
        halves = {name: np.split(values, 2) for name, values in scores.items()}
        return {name: first - rest for name, (first, rest) in halves.items()}

    @cached_property
    def _values(self) -> Mapping[str, Numbers]:
        return self._measure(self._rows, np.ones((1, self.n_clusters)))

    def _measure(
        self, rows: Sequence[Sequence[tuple[Any, Any, int]]], drawn: NDArray[Any]
    ) -> dict[str, Numbers]:
        """Return the mean over seeds of every score in every resample."""
        made = []
        for one in rows:
            gold, predicted = ([row[i] for row in one] for i in (0, 1))
            places = np.array([at for _, _, at in one], dtype=np.int64)
            made.append(self.scoring.scores(gold, predicted, Resamples(drawn, places)))
        return {name: np.mean([one[name] for one in made], axis=0) for name in self.scoring.words}


def clusters_named(scoring: Scoring, answers: Sequence[Response]) -> str:
    """Return what the clusters of answers are, for people."""
    return scoring.units[any(one.cluster != one.item.id for one in answers)]


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
    by_type: Mapping[str, Mapping[str, Score]] = field(metadata=HIDDEN)
    n_clusters: int = field(metadata=HIDDEN)
    clusters: str = field(metadata=HIDDEN)
    """What the clusters are: documents, sentences, pairs."""
    has_copy: bool = field(metadata=HIDDEN)
    """Whether the perturbed copy of the data was answered."""
    has_control: bool = field(metadata=HIDDEN)
    columns: Mapping[str, Any] = field(init=False, metadata=FLAT)
    """As a row of JSON has them: `f1`, `f1_after`, `f1_drop`, `f1_net_drop`, `by_type`."""

    def __post_init__(self) -> None:
        row: dict[str, Any] = _columns(self.scores, net=True)
        if self.by_type:
            row["by_type"] = {t: _columns(scores, net=False) for t, scores in self.by_type.items()}
        object.__setattr__(self, "columns", row)

    def __getitem__(self, name: str) -> Score:
        return self.scores[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

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


def scores(run: Run, cell: Cell) -> Scores | None:
    """Score the clean data and the perturbed copy; None for items that have no scores.

    Clean scores are of the items that have an answer about their copy too, so that the two can be
    compared; of all items where there is no copy.
    """
    scoring = scoring_of(cell.trials[0].item)
    if scoring is None:
        return None
    ours = responses(run, cell)
    both = [key for key in ours.clean if key in ours.after]
    before = [ours.clean[key] for key in both or ours.clean]
    after = [ours.after[key] for key in both]
    control = next(iter(run.controls(cell).values()), None)
    net = None if control is None else _with_control(responses(run, control).after, ours.after)
    missing = "" if both or not ours.n_missing else f"; {ours.n_missing} without a clean answer"
    by_type = {
        part: _score(scoring, before, after, None, missing, part)
        for part in scoring.parts(Sample(scoring, before, _clusters(before)).gold)
    }
    return Scores(
        scoring=scoring,
        scores=_score(scoring, before, after, net, missing),
        by_type=by_type,
        n_clusters=len(_clusters(before)),
        clusters=clusters_named(scoring, before),
        has_copy=bool(both),
        has_control=control is not None,
    )


def responses(run: Run, cell: Cell) -> Responses:
    """Return what a cell's model answered about whole items, clean and perturbed.

    The entities of a sentence share their queries. A search asks nothing of sentences without
    entities: their clean answers come from other arms of the same place. An item in which nothing
    can be perturbed keeps its clean answer.
    """
    attack = cell.attack
    has_copy = (attack.whole_copy or not attack.judged) and not attack.asks_clean_only
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
    """Pair responses by seed and item; an attack without random numbers stands for every seed."""
    shared = [
        (theirs, ours[key]._replace(seed=theirs.seed))
        for (seed, item), theirs in control.items()
        for key in dict.fromkeys(((seed, item), (None, item)))
        if key in ours
    ]
    return [theirs for theirs, _ in shared], [own for _, own in shared]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Drawn:
    """A sample with its resamples."""

    scoring: Scoring
    sample: Sample
    draws: Mapping[str, Numbers]
    """Empty where there are too few clusters for an interval."""
    clusters: str

    def score(self, name: str) -> Estimate:
        """Estimate a score."""
        return self._estimate(self.sample.value(name), self.draws.get(name), name, "bootstrap")

    def fall(self, after: _Drawn, name: str) -> Estimate:
        """Estimate this score minus that of another sample, which `n` is of."""
        a, b = self.sample.value(name), after.sample.value(name)
        value = None if a is None or b is None else a - b
        draws = self.draws[name] - after.draws[name] if self.draws else None
        return after._estimate(value, draws, name, "paired bootstrap")

    def _estimate(
        self, value: float | None, draws: Numbers | None, name: str, how: str
    ) -> Estimate:
        if value is None:
            return unknown(f"undefined: {self.scoring.undefined}")
        n, m = self.sample.n(name), self.sample.n_clusters
        if draws is None:
            few = f"too few {self.clusters} for an interval: {m}, and {self.scoring.enough} needed"
            return Estimate(value=value, n=n, low=None, high=None, method=few)
        over = f"{how} over {m} {self.clusters}, {RESAMPLES} resamples, percentile 95 %"
        return bootstrapped(value, draws, n, over)


def _drawn(
    scoring: Scoring,
    responses: Sequence[Response],
    clusters: Sequence[str],
    part: str | None = None,
) -> _Drawn:
    sample = Sample(scoring, responses, clusters, part)
    return _Drawn(
        scoring=scoring,
        sample=sample,
        draws=sample.draws if len(clusters) >= scoring.enough else {},
        clusters=clusters_named(scoring, responses),
    )


def _score(
    scoring: Scoring,
    before: Sequence[Response],
    after: Sequence[Response],
    net: _Net | None,
    missing: str,
    part: str | None = None,
) -> dict[str, Score]:
    clusters = _clusters(before)
    first = _drawn(scoring, before, clusters, part)
    second = _drawn(scoring, after, clusters, part) if after else None
    samples = [side.sample for side in (first, second) if side is not None]
    names = {name for sample in samples for name in sample.names}
    no_net = "there is no control" if net is None else "the control shares no item and seed"
    control, own = (
        (_drawn(scoring, side, _clusters(net[0])) for side in net) if net else (None, None)
    )
    differences: dict[str, Numbers] = {}  # of all scores, once one of them is asked for

    def swapped(name: str, swaps: Mask) -> Numbers:
        if not differences:
            differences.update(samples[0].swapped(samples[1], swaps))
        return differences[name]

    rows = {}
    for name in (name for name in scoring.words if name in names):
        clean = first.score(name)
        rows[name] = Score(
            before=replace(clean, method=clean.method + missing),
            after=second.score(name) if second else unknown(scoring.no_copy),
            drop=first.fall(second, name) if second else unknown(scoring.no_copy),
            net_drop=control.fall(own, name) if control and own else unknown(no_net),
            swap=partial(_p, scoring, samples, name, partial(swapped, name)),
        )
    return rows


def _p(
    scoring: Scoring, samples: Sequence[Sample], name: str, swapped: Callable[[Mask], Numbers]
) -> float | None:
    """Return the p-value of the difference of two samples; None where it is undefined."""
    values = [sample.value(name) for sample in samples]
    if len(samples) < 2 or None in values:
        return None
    first, second = samples
    fall = float(first.value(name)) - float(second.value(name))  # type: ignore[arg-type]
    return swap_p(fall, swapped, first.n_clusters, scoring.seed)


def _clusters(responses: Sequence[Response]) -> list[str]:
    return sorted({response.cluster for response in responses})


def _columns(scores: Mapping[str, Score], *, net: bool) -> dict[str, Estimate]:
    row: dict[str, Estimate] = {}
    for name, score in scores.items():
        row |= {name: score.before, f"{name}_after": score.after, f"{name}_drop": score.drop}
        if net:
            row[f"{name}_net_drop"] = score.net_drop
    return row


class Row(Protocol):
    """What tables, charts and remarks need of a row of results."""

    @property
    def cell(self) -> Cell:
        """Its trials."""

    @property
    def scores(self) -> Scores | None:
        """Its scores."""


RowT = TypeVar("RowT", bound=Row)


def tables(rows: Sequence[RowT], labels: Sequence[Field[RowT]]) -> list[Table]:
    """Return the scores of rows, then those by type of entity where there are several types.

    Args:
        rows: of results; those without scores are left out.
        labels: the columns that name a row.
    """
    scored = [row for row in rows if row.scores is not None]
    if not scored:
        return []
    scoring = _first(scored).scoring
    made = [
        table(
            "scores",
            "Scores of the whole data set, clean and perturbed",
            scored,
            [*labels, *_fields(scoring, scored)],
            n_labels=len(labels),
            notes=[scoring.note],
        )
    ]
    types = [(row, type_) for row in scored if row.scores for type_ in row.scores.by_type]
    if len({type_ for _, type_ in types}) > 1:
        fields = [
            *(_of_row(label) for label in labels),
            column("Type", lambda pair: pair[1]),
            *(
                _field(scoring, name, part, _by_type)
                for name in scoring.shown
                for part in ("before", "after")
            ),
        ]
        caption = "Scores by type of entity"
        made.append(table("scores_by_type", caption, types, fields, n_labels=len(labels) + 1))
    return made


def charts(rows: Sequence[Row]) -> list[Chart]:
    """Return the main score of the clean data, under attack and under the control."""
    scored = [row for row in rows if row.scores is not None and row.scores.main.before.n]
    if not scored:
        return []
    scoring, places = _first(scored).scoring, [row.cell.place for row in scored]
    word, points = scoring.words[scoring.main], []
    for row in scored:
        assert row.scores is not None
        main, of = row.scores.main, row.cell.arm.control_of
        marks = {"clean": main.before, "under attack": main.after}
        if of is not None:
            marks = {control_words(row.cell.attack.name): main.after}
        points += [
            Point(
                x=of or row.cell.attack.label,
                y=mark,
                series=name,
                panel=panel(row.cell.place, places),
            )
            for name, mark in marks.items()
            if mark.value is not None
        ]
    # What every row has comes first, so that it has the same colours with and without controls.
    points.sort(key=lambda point: point.series not in ("clean", "under attack"))
    return [
        Chart(
            name="scores",
            title=f"{word} of the clean data and of perturbed copies",
            kind="dots" if scoring.is_signed else "bars",
            x="attack",
            y=word,
            counts=scoring.counts,
            points=tuple(points),
            unit=not scoring.is_signed,
        )
    ]


def remarks(rows: Sequence[Row]) -> Iterator[Remark]:
    """Say what a reader of the scores of attacks has to know."""
    warned = set()
    for row in rows:
        scores, cell = row.scores, row.cell
        if scores is None or cell.arm.is_control:
            continue
        clean = {name: score.before for name, score in scores.items()}
        n, model = len(cell.trials), cell.place[::2]
        warning = scores.scoring.warning(clean, cell.place, n, list(scores.by_type))
        if warning is not None and model not in warned:
            warned.add(model)
            yield Remark(rule="answers", where=cell.place, sentence=warning)
        yield from _remarks(cell, scores)


def _remarks(cell: Cell, scores: Scores) -> Iterator[Remark]:
    at, main, scoring = where(cell.place, cell.attack.label), scores.main, scores.scoring
    word, attack = scoring.words[scoring.main], cell.attack.label
    if scores.are_few:
        yield Remark(
            rule="few_clusters",
            where=at,
            sentence=f"{attack}: {scores.n_clusters} {scores.clusters} are too few for an interval "
            f"of {word}; {scoring.enough} are needed.",
        )
    if not scores.has_copy:
        return
    if main.drop.value is None:
        yield Remark(
            rule="undefined_score",
            where=at,
            sentence=f"{word} of {cell.place.victim} under {attack} is undefined: "
            f"{scoring.undefined}.",
        )
    elif main.may_be_chance:
        yield Remark(
            rule="may_be_chance",
            where=at,
            sentence=f"{word} of {cell.place.victim} may differ under {attack} by chance alone.",
        )
    elif main.net_drop.low is not None and main.net_drop.low <= 0:
        yield Remark(
            rule="control_takes_as_much",
            where=at,
            sentence=f"{attack}: its control may take as much of {word}.",
        )
    if not scores.has_control and not cell.attack.judged:
        yield Remark(
            rule="no_control",
            where=at,
            level="note",
            sentence=f"{attack} has no control: harmless edits may take as much.",
        )


class ScoreTest(NamedTuple):
    """A score before against after, for the `tests` of a summary."""

    family: str
    what: str
    """The score, and the type of entity if it is of one."""
    difference: Estimate
    p: float | None
    method: str


def score_tests(scores: Scores) -> Iterator[ScoreTest]:
    """Yield a test of every score that falls, of all entities and by type where there are several.

    Scores of an arm are not tested where it has no perturbed copy.
    """
    if not scores.has_copy:
        return
    by_type = scores.by_type if len(scores.by_type) > 1 else {}
    for type_, of in {"": scores.scores, **by_type}.items():
        for name in (name for name in scores.scoring.falls if name in of):
            what = scores.scoring.words[name] + (f" of {type_}" if type_ else "")
            is_main = name == scores.scoring.main and not type_
            method = (
                f"{what} before minus after; the two swapped at random within {scores.clusters}, "
                "two-sided"
            )
            family = FAMILY if is_main else f"{FAMILY} {what}"
            yield ScoreTest(family, what, of[name].drop, of[name].p, method)


def _first(rows: Sequence[Row]) -> Scores:
    scores = rows[0].scores
    assert scores is not None
    return scores


_PARTS: Mapping[str, tuple[str, str]] = {
    "before": ("", ""),
    "after": (" after", "_after"),
    "drop": (" drop", "_drop"),
    "net_drop": (" drop, net of control", "_net_drop"),
}
"""Part of a score -> ending of its heading and of its name in CSV."""


def _fields(scoring: Scoring, rows: Sequence[RowT]) -> Iterator[Field[RowT]]:
    for name in scoring.shown:
        parts = ["before", "after"]
        if name in scoring.drops:
            parts += ["drop", "net_drop"] if name == scoring.main else ["drop"]
        for part in parts:
            yield _field(scoring, name, part, _of_all)
        if name == scoring.main:
            yield column(
                "p",
                lambda row: row.scores.main.p if row.scores else None,
                "p",
                tip="of the drop",
                key=f"{name}_p",
            )


def _of_all(row: Row) -> Mapping[str, Score]:
    return row.scores or {}


def _by_type(pair: tuple[Row, str]) -> Mapping[str, Score]:
    row, type_ = pair
    return row.scores.by_type[type_] if row.scores else {}


def _field(
    scoring: Scoring, name: str, part: str, of: Callable[[Any], Mapping[str, Score]]
) -> Field[Any]:
    heading, key = _PARTS[part]

    def read(row: Any) -> Value:
        score = of(row).get(name)
        if score is None:
            return None
        estimate: Estimate = {
            "before": score.before,
            "after": score.after,
            "drop": score.drop,
            "net_drop": score.net_drop,
        }[part]
        return None if estimate.value is None else estimate

    words = f"{scoring.words[name]}{heading}"
    return column(words, read, "score", key=f"{name}{key}", wide=name != scoring.main)


def _of_row(field: Field[RowT]) -> Field[tuple[RowT, str]]:
    def read(pair: tuple[RowT, str]) -> Value | Entry:
        return field.read(pair[0])

    return Field(column=field.column, read=read)
