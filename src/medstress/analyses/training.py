"""Models trained on perturbed copies beside others: scores before and after, clean and attacked.

Only items that all compared models have answered, clean and perturbed, count. Scores are means over
training seeds; from three seeds on they are resampled together with items.

References:
    Araujo et al., "On adversarial examples for biomedical NLP tasks", 2020, Tables 4 to 6.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from statistics import fmean
from typing import Any, Literal, TypeAlias

import numpy as np

from medstress.analyses.as_json import FLAT, HIDDEN
from medstress.analyses.names import capital
from medstress.analyses.run import Cell, Run
from medstress.analyses.scores import (
    Key,
    Response,
    Responses,
    Sample,
    clusters_named,
    responses,
)
from medstress.analyses.shown import (
    Chart,
    Field,
    Form,
    Point,
    Remark,
    Shown,
    Table,
    column,
    label,
    table,
)
from medstress.core.arms import Place
from medstress.kinds import scoring_of
from medstress.kinds.scores import Scoring
from medstress.stats.estimate import Estimate, with_worst
from medstress.stats.resampling import resampled_ratio
from medstress.stats.shares import Mask
from medstress.stats.trainings import (
    Four,
    Measured,
    Recovery,
    method_of,
    over_seeds,
    recovery,
)

ORIGINAL, ORIGINAL_TWICE = "original", "original twice"
"""The kinds of models that learn from no perturbed copy: from the data once, or twice."""
ACCURACY = "accuracy"
Where: TypeAlias = tuple[str, str, str]
"""Data set, group and attack."""
Pairs: TypeAlias = Sequence[tuple[str, str]]
"""Labels of models with the same training seed: one of `against`, one of the other kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """One point of a learning curve."""

    epoch: int
    steps: int
    loss: float | None
    """On training data."""
    score: float | None
    """On dev data."""
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One trained model; those of all folds answer under one label."""

    victim: str
    model: str
    """Its kind."""
    seed: int
    fold: int | None = None
    measure: str | None = None
    """What its epochs are scored by."""
    curve: Sequence[Epoch] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of models that are trained on perturbed copies."""

    name: str
    attacks: Sequence[str]
    """Labels of the attacks that make the copies."""
    redrawn: bool = False
    """Whether every epoch has copies of its own."""
    names_met: Mapping[str, float | None] = field(default_factory=dict)
    """Attack -> share of the replaced mentions whose new name is in the training data."""
    n_left_out: int | None = None
    """Items that hold such a name and are left out."""
    n_offered: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Models of one kind beside others, under one attack."""

    dataset: str
    group: str
    attack: str
    model: str
    against: str
    trained_on: bool
    """Whether the kind is trained on this attack."""
    measure: str
    scores: Recovery = field(metadata=FLAT)
    n_seeds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KindScores:
    """One kind of models under one attack, over its training seeds."""

    dataset: str
    group: str
    attack: str
    model: str
    n_seeds: int
    measure: str
    clean: Estimate
    attacked: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Training(Shown):
    """What training on perturbed copies changes."""

    folds: int | None
    """Folds of a cross-validation; None without."""
    models: Sequence[Model]
    adversarial: Sequence[Kind]
    rows: Sequence[Comparison]
    scores: Sequence[KindScores]
    cautions: Sequence[str] = field(metadata=HIDDEN)
    title = "Training"
    is_brief = True

    def tables(self) -> Sequence[Table]:
        """Kinds of models beside others, then every kind alone."""
        folds = [
            f"Cross-validated in {self.folds} folds, split anew for each seed: every item is "
            "answered by a model that has not been trained on its document."
        ] * bool(self.folds)
        drawn = (
            "Means over training seeds. Intervals draw documents, pairs or questions, the same for "
            "all scores, and from three training seeds on these as well; with fewer they say "
            "nothing of other seeds."
        )
        meant = (
            "Clean loss: the other model minus the model on clean data. Gain: the model minus the "
            "other on perturbed data. Recovered: the gain over what the attack takes from the "
            "other model; empty where that is not clear of zero."
        )
        return [
            table(
                "training",
                "Models trained on perturbed copies, beside others",
                self.rows,
                [*_LABELS, *_BESIDE],
                n_labels=4,
                notes=[meant, drawn, *folds, *on_names(self.adversarial)],
            ),
            table(
                "training-scores",
                "Every kind of models, over all its training seeds",
                self.scores,
                [*_LABELS, *_ALONE],
                n_labels=4,
                notes=[drawn, *folds],
            ),
        ]

    def charts(self) -> Sequence[Chart]:
        """What is gained under every attack, and learning curves."""
        gains = Chart(
            name="gain",
            title="What training on perturbed copies gains under attack",
            kind="dots",
            x="attack",
            y="gain",
            points=tuple(
                Point(
                    x=r.attack,
                    y=r.scores.gain,
                    series=r.model,
                    panel=f"{r.dataset}, over {r.against}",
                )
                for r in self.rows
                if r.scores.gain.value is not None
            ),
            unit=False,
        )
        measures = [one.measure for one in self.models if one.measure and one.curve]
        on_dev = _called(measures[0]) if measures else ""
        learning = [
            Chart(
                name=f"learning-{name}",
                title=f"Learning: {title}",
                kind="lines",
                x="epoch",
                y=title,
                points=tuple(_learning(self.models, of)),
                unit=False,
                by_model=True,
            )
            for name, of, title in (
                ("loss", lambda point: point.loss, "training loss"),
                ("score", lambda point: point.score, f"{on_dev} on dev data"),
            )
        ]
        return [gains, *learning]

    def remarks(self) -> Sequence[Remark]:
        """What was said before training, and where names come from."""
        return [
            *(Remark(rule="training", sentence=f"{capital(one)}.") for one in self.cautions),
            *(
                Remark(rule="names_met", sentence=one, level="note")
                for one in on_names(self.adversarial)
            ),
        ]


class TrainingOfRun:
    """Models before and after training on perturbed copies."""

    name = "training"

    def compute(self, run: Run) -> Training | None:
        """Compare the models of a trained run; None if the run trained nothing."""
        notes = run.manifest.get("training")
        if notes is None:
            return None
        models = [_model_from(row) for row in notes["models"]]
        kinds = [Kind(**row) for row in notes["adversarial"]]
        victims = {(one.model, one.seed): one.victim for one in models}
        seeds = list(dict.fromkeys(one.seed for one in models))
        scorer = _Scorer(run)
        rows = []
        for name, attacks, against in _comparisons(models, kinds):
            pairs = [
                (victims[against, seed], victims[name, seed])
                for seed in seeds
                if (against, seed) in victims and (name, seed) in victims
            ]
            for place in scorer.places:
                compared = scorer.compare(place, pairs)
                if compared is not None:
                    measure, scores = compared
                    rows.append(
                        Comparison(
                            **_names(place),
                            model=name,
                            against=against,
                            trained_on=place[2] in attacks,
                            measure=measure,
                            scores=scores,
                            n_seeds=len(pairs),
                        )
                    )
        by_kind: dict[str, dict[str, None]] = defaultdict(dict)
        for one in models:
            by_kind[one.model][one.victim] = None
        alone = [
            one_kind
            for kind, labels in by_kind.items()
            for place in scorer.places
            if (one_kind := scorer.alone(place, kind, list(labels))) is not None
        ]
        return Training(
            folds=notes.get("folds"),
            models=models,
            adversarial=kinds,
            rows=rows,
            scores=alone,
            cautions=notes.get("cautions", ()),
        )


TRAINING = TrainingOfRun()


def on_names(kinds: Iterable[Kind]) -> Iterator[str]:
    """Yield sentences on the names that models trained on synonyms may know.

    >>> kind = Kind(name="x", attacks=[], names_met={"synonym": 0.86}, n_left_out=3, n_offered=90)
    >>> for line in on_names([kind]):
    ...     print(line)
    X: .86 of the mentions that synonym replaces get a name that it is trained on.
    X: 3 of 90 items are left out, as they have such a name; so it makes fewer steps.
    """
    for kind in kinds:
        name = capital(kind.name)
        for attack, share in kind.names_met.items():
            if share is not None:
                text = f"{share:.2f}".replace("0.", ".", 1)
                yield (
                    f"{name}: {text} of the mentions that {attack} replaces get a name that it is "
                    "trained on."
                )
        if kind.n_left_out is not None:
            steps = "; so it makes fewer steps" if kind.n_left_out else ""
            yield (
                f"{name}: {kind.n_left_out:,} of {kind.n_offered or 0:,} items are left out, as "
                f"they have such a name{steps}."
            )


def _comparisons(
    models: Iterable[Model], kinds: Sequence[Kind]
) -> Iterator[tuple[str, Sequence[str], str]]:
    """Yield (kind of models, attacks it is trained on, kind that it is compared with)."""
    for kind in kinds:
        yield kind.name, kind.attacks, ORIGINAL
    if any(one.model == ORIGINAL_TWICE for one in models):
        yield ORIGINAL_TWICE, (), ORIGINAL
        for kind in kinds:
            yield kind.name, kind.attacks, ORIGINAL_TWICE


def _model_from(row: Mapping[str, Any]) -> Model:
    curve = [Epoch(**{name: point.get(name) for name in _EPOCH}) for point in row["curve"]]
    return Model(
        victim=row["victim"],
        model=row["model"],
        seed=row["seed"],
        fold=row.get("fold"),
        measure=row.get("measure"),
        curve=curve,
    )


_EPOCH = ("epoch", "steps", "loss", "score", "seconds")


def _names(place: Where) -> dict[str, str]:
    return dict(zip(("dataset", "group", "attack"), place, strict=True))


@dataclass(frozen=True, kw_only=True)
class _Shared:
    """The items that all compared models have answered, clean and perturbed."""

    scoring: Scoring
    place: Where
    answers: Mapping[str, Responses]
    keys: tuple[Key, ...]
    measured: dict[Any, Measured]
    """Kept by the scorer, as models are compared several times."""

    @cached_property
    def some(self) -> list[Response]:
        """The clean answers of one model."""
        return [next(iter(self.answers.values())).clean[key] for key in self.keys]

    @cached_property
    def clusters(self) -> list[str]:
        """Their clusters."""
        return sorted({response.cluster for response in self.some})

    @cached_property
    def few(self) -> str | None:
        """Why there is no interval; None if there are enough clusters."""
        n, enough = len(self.clusters), self.scoring.enough
        if n >= enough:
            return None
        words = clusters_named(self.scoring, self.some)
        return f"too few {words} for an interval: {n}, and {enough} needed"

    def over(self, labels: Sequence[str], side: Literal["clean", "after"]) -> Measured:
        """Return the mean of the main score over models, of clean answers or of perturbed ones."""

        def measured(victim: str) -> Measured:
            key = victim, self.place, side, self.keys
            if key not in self.measured:
                answers: Mapping[Key, Response] = getattr(self.answers[victim], side)
                sample = Sample(self.scoring, [answers[one] for one in self.keys], self.clusters)
                main, draws = self.scoring.main, {} if self.few else sample.draws
                drawn = draws.get(main, np.zeros(0))
                self.measured[key] = Measured(value=sample.value(main), drawn=drawn)
            return self.measured[key]

        return over_seeds([measured(victim) for victim in labels])


class _Scorer:
    """Scores models of a run under one attack."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._cells = {(cell.place, cell.attack.label): cell for cell in run.cells}
        self.places: Sequence[Where] = list(
            dict.fromkeys((*t.arm.place[:2], t.arm.attack.label) for t in run.trials)
        )
        self._answers: dict[tuple[Place, str], Responses] = {}
        self._measured: dict[Any, Measured] = {}

    def compare(self, place: Where, pairs: Pairs) -> tuple[str, Recovery] | None:
        """Return the measure, and the comparison; None until all models have answered."""
        labels = [victim for pair in pairs for victim in pair]
        cells = self._cells_of(place, labels)
        if cells is None:
            return None
        first, second = [a for a, _ in pairs], [b for _, b in pairs]
        if scoring_of(next(iter(cells.values())).trials[0].item) is None:
            compared = _by_accuracy(cells, first, second)
            return None if compared is None else (ACCURACY, compared)
        shared = self._shared(place, cells)
        if shared is None:
            return None
        main, n = shared.scoring.main, len(shared.clusters)
        four = Four(
            clean=shared.over(first, "clean"),
            attacked=shared.over(first, "after"),
            trained_clean=shared.over(second, "clean"),
            trained_attacked=shared.over(second, "after"),
        )
        method = shared.few or method_of(f"{n} clusters, paired", len(pairs))
        return main, recovery(four, n, method, _limits(shared.scoring))

    def alone(self, place: Where, kind: str, labels: Sequence[str]) -> KindScores | None:
        """Return the scores of one kind of models."""
        compared = self.compare(place, [(victim, victim) for victim in labels])
        if compared is None:
            return None
        measure, scores = compared
        return KindScores(
            **_names(place),
            model=kind,
            n_seeds=len(labels),
            measure=measure,
            clean=scores.clean,
            attacked=scores.attacked,
        )

    def _cells_of(self, place: Where, labels: Sequence[str]) -> dict[str, Cell] | None:
        keys = {victim: (Place(*place[:2], victim), place[2]) for victim in labels}
        if not keys or any(key not in self._cells for key in keys.values()):
            return None
        return {victim: self._cells[key] for victim, key in keys.items()}

    def _shared(self, place: Where, cells: Mapping[str, Cell]) -> _Shared | None:
        """Return what all models have answered; None if no item has a perturbed copy."""
        answers = {victim: self._responses(cell) for victim, cell in cells.items()}
        keys = set.intersection(*({*one.clean} & {*one.after} for one in answers.values()))
        scoring = scoring_of(next(iter(cells.values())).trials[0].item)
        if not keys or scoring is None:
            return None
        in_order = sorted(keys, key=lambda key: (key[0] is not None, key[0] or 0, key[1]))
        return _Shared(
            scoring=scoring,
            place=place,
            answers=answers,
            keys=tuple(in_order),
            measured=self._measured,
        )

    def _responses(self, cell: Cell) -> Responses:
        key = cell.place, cell.attack.label
        if key not in self._answers:
            self._answers[key] = responses(self._run, cell)
        return self._answers[key]


