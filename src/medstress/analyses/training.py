"""Models trained on perturbed copies, against others: scores before and after, clean and attacked.

Only items that all compared models have answered, clean and perturbed, count. Scores are means over
training seeds; from three seeds on they are resampled together with items.

References:
    Araujo et al., "On adversarial examples for biomedical NLP tasks", 2020, Tables 4 to 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

from medstress.analyses.run import Analysis, Run
from medstress.analyses.scores import Responses, Sample, responses
from medstress.analyses.shown import (
    FLAT,
    HIDDEN,
    Chart,
    Point,
    Remark,
    Shown,
    Table,
    capital,
    column,
    decimal,
    named,
    table,
)
from medstress.core.arms import Place
from medstress.stats.estimate import Estimate
from medstress.stats.trainings import Measured, Recovery, method_of, over_seeds, recovery
from medstress.tasks.kinds import kind_named
from medstress.tasks.scores import Scoring

ORIGINAL, ORIGINAL_TWICE = "original", "original twice"
"""The kinds of models that learn from no perturbed copy: from the data once, or twice."""
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
    """Models of one kind against others, under one attack."""

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
    """A score of one kind of models under one attack, over its training seeds."""

    dataset: str
    group: str
    attack: str
    model: str
    n_seeds: int
    measure: str
    clean: Estimate
    attacked: Estimate
    is_main: bool = field(metadata=HIDDEN)
    """Whether it is the score that models are compared by."""


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
        """Kinds of models against others, then every kind alone."""
        folds = [
            f"Cross-validated in {self.folds} folds, split again for each seed: every item is "
            "answered by a model that has not been trained on its document."
        ] * bool(self.folds)
        drawn = (
            "Means over training seeds. Intervals draw documents or pairs, the same for all "
            "scores, and training seeds too where there are three or more; with fewer they say "
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
                "Models trained on perturbed copies, against others",
                self.rows,
                [*_LABELS, *_COMPARED],
                n_labels=5,
                notes=[meant, drawn, *folds, *on_names(self.adversarial)],
            ),
            table(
                "training-scores",
                "Every kind of models, over all its training seeds",
                [row for row in self.scores if row.is_main],
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
        """What was said before training."""
        return [Remark("training", f"{capital(one)}.") for one in self.cautions]


def training_of(run: Run) -> Training | None:
    """Compare the models of a trained run; None if the run trained nothing."""
    notes = run.manifest.get("training")
    if notes is None:
        return None
    names = [field.name for field in fields(Model)]
    models = [Model(**{name: row.get(name) for name in names}) for row in notes["models"]]
    kinds = [Kind(**row) for row in notes["adversarial"]]
    scorer, rows, alone = _Scorer(run), [], []
    victims: dict[str, dict[int, str]] = {}
    for one in models:
        victims.setdefault(one.model, {})[one.seed] = one.victim
    for name, attacks, against in _comparisons(victims, kinds):
        ours, others = victims.get(name, {}), victims.get(against, {})
        pairs = [(others[seed], ours[seed]) for seed in others if seed in ours]
        for place in scorer.places:
            for measure, compared in scorer.compare(place, pairs, main_only=True).items():
                rows.append(
                    Comparison(
                        **_names(place),
                        model=name,
                        against=against,
                        trained_on=place[2] in attacks,
                        measure=measure,
                        scores=compared,
                        n_seeds=len(pairs),
                    )
                )
    for kind, of_seeds in victims.items():
        pairs = [(victim, victim) for victim in of_seeds.values()]
        for place in scorer.places:
            for i, (measure, compared) in enumerate(scorer.compare(place, pairs).items()):
                alone.append(
                    KindScores(
                        **_names(place),
                        model=kind,
                        n_seeds=len(pairs),
                        measure=measure,
                        clean=compared.clean,
                        attacked=compared.attacked,
                        is_main=i == 0,
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


TRAINING = Analysis("training", training_of)


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
                yield (
                    f"{name}: {decimal(share, 2)} of the mentions that {attack} replaces get a "
                    "name that it is trained on."
                )
        if kind.n_left_out is not None:
            steps = "; so it makes fewer steps" if kind.n_left_out else ""
            yield (
                f"{name}: {kind.n_left_out:,} of {kind.n_offered or 0:,} items are left out, as "
                f"they have such a name{steps}."
            )


def _comparisons(
    models: Iterable[str], kinds: Sequence[Kind]
) -> Iterator[tuple[str, Sequence[str], str]]:
    """Yield (kind of models, attacks it is trained on, kind that it is compared with)."""
    for kind in kinds:
        yield kind.name, kind.attacks, ORIGINAL
    if ORIGINAL_TWICE in models:
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
        self._samples: dict[Any, tuple[Sample, Sample]] = {}
        """Models are compared several times."""

    def compare(
        self, place: Where, pairs: Pairs, *, main_only: bool = False
    ) -> Mapping[str, Recovery]:
        """Compare models by each score, the main one first; nothing until all have answered."""
        keys = {victim: (Place(*place[:2], victim), place[2]) for both in pairs for victim in both}
        if not keys or any(key not in self._cells for key in keys.values()):
            return {}
        for key in keys.values():
            if key not in self._answers:
                self._answers[key] = responses(self._run, self._cells[key])
        answers = {victim: self._answers[key] for victim, key in keys.items()}
        shared = set.intersection(*({*one.clean} & {*one.after} for one in answers.values()))
        if not shared:
            return {}
        # The items that all compared models have answered, clean and perturbed.
        order = tuple(sorted(shared, key=lambda key: (key[0] is not None, key[0] or 0, key[1])))
        some = next(iter(answers.values())).clean
        scoring = kind_named(some[order[0]].item.kind).scores
        assert scoring is not None
        for victim, one in answers.items():
            if (victim, place, order) not in self._samples:
                clean, after = ([part[key] for key in order] for part in (one.clean, one.after))
                both = Sample(scoring, clean), Sample(scoring, after)
                self._samples[victim, place, order] = both
        samples = {victim: self._samples[victim, place, order] for victim in keys}
        names = [scoring.main]
        if not main_only:
            names += [n for n in scoring.shown if n in next(iter(samples.values()))[0].names]
        return {name: _recovery(scoring, name, samples, pairs) for name in dict.fromkeys(names)}


def _recovery(
    scoring: Scoring, name: str, samples: Mapping[str, tuple[Sample, Sample]], pairs: Pairs
) -> Recovery:
    def mean(which: int, side: int) -> Measured:
        return over_seeds([samples[both[which]][side].measured(name) for both in pairs])

    sample = samples[pairs[0][0]][0]
    method = sample.few or method_of(f"{sample.n_clusters} clusters, paired", len(pairs))
    return recovery(
        mean(0, 0), mean(0, 1), mean(1, 0), mean(1, 1), sample.n_clusters, method, scoring.limits
    )


def _called(measure: str) -> str:
    """Return what people call a measure."""
    return {"f1": "F1", "pearson": "Pearson"}.get(measure, measure.replace("_", " "))


_LABELS = (
    named("Attack", "attack"),
    named("Data", "dataset", wide=True),
    named("Group", "group", wide=True),
    named("Model", "model"),
)
_SEEDS = column("Seeds", "n_seeds", "count")
_MEASURE = column("Measure", lambda row: _called(row.measure), key="measure", wide=True)
_COMPARED = (
    column("Other model", "against"),
    _SEEDS,
    column("Trained on it", lambda row: "yes" if row.trained_on else "no"),
    _MEASURE,
    column("Other, clean", "scores.clean", "score", wide=True),
    column("Other, attacked", "scores.attacked", "score", wide=True),
    column("Model, clean", "scores.trained_clean", "score", wide=True),
    column("Model, attacked", "scores.trained_attacked", "score", wide=True),
    column("Clean loss", "scores.clean_loss", "score"),
    column("Gain", "scores.gain", "score"),
    column("Recovered", "scores.recovered", "percent", wide=True),
)
_ALONE = (
    _SEEDS,
    _MEASURE,
    column("Clean", "clean", "score"),
    column("Attacked", "attacked", "score"),
)
