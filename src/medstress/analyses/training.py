"""Models trained on perturbed copies beside others: scores before and after, clean and attacked.

Only items that all compared models have answered, clean and perturbed, count. Scores are means over
training seeds; from three seeds on they are resampled together with items.

References:
    Araujo et al., "On adversarial examples for biomedical NLP tasks", 2020, Tables 4 to 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from medstress.analyses.names import capital
from medstress.analyses.run import Analysis, Cell, Run
from medstress.analyses.scores import (
    Key,
    Response,
    Responses,
    Sample,
    responses,
)
from medstress.analyses.shown import (
    FLAT,
    HIDDEN,
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
from medstress.tasks.kinds import kind_named

ORIGINAL, ORIGINAL_TWICE = "original", "original twice"
"""The kinds of models that learn from no perturbed copy: from the data once, or twice."""
ACCURACY = "accuracy"
Where: TypeAlias = tuple[str, str, str]
"""Data set, group and attack."""
Pairs: TypeAlias = Sequence[tuple[str, str]]
"""Labels of models with the same training seed: one of `against`, one of the other kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One trained model; those of all folds answer under one label."""

    victim: str
    model: str
    """Its kind."""
    seed: int
    fold: int | None = None


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
        """What is gained under every attack."""
        points = [
            Point(row.attack, row.scores.gain, row.model, f"{row.dataset}, over {row.against}")
            for row in self.rows
            if row.scores.gain.value is not None
        ]
        return [
            Chart(
                name="gain",
                title="What training on perturbed copies gains under attack",
                kind="dots",
                x="attack",
                y="gain",
                points=tuple(points),
                unit=False,
            )
        ]

    def remarks(self) -> Sequence[Remark]:
        """What was said before training, and where names come from."""
        return [
            *(Remark("training", f"{capital(one)}.") for one in self.cautions),
            *(Remark("names_met", one, level="note") for one in on_names(self.adversarial)),
        ]


class TrainingOfRun:
    """Models before and after training on perturbed copies."""

    name = "training"

    def compute(self, run: Run) -> Training | None:
        """Compare the models of a trained run; None if the run trained nothing."""
        notes = run.manifest.get("training")
        if notes is None:
            return None
        names = [field.name for field in fields(Model)]
        models = [Model(**{name: row.get(name) for name in names}) for row in notes["models"]]
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
                if (compared := scorer.compare(place, pairs)) is not None:
                    rows.append(
                        Comparison(
                            **_names(place),
                            model=name,
                            against=against,
                            trained_on=place[2] in attacks,
                            measure=compared[0],
                            scores=compared[1],
                            n_seeds=len(pairs),
                        )
                    )
        alone = []
        for kind in dict.fromkeys(one.model for one in models):
            labels = list(dict.fromkeys(one.victim for one in models if one.model == kind))
            for place in scorer.places:
                compared = scorer.compare(place, [(victim, victim) for victim in labels])
                if compared is not None:
                    alone.append(
                        KindScores(
                            **_names(place),
                            model=kind,
                            n_seeds=len(labels),
                            measure=compared[0],
                            clean=compared[1].clean,
                            attacked=compared[1].attacked,
                        )
                    )
        return Training(
            folds=notes.get("folds"),
            models=models,
            adversarial=kinds,
            rows=rows,
            scores=alone,
            cautions=notes.get("cautions", ()),
        )


TRAINING = Analysis(TrainingOfRun.name, TrainingOfRun().compute)


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


def _names(place: Where) -> dict[str, str]:
    return dict(zip(("dataset", "group", "attack"), place, strict=True))


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
        """Models are compared several times."""

    def compare(self, place: Where, pairs: Pairs) -> tuple[str, Recovery] | None:
        """Return the measure, and the comparison; None until all models have answered."""
        keys = {victim: (Place(*place[:2], victim), place[2]) for both in pairs for victim in both}
        if not keys or any(key not in self._cells for key in keys.values()):
            return None
        cells = {victim: self._cells[key] for victim, key in keys.items()}
        first, second = [a for a, _ in pairs], [b for _, b in pairs]
        scoring = kind_named(next(iter(cells.values())).trials[0].item.kind).scores
        if scoring is None:
            compared = _by_accuracy(cells, first, second)
            return None if compared is None else (ACCURACY, compared)
        for victim, key in keys.items():
            if key not in self._answers:
                self._answers[key] = responses(self._run, cells[victim])
        answers = {victim: self._answers[key] for victim, key in keys.items()}
        shared = set.intersection(*({*one.clean} & {*one.after} for one in answers.values()))
        if not shared:
            return None
        # The items that all compared models have answered, clean and perturbed.
        order = tuple(sorted(shared, key=lambda key: (key[0] is not None, key[0] or 0, key[1])))
        some = next(iter(answers.values())).clean
        sample = Sample(scoring, [some[key] for key in order])

        def over(labels: Sequence[str], side: Literal["clean", "after"]) -> Measured:
            """Return the mean of the main score over models."""
            for victim in labels:
                key = victim, place, side, order
                if key not in self._measured:
                    own: Mapping[Key, Response] = getattr(answers[victim], side)
                    of_model = Sample(scoring, [own[one] for one in order], sample.clusters)
                    self._measured[key] = of_model.measured(scoring.main)
            return over_seeds([self._measured[victim, place, side, order] for victim in labels])

        four = Four(
            clean=over(first, "clean"),
            attacked=over(first, "after"),
            trained_clean=over(second, "clean"),
            trained_attacked=over(second, "after"),
        )
        n, limits = sample.n_clusters, (-1.0 if scoring.is_signed else 0.0, 1.0)
        method = sample.few or method_of(f"{n} clusters, paired", len(pairs))
        return scoring.main, recovery(four, n, method, limits)


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