def _limits(scoring: Scoring) -> tuple[float, float]:
    return (-1.0 if scoring.is_signed else 0.0), 1.0


def _by_accuracy(
    cells: Mapping[str, Cell], first: Sequence[str], second: Sequence[str]
) -> Recovery | None:
    """Compare models by their accuracy on questions; open answers count at their worst too."""
    keys = {
        victim: {(t.item.id, t.arm.seed, t.repeat) for t in cell.trials if t.is_answered}
        for victim, cell in cells.items()
    }
    shared = set.intersection(*keys.values())
    if not shared:
        return None
    kept = {
        victim: cell.answered & cell.mask(lambda t: (t.item.id, t.arm.seed, t.repeat) in shared)
        for victim, cell in cells.items()
    }
    clusters = sorted(
        {cells[v].trials[i].cluster for v, mask in kept.items() for i in np.flatnonzero(mask)}
    )
    places = {cluster: i for i, cluster in enumerate(clusters)}

    def accuracy(victim: str, hits: Mask) -> Measured:
        sums = np.zeros((2, len(clusters)))
        for i in np.flatnonzero(kept[victim]):
            place = places[cells[victim].trials[i].cluster]
            sums[:, place] += hits[i], 1
        right, asked = sums
        value = float(right.sum() / asked.sum())
        return Measured(value=value, drawn=resampled_ratio(right, asked))

    def over(labels: Sequence[str], metric: Any, which: str) -> Measured:
        readings = {victim: cells[victim].read(metric) for victim in dict.fromkeys(labels)}
        return over_seeds([accuracy(v, getattr(readings[v], which)) for v in labels])

    def compared(ours: str, others: str) -> Recovery:
        """Compare with open answers read in one way for gains, in the other for losses."""
        four = Four(
            clean=over(first, "accuracy", ours),
            attacked=over(first, "accuracy_after", others),
            trained_clean=over(second, "accuracy", others),
            trained_attacked=over(second, "accuracy_after", ours),
        )
        n = len(clusters)
        return recovery(four, n, method_of(f"{n} clusters, paired", len(first)))

    middle = compared("hit", "hit")
    if not any(
        (cell.lacks | cell.open_clean | cell.unread)[kept[v]].any() for v, cell in cells.items()
    ):
        return middle
    least, most = compared("least", "most"), compared("most", "least")
    return replace(
        middle,
        clean=with_worst(middle.clean, least.clean, most.clean),
        attacked=with_worst(middle.attacked, most.attacked, least.attacked),
        trained_clean=with_worst(middle.trained_clean, most.trained_clean, least.trained_clean),
        trained_attacked=with_worst(
            middle.trained_attacked, least.trained_attacked, most.trained_attacked
        ),
        clean_loss=with_worst(middle.clean_loss, least.clean_loss, most.clean_loss),
        gain=with_worst(middle.gain, least.gain, most.gain),
    )


def _learning(models: Iterable[Model], of: Callable[[Epoch], float | None]) -> Iterator[Point]:
    """Yield learning curves; of folds, the mean of those that reached an epoch."""
    by_victim: dict[str, list[list[float | None]]] = defaultdict(list)
    for one in models:
        by_victim[one.victim].append([of(point) for point in one.curve])
    for victim, curves in by_victim.items():
        for epoch, values in enumerate(zip_longest(*curves), start=1):
            reached = [value for value in values if value is not None]
            if reached:
                yield Point(x=epoch, y=fmean(reached), series=victim)


def _called(measure: str) -> str:
    """Return what people call a measure."""
    return {"f1": "F1", "pearson": "Pearson"}.get(measure, measure.replace("_", " "))


def _estimate(heading: str, name: str, form: Form = "score", *, wide: bool = False) -> Field[Any]:
    def read(row: Comparison | KindScores) -> Estimate | None:
        estimate: Estimate = getattr(row.scores if isinstance(row, Comparison) else row, name)
        return None if estimate.value is None else estimate

    return column(heading, read, form, key=name, wide=wide)


_LABELS: Sequence[Field[Any]] = (
    column("Attack", lambda row: label(row.attack)),
    column("Data", lambda row: label(row.dataset), wide=True),
    column("Group", lambda row: label(row.group), wide=True),
    column("Model", lambda row: label(row.model)),
)
_SEEDS: Field[Any] = column("Seeds", "n_seeds", "count")
_MEASURE: Field[Any] = column("Measure", lambda row: _called(row.measure), key="measure", wide=True)
_BESIDE: Sequence[Field[Any]] = (
    column("Other model", "against"),
    _SEEDS,
    column("Trained on it", lambda row: "yes" if row.trained_on else "no"),
    _MEASURE,
    _estimate("Other, clean", "clean", wide=True),
    _estimate("Other, attacked", "attacked", wide=True),
    _estimate("Model, clean", "trained_clean", wide=True),
    _estimate("Model, attacked", "trained_attacked", wide=True),
    _estimate("Clean loss", "clean_loss"),
    _estimate("Gain", "gain"),
    _estimate("Recovered", "recovered", "percent", wide=True),
)
_ALONE = (
    _SEEDS,
    _MEASURE,
    _estimate("Clean", "clean"),
    _estimate("Attacked", "attacked"),
)
